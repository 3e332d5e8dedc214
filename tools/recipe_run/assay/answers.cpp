// Windows become answers as soon as the last one of a question came: no more than one question's
// scores are kept.
#include "tools/recipe_run/assay/answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/util/json.h"

namespace reciperun::engine {
namespace {

constexpr std::string_view kPrefix = "squad_v";

template <class T>
const T* numbers(const std::vector<char>& bytes) {
  return reinterpret_cast<const T*>(bytes.data());
}

// The settings of a conversion, as it printed them.
std::map<std::string, std::string> settings_of(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const Struct& setting :
       objects_of(report_of(Exit::kDataMismatch, assay_dataset_report, text(folder)), "settings"))
    out[name_of(setting, "key")] = name_of(setting, "value");
  return out;
}

std::string choice_of(const v1::Evaluation& evaluation) {
  static constexpr const char* kKeys[] = {"longest_answer", "n_best", "null_threshold"};
  JsonObject json;
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    const auto given = evaluation.arg().find(kAnswerArguments[i]);
    if (given != evaluation.arg().end()) json.raw(kKeys[i], given->second);
  }
  return json.text();
}

}  // namespace

bool answers_questions(const v1::Recipe& recipe) {
  return recipe.evaluation().evaluator().starts_with(kPrefix);
}

Answers::Answers(const assay_context* context, const v1::Recipe& recipe, const assay_model* model,
                 std::vector<int64_t> records)
    : context_(context),
      model_(model),
      records_(std::move(records)),
      choice_(choice_of(recipe.evaluation())),
      predictor_config_(predictor_config(recipe, evaluation_batch(recipe))) {
  const v1::DataRef& data = evaluation_data(recipe);
  const std::string folder = folder_of(recipe, data).string();
  if (prepared_as(data.lock()) != "windows")
    throw Error(Exit::kDataMismatch, "data '" + data.id() + "' are no questions to be answered",
                "a data set that 'dataset-convert squad' made");
  words_ = made<Text>(Exit::kDataMismatch, assay_text_create, text(folder), text(""));
  file_ = (fs::path(folder) / (data.split() + ".json")).string();
  squad_ = made<TextSquad>(Exit::kDataMismatch, assay_text_squad_open, text(file_));
  int32_t version = 0;
  call(Exit::kCrashed, assay_text_squad_size, squad_.get(), &questions_, &version);
  const std::string asked = recipe.evaluation().evaluator().substr(kPrefix.size());
  if (asked[0] - '0' != version)
    throw Error(Exit::kDataMismatch, fmt::format("data '{}' are SQuAD {}, the evaluator scores {}",
                                                 data.id(), version == 2 ? "2.0" : "1.1", asked));
  const auto settings = settings_of(folder);
  JsonObject cut;
  for (const char* key : {"sequence_length", "stride", "max_question"})
    cut.raw(key, settings.at(key));
  cut_ = cut.text();
}

void Answers::begin() {
  forward_.emplace(model_, predictor_config_);
  taken_ = 0, answered_ = 0, first_ = 0;
  open_question(0);
}

void Answers::add(const Batch& batch, int64_t rows) {
  const bool whole = info_of(batch.data()[0]).shape[0] == rows;
  const std::vector<Tensor> outputs =
      whole ? forward_->run(batch.data())
            : forward_->run(first_rows(context_, batch, forward_->inputs(), rows));
  std::vector<std::vector<char>> scores;
  for (const Tensor& tensor : outputs) {
    std::vector<char>& bytes = scores.emplace_back(info_of(tensor.get()).bytes);
    call(Exit::kCrashed, assay_tensor_read, tensor.get(), static_cast<void*>(bytes.data()),
         bytes.size());
  }
  const auto* ids = static_cast<const int32_t*>(info_of(batch.data()[0]).data);
  outputs_.resize(scores.size());
  for (int64_t row = 0; row < rows; ++row, ++taken_) {
    const int64_t record = records_.empty() ? static_cast<int64_t>(taken_) : records_[taken_];
    while (record >= first_ + windows_) {
      first_ += windows_;
      open_question(index_ + 1);
    }
    if (record != first_ + collected_) continue;  // of a question whose first windows are left out
    require_same_window(ids + row * length_);
    for (size_t k = 0; k < scores.size(); ++k) {
      const size_t bytes = scores[k].size() / static_cast<size_t>(rows);
      const char* from = scores[k].data() + static_cast<size_t>(row) * bytes;
      outputs_[k].insert(outputs_[k].end(), from, from + bytes);
    }
    if (++collected_ == windows_) answer();
  }
}

std::map<std::string, double> Answers::finish(const fs::path& folder) {
  forward_.reset();
  if (answered_ == 0)
    throw Error(Exit::kUsage, "no question was evaluated with all of its windows",
                "evaluate more of the data");
  const std::string path = (folder / "predictions.json").string();
  call(Exit::kCrashed, assay_text_squad_save, squad_.get(), text(path));
  const Struct score = report_of(Exit::kCrashed, assay_text_score, text(file_), text(path));
  const Struct& all = assay::tools::at(score, "all").struct_value();
  // Version 1.1 counts every question of the file, and those without a prediction as wrong.
  const double percent =
      100 * static_cast<double>(answered_) / static_cast<double>(integer_of(all, "questions"));
  const auto fraction = [&](const char* name) {
    return assay::tools::at(all, name).number_value() / percent;
  };
  return {{"exact_match", fraction("exact")}, {"f1", fraction("f1")}};
}

void Answers::open_question(int64_t index) {
  if (index >= questions_)
    throw Error(Exit::kDataMismatch, "the records are more windows than '" + file_ + "' has");
  index_ = index;
  question_ = made<TextQuestion>(Exit::kDataMismatch, assay_text_squad_question, squad_.get(),
                                 index, words_.get(), text(cut_));
  call(Exit::kCrashed, assay_text_question_size, question_.get(), &windows_, &length_);
  collected_ = 0;
  for (std::vector<char>& output : outputs_) output.clear();
}

// Records that left questions out, or of another file, would be taken for other questions' windows.
void Answers::require_same_window(const int32_t* ids) const {
  std::vector<int32_t> own(static_cast<size_t>(length_)), types(own.size());
  int32_t length = 0;
  call(Exit::kCrashed, assay_text_question_read, question_.get(), collected_, own.data(),
       types.data(), &length);
  if (!std::equal(own.begin(), own.end(), ids))
    throw Error(Exit::kDataMismatch,
                fmt::format("record {} is not the window of question {} in '{}'",
                            first_ + collected_, index_, file_),
                "evaluate on a split that leaves no question out, as \"dev\"");
}

void Answers::answer() {
  Struct answered;
  if (outputs_.size() == 2) {
    const auto n = static_cast<size_t>(windows_ * length_);
    answered =
        report_of(Exit::kCrashed, assay_text_question_answer, question_.get(),
                  numbers<float>(outputs_[0]), numbers<float>(outputs_[1]), n, text(choice_));
  } else {
    const auto count = [&](size_t k) {
      return static_cast<int64_t>(outputs_[k].size() / sizeof(float)) / windows_;
    };
    assay_text_spans spans{};
    spans.struct_size = sizeof spans;
    spans.windows = windows_, spans.starts = count(0), spans.ends = count(2) / count(0);
    spans.start = numbers<int32_t>(outputs_[0]);
    spans.start_log_prob = numbers<float>(outputs_[1]);
    spans.end = numbers<int32_t>(outputs_[2]);
    spans.end_log_prob = numbers<float>(outputs_[3]);
    if (outputs_.size() > 4) spans.class_logit = numbers<float>(outputs_[4]);
    answered = report_of(Exit::kCrashed, assay_text_question_answer_spans, question_.get(), &spans,
                         text(choice_));
  }
  call(Exit::kCrashed, assay_text_squad_answer, squad_.get(), index_,
       text(name_of(answered, "answer")));
  ++answered_;
}

}  // namespace reciperun::engine
