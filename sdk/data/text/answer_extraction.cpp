// The n best texts. Pieces say which words are meant, and the paragraph how they are written.
#include "sdk/data/text/answer_extraction.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "sdk/base/error.h"
#include "sdk/base/utf8.h"

namespace assay::data {
namespace {

// The characters of a text that are no blanks: where each begins and how long it is.
struct Letters {
  struct Letter {
    size_t begin, size;
  };
  std::vector<Letter> letters;

  explicit Letters(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::max<size_t>(utf8_length(text.substr(at)), 1);
      if (text[at] != ' ') letters.push_back({at, size});
      at += size;
    }
  }
  // The number of the letter that holds byte `at`; that byte is no blank.
  size_t at_byte(size_t at) const {
    const auto after = std::ranges::upper_bound(letters, at, {}, &Letter::begin);
    return static_cast<size_t>(after - letters.begin()) - 1;
  }
};

std::string joined_pieces(std::span<const int32_t> ids, const Vocabulary& vocabulary) {
  std::string text;
  for (const int32_t id : ids) {
    std::string_view piece = vocabulary.piece(id);
    const bool continues = piece.starts_with(kContinues);
    if (continues) piece.remove_prefix(kContinues.size());
    if (!continues && !text.empty()) text += ' ';
    text += piece;
  }
  return text;
}

std::string joined_words(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) text += cat(text.empty() ? "" : " ", word);
  return text;
}

// The pieces of the context that a candidate means, if it can be an answer.
std::optional<PieceSpan> answerable_span(const SpanCandidate& candidate, const Window& window,
                                         const ExtractionOptions& options) {
  const auto first = window.piece_at(candidate.start), last = window.piece_at(candidate.end);
  if (!first || !last || *last < *first || *last - *first + 1 > options.longest_answer)
    return std::nullopt;
  if (!window.best_context[static_cast<size_t>(*first - window.context_begin)]) return std::nullopt;
  return PieceSpan{*first, *last};
}

std::string text_of(const PieceSpan& span, const ContextPieces& context,
                    const Tokenizer& tokenizer) {
  const auto pieces = std::span(context.ids)
                          .subspan(static_cast<size_t>(span.first),
                                   static_cast<size_t>(span.last - span.first) + 1);
  const auto first_word =
      static_cast<size_t>(context.word_of_piece[static_cast<size_t>(span.first)]);
  const auto last_word = static_cast<size_t>(context.word_of_piece[static_cast<size_t>(span.last)]);
  const auto words = std::span(context.words).subspan(first_word, last_word - first_word + 1);
  return aligned_text(joined_pieces(pieces, tokenizer.vocabulary()), joined_words(words),
                      tokenizer);
}

// Best first, each text once, at most `most`.
std::vector<AnswerText> best_of(std::vector<AnswerText> answers, int64_t most) {
  std::ranges::stable_sort(answers, std::greater(), &AnswerText::score);
  std::unordered_set<std::string> seen;
  std::erase_if(answers,
                [&](const AnswerText& answer) { return !seen.insert(answer.text).second; });
  if (answers.size() > static_cast<size_t>(most)) answers.resize(static_cast<size_t>(most));
  return answers;
}

}  // namespace

std::string aligned_text(std::string_view words, std::string_view original,
                         const Tokenizer& tokenizer) {
  std::string tokenized;
  tokenizer.append_words(original, tokenized);
  const size_t begin = tokenized.find(words);
  if (words.empty() || begin == std::string::npos) return std::string(original);
  const Letters theirs(tokenized), ours(original);
  if (theirs.letters.size() != ours.letters.size()) return std::string(original);
  const auto& first = ours.letters[theirs.at_byte(begin)];
  const auto& last = ours.letters[theirs.at_byte(begin + words.size() - 1)];
  return std::string(original.substr(first.begin, last.begin + last.size - first.begin));
}

std::vector<AnswerText> best_answers(std::span<const AnsweredWindow> windows,
                                     const ContextPieces& context, const Tokenizer& tokenizer,
                                     const ExtractionOptions& options) {
  std::vector<AnswerText> all;
  for (const AnsweredWindow& answered : windows) {
    std::vector<AnswerText> texts;
    for (const SpanCandidate& candidate : answered.candidates) {
      const auto span = answerable_span(candidate, *answered.window, options);
      if (span) texts.push_back({text_of(*span, context, tokenizer), candidate.score});
    }
    for (AnswerText& text : best_of(std::move(texts), options.n_best))
      all.push_back(std::move(text));
  }
  all = best_of(std::move(all), options.n_best);
  if (all.empty()) all.push_back({"empty", 0});
  return all;
}

}  // namespace assay::data
