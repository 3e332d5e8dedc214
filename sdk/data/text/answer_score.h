// How answers to SQuAD's questions are scored: exact match and F1, as the official scripts of v1.1
// and v2.0 compute them, to the last digit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "sdk/data/text/squad.h"

namespace assay::data {

// Lower case, without ASCII punctuation, without the words a, an and the; single blanks between
// words.
std::string normalized_answer(std::string_view answer);

struct AnswerScore {
  double exact = 0;  // 1 if both are equal when normalized
  double f1 = 0;     // of the words that both have: 2pr / (p + r)
};
// Against one gold answer. Without words on a side F1 is 0 in v1.1; in v2.0 it is 1 if both have
// none.
AnswerScore score_answer(std::string_view prediction, std::string_view gold, bool version_2);

// Means over questions, in percent. NaN for none.
struct AnswerScores {
  int64_t questions = 0;
  double exact = 0, f1 = 0;
};
struct SquadScores {
  AnswerScores all;
  AnswerScores answerable, impossible;  // of v2.0
  int64_t missing = 0;                  // questions without a prediction
  int64_t foreign = 0;                  // predictions of ids that the file does not have
};

// By id of the question.
using Predictions = std::map<std::string, std::string, std::less<>>;

// The best score over the gold answers of each question. A question without a prediction scores 0
// in v1.1 and is left out in v2.0, as the official scripts do.
SquadScores score_predictions(const SquadFile& file, const Predictions& predictions);

// The official form: one object of id and text. kFormat with line and column.
Predictions parse_predictions(std::string_view json, std::string_view what);

}  // namespace assay::data
