// Text through the C interface: vocabularies, the windows of a question, and answers.
#include "capi/src/text.h"

#include <cmath>
#include <limits>
#include <optional>

#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "capi/src/trainer.h"
#include "datasets/text_conversion.h"
#include "sdk/base/config.h"
#include "sdk/base/file.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/text/answer_extraction.h"
#include "sdk/train/checkpoint/checkpoint.h"

namespace assay::capi {
namespace {

constexpr double kNeverNone = std::numeric_limits<double>::infinity();

struct TokenizerConfig {
  bool protect_special = true;
  int64_t longest_word = 100;
  void fields(ConfigFields& f) {
    f("protect_special", protect_special, "whether [MASK] and the like in a text are themselves");
    f("longest_word", longest_word, "words of more characters are [UNK]").in({1, 10'000, true});
  }
};

struct QuestionConfig {
  int64_t sequence_length = 384, stride = 128, max_question = 64;
  void fields(ConfigFields& f) {
    f("sequence_length", sequence_length, "pieces of a window").in({5, 512, true});
    f("stride", stride, "from one window's part of the paragraph to the next").in({1, 512, true});
    f("max_question", max_question, "pieces of the question that are kept").in({0, 512, true});
  }
};

struct AnswerConfig {
  int64_t n_best = 20, longest_answer = 30;
  std::optional<double> null_threshold;
  void fields(ConfigFields& f) {
    f("n_best", n_best, "best starts and ends of a window, and texts that are kept")
        .in({1, 512, true});
    f("longest_answer", longest_answer, "in pieces").in({1, 512, true});
    f("null_threshold", null_threshold,
      "above which there is no answer; none: there always is one");
  }
};

// What a checkpoint carries: keys of its metadata.
constexpr const char* kVocabularyKey = "assay.text.vocabulary";
constexpr const char* kTokenizerKey = "assay.text.tokenizer";

bool is_checkpoint(const std::string& path) {
  const File file = File::open_read(path);
  constexpr std::string_view kZip = "PK\x03\x04";
  char head[4];
  return file.read_at(head, sizeof head, 0) == sizeof head && std::string_view(head, 4) == kZip;
}

data::Tokenizer tokenizer_in(const checkpoint::CheckpointReader& file) {
  const auto& metadata = file.state().metadata;
  const auto vocabulary = metadata.find(kVocabularyKey), settings = metadata.find(kTokenizerKey);
  require(vocabulary != metadata.end() && settings != metadata.end(), Code::kNotFound, file.name(),
          " carries no vocabulary; name the file or the data set that it was trained with");
  TokenizerConfig config;
  parse_json(settings->second, config, cat(file.name(), ": the tokenizer"));
  return data::Tokenizer(data::Vocabulary::parse(vocabulary->second),
                         {config.protect_special, config.longest_word});
}

data::Tokenizer tokenizer_at(const std::string& path, assay_str config_json) {
  const bool is_folder = is_directory(path);
  if (!is_folder && !is_checkpoint(path)) {
    const auto config = parsed<TokenizerConfig>(to_text(config_json, "config_json"), "tokenizer");
    return data::Tokenizer(data::Vocabulary::read(path),
                           {config.protect_special, config.longest_word});
  }
  expect(config_json.size == 0, {"", "config_json"}, "given",
         "empty: the data set or checkpoint says how it was tokenized");
  if (is_folder) return datasets::tokenizer_of(path, data::read_manifest(path));
  return tokenizer_in(checkpoint::CheckpointReader::open(path));
}

// The best positions, best first; of equal ones the earlier.
std::vector<int32_t> best_positions(std::span<const float> scores, int64_t most) {
  std::vector<int32_t> positions(scores.size());
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(positions, std::greater(),
                           [&](int32_t i) { return scores[static_cast<size_t>(i)]; });
  positions.resize(std::min(positions.size(), static_cast<size_t>(most)));
  return positions;
}

std::vector<data::SpanCandidate> candidates_of(std::span<const float> start,
                                               std::span<const float> end, int64_t most) {
  std::vector<data::SpanCandidate> candidates;
  const auto ends = best_positions(end, most);
  for (const int32_t s : best_positions(start, most))
    for (const int32_t e : ends)
      candidates.push_back({s, e,
                            static_cast<double>(start[static_cast<size_t>(s)]) +
                                static_cast<double>(end[static_cast<size_t>(e)])});
  return candidates;
}

// Finite numbers of a window.
std::span<const float> finite(const float* numbers, size_t n, size_t window,
                              std::string_view argument) {
  const std::span<const float> row(numbers, n);
  for (const float number : row)
    expect(std::isfinite(number), {"", argument}, cat(number, " in window ", window),
           "finite numbers");
  return row;
}

using AnsweredWindows = std::vector<data::AnsweredWindow>;

std::vector<data::AnswerText> best_of(const assay_text_question& question,
                                      const AnsweredWindows& windows, const AnswerConfig& config) {
  return data::best_answers(windows, question.context, *question.tokenizer,
                            {config.n_best, config.longest_answer});
}

// There is no answer where `excess`, how much the model rather thinks so, is above the threshold.
AnswerReport reported(const std::vector<data::AnswerText>& answers, std::optional<double> no_answer,
                      double excess, const AnswerConfig& config) {
  AnswerReport report;
  report.set_answer(excess > config.null_threshold.value_or(kNeverNone) ? "" : answers[0].text);
  for (const data::AnswerText& text : answers) {
    AnswerRow& row = *report.add_answers();
    row.set_text(text.text);
    row.set_score(text.score);
  }
  if (no_answer) report.set_no_answer(*no_answer);
  return report;
}

AnswerReport answer(const assay_text_question& question, const float* start, const float* end,
                    const AnswerConfig& config) {
  AnsweredWindows windows;
  double none = kNeverNone;
  const auto length = static_cast<size_t>(question.length);
  for (size_t k = 0; k < question.windows.size(); ++k) {
    const data::Window& window = question.windows[k];
    const auto starts = finite(start + k * length, window.ids.size(), k, "start");
    const auto ends = finite(end + k * length, window.ids.size(), k, "end");
    windows.push_back({&window, candidates_of(starts, ends, config.n_best)});
    none = std::min(none, static_cast<double>(starts[0]) + static_cast<double>(ends[0]));
  }
  const auto answers = best_of(question, windows, config);
  return reported(answers, none, none - answers[0].score, config);
}

void check_spans(const assay_text_question& question, const assay_text_spans& spans,
                 const AnswerConfig& config) {
  constexpr int64_t kMost = 512;  // as many as a window has positions
  const auto windows = static_cast<int64_t>(question.windows.size());
  expect(spans.windows == windows, {"", "spans->windows"}, spans.windows, windows,
         ", the windows of the question");
  expect(spans.starts >= 1 && spans.starts <= kMost, {"", "spans->starts"}, spans.starts, "1 to ",
         kMost);
  expect(spans.ends >= 1 && spans.ends <= kMost, {"", "spans->ends"}, spans.ends, "1 to ", kMost);
  not_null(spans.start, "spans->start");
  not_null(spans.start_log_prob, "spans->start_log_prob");
  not_null(spans.end, "spans->end");
  not_null(spans.end_log_prob, "spans->end_log_prob");
  expect(!config.null_threshold || spans.class_logit != nullptr, {"", "spans->class_logit"}, "NULL",
         "a number for each window, for null_threshold is given");
}

AnswerReport answer(const assay_text_question& question, const assay_text_spans& spans,
                    const AnswerConfig& config) {
  check_spans(question, spans, config);
  const auto starts = static_cast<size_t>(spans.starts), ends = static_cast<size_t>(spans.ends);
  AnsweredWindows windows;
  std::optional<double> none;
  for (size_t k = 0; k < question.windows.size(); ++k) {
    const auto of_start = finite(spans.start_log_prob + k * starts, starts, k, "start_log_prob");
    const auto of_end =
        finite(spans.end_log_prob + k * starts * ends, starts * ends, k, "end_log_prob");
    data::AnsweredWindow& window = windows.emplace_back();
    window.window = &question.windows[k];
    for (size_t i = 0; i < starts; ++i) {
      for (size_t j = i * ends; j < (i + 1) * ends; ++j) {
        window.candidates.push_back(
            {spans.start[k * starts + i], spans.end[k * starts * ends + j],
             static_cast<double>(of_start[i]) + static_cast<double>(of_end[j])});
      }
    }
    if (spans.class_logit == nullptr) continue;
    const double logit = finite(spans.class_logit + k, 1, k, "class_logit")[0];
    none = std::min(none.value_or(logit), logit);
  }
  return reported(best_of(question, windows, config), none, none.value_or(0), config);
}

}  // namespace

std::unique_ptr<assay_text_question> make_question(const assay_text& text,
                                                   std::string_view question,
                                                   std::string_view paragraph,
                                                   assay_str config_json) {
  const auto config = parsed<QuestionConfig>(to_text(config_json, "config_json"), "question");
  auto made = std::make_unique<assay_text_question>();
  made->tokenizer = std::make_shared<const data::Tokenizer>(text.tokenizer);
  made->paragraph = paragraph;
  made->context = data::cut_context(made->paragraph, text.tokenizer);
  expect(!made->context.ids.empty(), {"", "paragraph"}, "without words", "some text");
  made->windows = data::windows_of(question, made->context, text.tokenizer,
                                   {config.sequence_length, config.stride, config.max_question});
  made->length = config.sequence_length;
  return made;
}

}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_text_create(assay_str path, assay_str config_json, assay_text** out,
                               assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    cleared(out);
    *out = new assay_text{tokenizer_at(checked_path(path, "path"), config_json)};
  });
}

assay_status assay_text_parse(assay_str vocabulary, assay_str config_json, assay_text** out,
                              assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto config = parsed<TokenizerConfig>(to_text(config_json, "config_json"), "tokenizer");
    *out = new assay_text{
        data::Tokenizer(data::Vocabulary::parse(std::string(to_text(vocabulary, "vocabulary"))),
                        {config.protect_special, config.longest_word})};
  });
}

assay_status assay_text_vocabulary(const assay_text* t, assay_str* out, assay_error** err) {
  return guard(
      err, [&] { not_null(out, "out") = to_str(not_null(t, "t").tokenizer.vocabulary().text()); });
}

assay_status assay_text_attach(const assay_text* t, assay_trainer* trainer, assay_error** err) {
  return guard(err, [&] {
    const data::Tokenizer& tokenizer = not_null(t, "t").tokenizer;
    assay_trainer& target = not_null(trainer, "trainer");
    const data::TokenizerOptions& options = tokenizer.options();
    const ExclusiveUse use(target.model->access(), "trainer or its model");
    target.metadata[kVocabularyKey] = tokenizer.vocabulary().text();
    target.metadata[kTokenizerKey] =
        to_json(TokenizerConfig{options.protect_special, options.longest_word});
  });
}

assay_status assay_text_tokenize(const assay_text* t, assay_str text, int32_t* ids, int64_t* begin,
                                 int64_t* end, size_t capacity, size_t* count, assay_error** err) {
  return guard(err, [&] {
    const data::Tokenizer& tokenizer = not_null(t, "t").tokenizer;
    size_t& found = not_null(count, "count");
    const std::vector<data::PlacedPiece> pieces = tokenizer.pieces(to_text(text, "text"));
    found = pieces.size();
    if (ids == nullptr && begin == nullptr && end == nullptr) return;
    expect(capacity >= found, {"", "capacity"}, capacity, "room for the ", found,
           " pieces of the text");
    for (size_t i = 0; i < found; ++i) {
      if (ids != nullptr) ids[i] = pieces[i].id;
      if (begin != nullptr) begin[i] = static_cast<int64_t>(pieces[i].bytes.begin);
      if (end != nullptr) end[i] = static_cast<int64_t>(pieces[i].bytes.end);
    }
  });
}

void assay_text_free(assay_text* t) { delete t; }

assay_status assay_text_question_create(const assay_text* t, assay_str question,
                                        assay_str paragraph, assay_str config_json,
                                        assay_text_question** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = make_question(not_null(t, "t"), to_text(question, "question"),
                         to_text(paragraph, "paragraph"), config_json)
               .release();
  });
}

assay_status assay_text_question_size(const assay_text_question* q, int64_t* windows,
                                      int64_t* length, assay_error** err) {
  return guard(err, [&] {
    const assay_text_question& question = not_null(q, "q");
    not_null(windows, "windows") = static_cast<int64_t>(question.windows.size());
    not_null(length, "length") = question.length;
  });
}

assay_status assay_text_question_read(const assay_text_question* q, int64_t window, int32_t* ids,
                                      int32_t* types, int32_t* length, assay_error** err) {
  return guard(err, [&] {
    const assay_text_question& question = not_null(q, "q");
    const auto windows = static_cast<int64_t>(question.windows.size());
    expect(window >= 0 && window < windows, {"", "window"}, window, "0 to ", windows - 1);
    not_null(ids, "ids");
    not_null(types, "types");
    not_null(length, "length");
    const data::Window& from = question.windows[static_cast<size_t>(window)];
    std::fill_n(ids, question.length, question.tokenizer->vocabulary().special().padding);
    std::fill_n(types, question.length, 0);
    std::ranges::copy(from.ids, ids);
    *length = static_cast<int32_t>(from.ids.size());
    std::fill(types + from.context_position, types + *length, 1);
  });
}

assay_status assay_text_question_answer(const assay_text_question* q, const float* start,
                                        const float* end, size_t n, assay_str config_json,
                                        assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const assay_text_question& question = not_null(q, "q");
    const auto config = parsed<AnswerConfig>(to_text(config_json, "config_json"), "answer");
    const size_t expected = question.windows.size() * static_cast<size_t>(question.length);
    expect(n == expected, {"", "n"}, n, expected, ", a number for each position of ",
           question.windows.size(), " windows");
    not_null(start, "start");
    not_null(end, "end");
    *out = new_report(answer(question, start, end, config));
  });
}

assay_status assay_text_question_answer_spans(const assay_text_question* q,
                                              const assay_text_spans* spans, assay_str config_json,
                                              assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const assay_text_question& question = not_null(q, "q");
    const auto given = read_struct(&not_null(spans, "spans"), "spans");
    *out = new_report(answer(question, given,
                             parsed<AnswerConfig>(to_text(config_json, "config_json"), "answer")));
  });
}

void assay_text_question_free(assay_text_question* q) { delete q; }
