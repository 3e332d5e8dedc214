// SQuAD through the C interface: the questions of a file, answers in the official form, scores.
#include <map>

#include "assay/assay_data.h"
#include "capi/src/abi.h"
#include "capi/src/access.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "capi/src/text.h"
#include "datasets/gzip.h"
#include "sdk/base/file.h"
#include "sdk/base/json_writer.h"
#include "sdk/data/text/answer_score.h"

struct assay_text_squad {
  mutable assay::capi::Access access;  // to the answers
  assay::data::SquadFile file;
  struct Question {
    const assay::data::SquadParagraph* paragraph;
    const assay::data::SquadQuestion* question;
  };
  std::vector<Question> questions;         // of all paragraphs
  std::map<int64_t, std::string> answers;  // by question
};

namespace assay::capi {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

data::SquadFile read_squad(const std::string& path) {
  return data::parse_squad(datasets::read_maybe_gzip(path, kMaxBytes), path);
}

void check_index(const assay_text_squad& squad, int64_t index) {
  const auto questions = static_cast<int64_t>(squad.questions.size());
  expect(index >= 0 && index < questions, {"", "index"}, index, "0 to ", questions - 1);
}

std::string predictions_of(const assay_text_squad& squad) {
  JsonWriter json;
  json.open('{');
  for (const auto& [index, answer] : squad.answers) {
    json.key(squad.questions[static_cast<size_t>(index)].question->id);
    json.text(answer);
  }
  json.close('}');
  return json.take();
}

void set_scores(const data::AnswerScores& from, ScoreRow& to) {
  to.set_questions(from.questions);
  if (from.questions == 0) return;
  to.set_exact(from.exact);
  to.set_f1(from.f1);
}

ScoreReport score(const std::string& file, const std::string& predictions) {
  const data::SquadFile squad = read_squad(file);
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

assay_status assay_text_squad_open(assay_str path, assay_text_squad** out, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    cleared(out);
    auto squad = std::make_unique<assay_text_squad>();
    squad->file = read_squad(checked_path(path, "path"));
    for (const data::SquadParagraph& paragraph : squad->file.paragraphs)
      for (const data::SquadQuestion& question : paragraph.questions)
        squad->questions.push_back({&paragraph, &question});
    *out = squad.release();
  });
}

assay_status assay_text_squad_size(const assay_text_squad* s, int64_t* questions, int32_t* version,
                                   assay_error** err) {
  return guard(err, [&] {
    const assay_text_squad& squad = not_null(s, "s");
    if (questions != nullptr) *questions = static_cast<int64_t>(squad.questions.size());
    if (version != nullptr) *version = squad.file.version_2 ? 2 : 1;
  });
}

assay_status assay_text_squad_question(const assay_text_squad* s, int64_t index,
                                       const assay_text* t, assay_str config_json,
                                       assay_text_question** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const assay_text_squad& squad = not_null(s, "s");
    check_index(squad, index);
    const auto& asked = squad.questions[static_cast<size_t>(index)];
    *out =
        make_question(not_null(t, "t"), asked.question->text, asked.paragraph->context, config_json)
            .release();
  });
}

assay_status assay_text_squad_answer(assay_text_squad* s, int64_t index, assay_str answer,
                                     assay_error** err) {
  return guard(err, [&] {
    assay_text_squad& squad = not_null(s, "s");
    const ExclusiveUse use(squad.access, "collection of answers");
    check_index(squad, index);
    const std::string_view given = to_text(answer, "answer");
    expect(is_utf8(given), {"", "answer"}, excerpt(given), "UTF-8");
    squad.answers[index] = given;
  });
}

assay_status assay_text_squad_save(const assay_text_squad* s, assay_str path, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    const assay_text_squad& squad = not_null(s, "s");
    const SharedUse use(squad.access, "collection of answers");
    write_file_atomic(checked_path(path, "path"), predictions_of(squad));
  });
}

void assay_text_squad_free(assay_text_squad* s) { delete s; }

assay_status assay_text_score(assay_str file, assay_str predictions, assay_report** out,
                              assay_error** err) {
  return guard(err, {{"file", file}, {"predictions", predictions}}, [&] {
    cleared(out);
    const std::string of = checked_path(file, "file");
    *out = new_report(score(of, checked_path(predictions, "predictions")));
  });
}
