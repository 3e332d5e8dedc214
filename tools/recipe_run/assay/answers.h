// Questions of SQuAD, answered by a model that is being trained, and scored as the official scripts
// do.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// Whether evaluation.evaluator asks for this.
bool answers_questions(const v1::Recipe& recipe);
// What such an evaluator takes as evaluation.arg.
inline constexpr const char* kAnswerArguments[] = {"max_answer_length", "n_best",
                                                   "null_score_threshold"};

class Answers {
 public:
  // Of the split that the recipe evaluates on: all windows, or these `records`, upwards. `context`
  // and `model` outlive it. Error kDataMismatch for data that are not windows over questions of the
  // version that the evaluator scores.
  Answers(const assay_context* context, const v1::Recipe& recipe, const assay_model* model,
          std::vector<int64_t> records);

  // One evaluation: begins with the model's present weights, takes the windows in their order, the
  // first `rows` of each batch, and ends with the scores of the questions all of whose windows
  // came, "exact_match" and "f1" as fractions. Their answers are left in folder/predictions.json,
  // in the official form.
  void begin();
  void add(const Batch& batch, int64_t rows);
  std::map<std::string, double> finish(const fs::path& folder);

 private:
  void open_question(int64_t index);
  void require_same_window(const int32_t* ids) const;
  void answer();

  const assay_context* context_;
  const assay_model* model_;
  std::vector<int64_t> records_;
  std::string file_, cut_, choice_, predictor_config_;  // of questions, windows and answers
  int64_t questions_ = 0;
  Text words_;
  TextSquad squad_;
  // Of an evaluation:
  std::optional<Forward> forward_;
  size_t taken_ = 0;       // windows
  int64_t answered_ = 0;   // questions
  int64_t index_ = 0;      // the question whose windows come
  int64_t first_ = 0;      // record of its first window
  int64_t windows_ = 0;    // it has
  int64_t length_ = 0;     // of each
  int64_t collected_ = 0;  // of them
  TextQuestion question_;
  std::vector<std::vector<char>> outputs_;  // of the collected windows
};

}  // namespace reciperun::engine
