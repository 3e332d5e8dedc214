// The scores of SQuAD. Python's rules where they show: Unicode's lower case and word characters,
// sums in the order of the file.
#include "sdk/data/text/answer_score.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/json_reader.h"
#include "sdk/base/utf8.h"
#include "sdk/data/text/unicode.h"

namespace assay::data {
namespace {

using Characters = std::vector<char32_t>;

Characters characters_of(std::string_view text) {
  Characters characters;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_length(text), 1);
    characters.push_back(decode_utf8(text, length));
    text.remove_prefix(length);
  }
  return characters;
}

bool is_ascii_punctuation(char32_t c) {
  return c < 128 && character_kind(c) == CharacterKind::kPunctuation;
}

// Whether the word-characters of [begin, end) are a, an or the.
bool is_article(const Characters& text, size_t begin, size_t end) {
  constexpr std::u32string_view kArticles[] = {U"a", U"an", U"the"};
  const std::u32string_view word(text.data() + begin, end - begin);
  return std::ranges::find(kArticles, word) != std::end(kArticles);
}

// A regular expression would be \b(a|an|the)\b.
void blank_articles(Characters& text) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_word_character(text[end])) ++end;
    if (is_article(text, begin, end)) std::fill(text.begin() + begin, text.begin() + end, U' ');
    begin = std::max(end, begin + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view normalized) {
  std::vector<std::string_view> words;
  while (!normalized.empty()) {
    const size_t end = std::min(normalized.find(' '), normalized.size());
    words.push_back(normalized.substr(0, end));
    normalized.remove_prefix(std::min(end + 1, normalized.size()));
  }
  return words;
}

double f1_of(std::string_view prediction, std::string_view gold, bool version_2) {
  const auto predicted = words_of(prediction), expected = words_of(gold);
  if (version_2 && (predicted.empty() || expected.empty()))
    return predicted.empty() == expected.empty();
  std::unordered_map<std::string_view, int64_t> left;
  for (const auto word : expected) ++left[word];
  const auto common =
      std::ranges::count_if(predicted, [&](std::string_view word) { return left[word]-- > 0; });
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

struct Sums {
  int64_t scored = 0;
  double exact = 0, f1 = 0;

  void add(const AnswerScore& score) {
    ++scored;
    exact += score.exact;
    f1 += score.f1;
  }
  AnswerScores means() const {
    if (scored == 0) {
      constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
      return {0, kNone, kNone};
    }
    const auto total = static_cast<double>(scored);
    return {scored, 100.0 * exact / total, 100.0 * f1 / total};
  }
};

AnswerScore best_score(const SquadQuestion& question, std::string_view prediction, bool version_2) {
  AnswerScore best;
  bool has_gold = false;
  for (const SquadAnswer& gold : question.answers) {
    if (version_2 && normalized_answer(gold.text).empty()) continue;
    has_gold = true;
    const AnswerScore score = score_answer(prediction, gold.text, version_2);
    best = {std::max(best.exact, score.exact), std::max(best.f1, score.f1)};
  }
  if (!has_gold && version_2) best = score_answer(prediction, "", true);
  return best;
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  Characters text = lower_case(characters_of(answer));
  std::erase_if(text, is_ascii_punctuation);
  blank_articles(text);
  std::string normalized;
  for (const char32_t c : text) {
    const bool blank = is_white_space(c);
    if (!blank) append_utf8(normalized, c);
    if (blank && !normalized.empty() && normalized.back() != ' ') normalized += ' ';
  }
  if (normalized.ends_with(' ')) normalized.pop_back();
  return normalized;
}

AnswerScore score_answer(std::string_view prediction, std::string_view gold, bool version_2) {
  const std::string predicted = normalized_answer(prediction), expected = normalized_answer(gold);
  return {predicted == expected ? 1.0 : 0.0, f1_of(predicted, expected, version_2)};
}

SquadScores score_predictions(const SquadFile& file, const Predictions& predictions) {
  SquadScores scores;
  Sums all, answerable, impossible;
  int64_t answered = 0;
  for (const SquadParagraph& paragraph : file.paragraphs) {
    for (const SquadQuestion& question : paragraph.questions) {
      const auto prediction = predictions.find(question.id);
      AnswerScore score;
      if (prediction == predictions.end()) {
        ++scores.missing;
        if (file.version_2) continue;
      } else {
        ++answered;
        score = best_score(question, prediction->second, file.version_2);
      }
      all.add(score);
      if (file.version_2) (question.answers.empty() ? impossible : answerable).add(score);
    }
  }
  scores.all = all.means();
  scores.answerable = answerable.means();
  scores.impossible = impossible.means();
  scores.foreign = static_cast<int64_t>(predictions.size()) - answered;
  return scores;
}

Predictions parse_predictions(std::string_view json, std::string_view what) {
  const JsonReader reader({json, what});
  const JsonValue root = reader.parse();
  if (root.kind != JsonValue::Kind::kObject)
    reader.fail_at(root, "predictions are one object: {\"question id\": \"answer\", ...}");
  Predictions predictions;
  for (const JsonMember& member : root.members) {
    if (member.value.kind != JsonValue::Kind::kText)
      reader.fail_at(member.value, "an answer is a text");
    predictions[member.key] = member.value.text;
  }
  return predictions;
}

}  // namespace assay::data
