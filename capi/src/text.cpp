// Text through the C interface: vocabularies, the windows of a question, answers and their scores.
#include <cmath>

#include "assay/assay_data.h"
#include "capi/src/abi.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "datasets/gzip.h"
#include "datasets/text_conversion.h"
#include "sdk/base/config.h"
#include "sdk/base/file.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/text/answer_extraction.h"
#include "sdk/data/text/answer_score.h"

struct assay_text {
  assay::data::Tokenizer tokenizer;
};

// Holds what it points into: the context, then the windows.
struct assay_text_question {
  std::shared_ptr<const assay::data::Tokenizer> tokenizer;
  std::string paragraph;
  assay::data::ContextPieces context;
  std::vector<assay::data::Window> windows;
  int64_t length = 0;
};

namespace assay::capi {
namespace {

struct TokenizerConfig {
  bool protect_special = true;
  int64_t longest_word = 100;
  void fields(ConfigFields& f) {
    f("protect_special", protect_special, "whether [MASK] and the like in a text are themselves");
    f("longest_word", longest_word, "words of more characters are [UNK]").in({1, 10'000, true});
  }
};

struct QuestionConfig {
  int64_t max_length = 384, stride = 128, max_question = 64;
  void fields(ConfigFields& f) {
    f("max_length", max_length, "pieces of a window").in({5, 512, true});
    f("stride", stride, "from one window's part of the paragraph to the next").in({1, 512, true});
    f("max_question", max_question, "pieces of the question that are kept").in({0, 512, true});
  }
};

struct AnswerConfig {
  int64_t n_best = 20, longest_answer = 30;
  void fields(ConfigFields& f) {
    f("n_best", n_best, "best starts and ends of a window, and texts that are kept")
        .in({1, 512, true});
    f("longest_answer", longest_answer, "in pieces").in({1, 512, true});
  }
};

template <class Config>
Config parsed(assay_str json, std::string_view of) {
  Config config;
  parse_json(to_text(json, "config_json"), config, of);
  check_config(of, "", config);
  return config;
}

data::Tokenizer tokenizer_at(const std::string& path, assay_str config_json) {
  if (!is_directory(path)) {
    const auto config = parsed<TokenizerConfig>(config_json, "tokenizer");
    return data::Tokenizer(data::Vocabulary::read(path),
                           {config.protect_special, config.longest_word});
  }
  expect(config_json.size == 0, {"", "config_json"}, "given",
         "empty: the data set says how it was tokenized");
  return datasets::tokenizer_of(path, data::read_manifest(path));
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

std::span<const float> scores_of(const float* scores, size_t window, size_t length, size_t used,
                                 std::string_view argument) {
  const std::span<const float> row(scores + window * length, used);
  for (const float score : row)
    expect(std::isfinite(score), {"", argument}, score, "finite numbers, in window ", window,
           " too");
  return row;
}

AnswerReport answer(const assay_text_question& question, const float* start, const float* end,
                    const AnswerConfig& config) {
  AnswerReport report;
  std::vector<data::AnsweredWindow> windows;
  double none = std::numeric_limits<double>::infinity();
  const auto length = static_cast<size_t>(question.length);
  for (size_t k = 0; k < question.windows.size(); ++k) {
    const data::Window& window = question.windows[k];
    const auto starts = scores_of(start, k, length, window.ids.size(), "start");
    const auto ends = scores_of(end, k, length, window.ids.size(), "end");
    windows.push_back({&window, candidates_of(starts, ends, config.n_best)});
    none = std::min(none, static_cast<double>(starts[0]) + static_cast<double>(ends[0]));
  }
  if (!windows.empty()) report.set_no_answer(none);
  for (const data::AnswerText& text :
       data::best_answers(windows, question.context, *question.tokenizer,
                          {config.n_best, config.longest_answer})) {
    AnswerRow& row = *report.add_answers();
    row.set_text(text.text);
    row.set_score(text.score);
  }
  return report;
}

void set_scores(const data::AnswerScores& from, ScoreRow& to) {
  to.set_questions(from.questions);
  if (from.questions == 0) return;
  to.set_exact(from.exact);
  to.set_f1(from.f1);
}

ScoreReport score(const std::string& file, const std::string& predictions) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
  const data::SquadFile squad = data::parse_squad(datasets::read_maybe_gzip(file, kMaxBytes), file);
  const data::SquadScores scores = data::score_predictions(
      squad,
      data::parse_predictions(datasets::read_maybe_gzip(predictions, kMaxBytes), predictions));
  ScoreReport report;
  report.set_version(squad.version_2 ? "2.0" : "1.1");
  set_scores(scores.all, *report.mutable_all());
  if (squad.version_2) {
    set_scores(scores.answerable, *report.mutable_answerable());
    set_scores(scores.impossible, *report.mutable_impossible());
  }
  report.set_missing(scores.missing);
  report.set_foreign(scores.foreign);
  return report;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_text_create(assay_str path, assay_str config_json, assay_text** out,
                               assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new assay_text{tokenizer_at(checked_path(path, "path"), config_json)};
  });
}

assay_status assay_text_parse(assay_str vocabulary, assay_str config_json, assay_text** out,
                              assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto config = parsed<TokenizerConfig>(config_json, "tokenizer");
    *out = new assay_text{
        data::Tokenizer(data::Vocabulary::parse(std::string(to_text(vocabulary, "vocabulary"))),
                        {config.protect_special, config.longest_word})};
  });
}

assay_status assay_text_vocabulary(const assay_text* t, assay_str* out, assay_error** err) {
  return guard(
      err, [&] { not_null(out, "out") = to_str(not_null(t, "t").tokenizer.vocabulary().text()); });
}

assay_status assay_text_tokenize(const assay_text* t, assay_str text, int32_t* ids, int64_t* begin,
                                 int64_t* end, size_t capacity, size_t* count, assay_error** err) {
  return guard(err, [&] {
    const data::Tokenizer& tokenizer = not_null(t, "t").tokenizer;
    size_t& found = not_null(count, "count");
    const std::string_view bytes = to_text(text, "text");
    const data::ContextPieces pieces = data::cut_context(bytes, tokenizer);
    found = pieces.ids.size();
    if (ids == nullptr && begin == nullptr && end == nullptr) return;
    expect(capacity >= found, {"", "capacity"}, capacity, "room for the ", found,
           " pieces of the text");
    for (size_t i = 0; i < found; ++i) {
      const auto word = pieces.words[static_cast<size_t>(pieces.word_of_piece[i])];
      const auto at = static_cast<int64_t>(word.data() - bytes.data());
      if (ids != nullptr) ids[i] = pieces.ids[i];
      if (begin != nullptr) begin[i] = at;
      if (end != nullptr) end[i] = at + static_cast<int64_t>(word.size());
    }
  });
}

void assay_text_free(assay_text* t) { delete t; }

assay_status assay_text_question_create(const assay_text* t, assay_str question,
                                        assay_str paragraph, assay_str config_json,
                                        assay_text_question** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const data::Tokenizer& tokenizer = not_null(t, "t").tokenizer;
    const auto config = parsed<QuestionConfig>(config_json, "question");
    auto made = std::make_unique<assay_text_question>();
    made->tokenizer = std::make_shared<const data::Tokenizer>(tokenizer);
    made->paragraph = to_text(paragraph, "paragraph");
    made->context = data::cut_context(made->paragraph, tokenizer);
    expect(!made->context.ids.empty(), {"", "paragraph"}, "without words", "some text");
    made->windows = data::windows_of(to_text(question, "question"), made->context, tokenizer,
                                     {config.max_length, config.stride, config.max_question});
    made->length = config.max_length;
    *out = made.release();
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
    const auto config = parsed<AnswerConfig>(config_json, "answer");
    const size_t expected = question.windows.size() * static_cast<size_t>(question.length);
    expect(n == expected, {"", "n"}, n, expected, ", a number for each position of ",
           question.windows.size(), " windows");
    not_null(start, "start");
    not_null(end, "end");
    *out = new_report(answer(question, start, end, config));
  });
}

void assay_text_question_free(assay_text_question* q) { delete q; }

assay_status assay_text_score(assay_str file, assay_str predictions, assay_report** out,
                              assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const std::string of = checked_path(file, "file");
    *out = new_report(score(of, checked_path(predictions, "predictions")));
  });
}
