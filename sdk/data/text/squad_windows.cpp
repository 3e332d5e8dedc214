// Windows over contexts that are too long, and which of them says most about a piece.
#include "sdk/data/text/squad_windows.h"

#include <algorithm>
#include <span>
#include <string>

#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"
#include "sdk/data/text/unicode.h"

namespace assay::data {
namespace {

bool ends_a_word(char32_t c) {
  constexpr char32_t kNarrowNoBreakSpace = 0x202F;
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == kNarrowNoBreakSpace;
}

// The words of a text as Python's split sees them, with one blank between.
std::string single_blanks(std::string_view text) {
  std::string words;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_length(text), 1);
    const bool blank = is_white_space(decode_utf8(text, length));
    if (!blank) words += text.substr(0, length);
    if (blank && !words.empty() && words.back() != ' ') words += ' ';
    text.remove_prefix(length);
  }
  if (words.ends_with(' ')) words.pop_back();
  return words;
}

void split_words(std::string_view context, ContextPieces& pieces) {
  size_t begin = 0;
  const auto end_word = [&](size_t at) {
    if (at > begin) pieces.words.push_back(context.substr(begin, at - begin));
  };
  for (size_t at = 0; at < context.size();) {
    const size_t length = std::max<size_t>(utf8_length(context.substr(at)), 1);
    const bool blank = ends_a_word(decode_utf8(context.substr(at), length));
    if (blank) end_word(at);
    // The word that is being read has the next number; a blank has that of the word before it.
    const auto read = static_cast<int32_t>(pieces.words.size());
    pieces.word_of_byte.insert(pieces.word_of_byte.end(), length, blank ? read - 1 : read);
    at += length;
    if (blank) begin = at;
  }
  end_word(context.size());
}

// The pieces of `span` that are those of the answer's text alone: a word may hold more than it.
PieceSpan narrowed(PieceSpan span, const std::vector<int32_t>& answer,
                   const ContextPieces& context) {
  for (int32_t first = span.first; first <= span.last; ++first) {
    const auto last = first + static_cast<int32_t>(answer.size()) - 1;
    if (last < first || last > span.last) continue;
    if (std::ranges::equal(answer, std::span(context.ids).subspan(first, answer.size())))
      return {first, last};
  }
  return span;
}

// How much a window says about its piece: the smaller side counts, and a little its size.
double context_around(const Window& window, int32_t piece) {
  const int32_t left = piece - window.context_begin;
  const int32_t right = window.context_size - 1 - left;
  return std::min(left, right) + 0.01 * window.context_size;
}

void mark_best_context(std::vector<Window>& windows, int32_t pieces) {
  std::vector<Window*> best(static_cast<size_t>(pieces));  // of equal ones the first
  for (Window& window : windows) {
    for (int32_t i = 0; i < window.context_size; ++i) {
      const int32_t piece = window.context_begin + i;
      Window*& known = best[static_cast<size_t>(piece)];
      if (known == nullptr || context_around(window, piece) > context_around(*known, piece))
        known = &window;
    }
  }
  for (int32_t piece = 0; piece < pieces; ++piece) {
    Window& window = *best[static_cast<size_t>(piece)];
    window.best_context[static_cast<size_t>(piece - window.context_begin)] = true;
  }
}

// Every window has room to reach the next one, however long the question is.
void check(const WindowOptions& options) {
  const int64_t least = options.max_question + options.stride + 3;
  expect(options.stride >= 1 && options.max_question >= 0 && options.sequence_length >= least,
         {"windows", "sequence_length"}, options.sequence_length, "at least ", least,
         ": max_question (", options.max_question, "), stride (", options.stride,
         ") and 3 for [CLS] and [SEP]");
}

}  // namespace

ContextPieces cut_context(std::string_view context, const Tokenizer& tokenizer) {
  ContextPieces pieces;
  split_words(context, pieces);
  for (size_t word = 0; word < pieces.words.size(); ++word) {
    pieces.first_piece.push_back(static_cast<int32_t>(pieces.ids.size()));
    tokenizer.append(pieces.words[word], pieces.ids);
    pieces.word_of_piece.resize(pieces.ids.size(), static_cast<int32_t>(word));
  }
  pieces.first_piece.push_back(static_cast<int32_t>(pieces.ids.size()));
  return pieces;
}

std::optional<PieceSpan> answer_span(const SquadQuestion& question, const ContextPieces& context,
                                     const Tokenizer& tokenizer) {
  const SquadAnswer& answer = question.answers.front();
  if (context.words.empty() || answer.text.empty()) return std::nullopt;
  const size_t last_byte =
      std::min(answer.begin + answer.text.size(), context.word_of_byte.size()) - 1;
  const auto first_word = static_cast<size_t>(std::max(context.word_of_byte[answer.begin], 0));
  const auto last_word = static_cast<size_t>(std::max(context.word_of_byte[last_byte], 0));
  std::string words;
  for (size_t word = first_word; word <= last_word; ++word)
    words += cat(words.empty() ? "" : " ", context.words[word]);
  if (words.find(single_blanks(answer.text)) == std::string::npos) return std::nullopt;
  const PieceSpan span{context.first_piece[first_word], context.first_piece[last_word + 1] - 1};
  if (span.last < span.first) return std::nullopt;  // words of which the tokenizer keeps nothing
  return narrowed(span, tokenizer.ids(answer.text), context);
}

std::optional<PieceSpan> Window::find(const PieceSpan& span) const {
  if (span.first < context_begin || span.last >= context_begin + context_size) return std::nullopt;
  const int32_t shift = context_position - context_begin;
  return PieceSpan{span.first + shift, span.last + shift};
}

std::vector<Window> windows_of(std::string_view question, const ContextPieces& context,
                               const Tokenizer& tokenizer, const WindowOptions& options) {
  check(options);
  std::vector<int32_t> question_ids = tokenizer.ids(question);
  if (question_ids.size() > static_cast<size_t>(options.max_question))
    question_ids.resize(static_cast<size_t>(options.max_question));
  const int64_t room = options.sequence_length - static_cast<int64_t>(question_ids.size()) - 3;
  const SpecialIds& special = tokenizer.vocabulary().special();
  const auto pieces = static_cast<int64_t>(context.ids.size());
  std::vector<Window> windows;
  for (int64_t begin = 0; begin < pieces; begin += options.stride) {
    Window& window = windows.emplace_back();
    window.context_begin = static_cast<int32_t>(begin);
    window.context_size = static_cast<int32_t>(std::min(room, pieces - begin));
    window.ids = {special.classification};
    window.ids.insert(window.ids.end(), question_ids.begin(), question_ids.end());
    window.ids.push_back(special.separator);
    window.context_position = static_cast<int32_t>(window.ids.size());
    const auto first = context.ids.begin() + begin;
    window.ids.insert(window.ids.end(), first, first + window.context_size);
    window.ids.push_back(special.separator);
    window.best_context.resize(static_cast<size_t>(window.context_size));
    if (begin + window.context_size == pieces) break;
  }
  mark_best_context(windows, static_cast<int32_t>(pieces));
  return windows;
}

}  // namespace assay::data
