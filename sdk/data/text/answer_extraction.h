// From a model's scores of positions to the text of an answer, as ELECTRA's and BERT's scripts for
// SQuAD do it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/data/text/squad_windows.h"

namespace assay::data {

// Positions in the sequence of a window, both ends in it, and how much the model thinks of them:
// the sum of the log-probabilities of start and end.
struct SpanCandidate {
  int32_t start = 0, end = 0;
  double score = 0;
};

// A window, and what the model would answer from it.
struct AnsweredWindow {
  const Window* window = nullptr;
  std::vector<SpanCandidate> candidates;
};

struct AnswerText {
  std::string text;
  double score = 0;
};

struct ExtractionOptions {
  int64_t n_best = 20;          // texts that a window and a question keep
  int64_t longest_answer = 30;  // in pieces
};

// The texts of the best candidates over the windows of one question, best first, none twice: those
// that lie in the context, begin where no other window has more context around, and do not end
// before they begin. Of equal scores the earlier candidate is first. If none is left, "empty" with
// score 0, as the published scripts have it.
std::vector<AnswerText> best_answers(std::span<const AnsweredWindow> windows,
                                     const ContextPieces& context, const Tokenizer& tokenizer,
                                     const ExtractionOptions& options);

// The part of `original` whose words are `words`: tokenizer words joined by blanks, found in those
// of `original` and laid over its characters. `original` itself where they cannot be.
std::string aligned_text(std::string_view words, std::string_view original,
                         const Tokenizer& tokenizer);

}  // namespace assay::data
