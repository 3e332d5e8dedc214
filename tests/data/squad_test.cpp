// SQuAD files and their scores: the worked examples of the official rules, and the published
// predictions with published scores where they lie in ../shared/data (SQuAD, CC BY-SA 4.0).
#include "sdk/data/text/squad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/base/error.h"
#include "sdk/data/text/answer_score.h"
#include "tests/data/squad_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

TEST(AnswerScore, WorkedExamples) {
  static const struct {
    std::string prediction, gold;
    double exact, f1;
  } kCases[] = {
      {"The Eiffel Tower.", "eiffel tower", 1, 1},
      {"in the year 1895", "1895", 0, 0.5},
      {"Saint Bernadette Soubirous", "St. Bernadette Soubirous", 0, 2.0 / 3},
      {"a cat and a dog", "the dog and the cat", 0, 1},
      {"U.S.A.", "USA", 1, 1},
      {"one-third", "one third", 0, 0},
      {"Chopin's", "Chopins", 1, 1},
      {"4\u20136", "46", 0, 0},
      {"to to be", "to be to to", 0, 6.0 / 7},
      {"Denver Broncos", "The Denver Broncos defeated the Carolina Panthers", 0, 4.0 / 7},
      {"\u00c9cole  a\u00a0la \u0391\u03a3", "\u00e9cole la \u03b1\u03c2", 1, 1},
      {"an_a a\u0301 \u4e00a", "an_a a\u0301 \u4e00a", 1, 1},
  };
  for (const auto& c : kCases) {
    for (const bool version_2 : {false, true}) {
      const AnswerScore score = score_answer(c.prediction, c.gold, version_2);
      EXPECT_EQ(score.exact, c.exact) << c.prediction;
      EXPECT_NEAR(score.f1, c.f1, 1e-15) << c.prediction;
    }
  }
  EXPECT_EQ(score_answer("the", "a", false).exact, 1);
  EXPECT_EQ(score_answer("the", "a", false).f1, 0);
  EXPECT_EQ(score_answer("the", "a", true).f1, 1);
  EXPECT_EQ(normalized_answer("an_a \u4e00a a\u0301"), "ana \u4e00a \u0301");
}

struct Published {
  std::string predictions, file;
  double exact, f1;
  int64_t missing, foreign;
};

class PublishedScores : public testing::TestWithParam<Published> {};

TEST_P(PublishedScores, ToTheLastDigit) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  const Published& published = GetParam();
  const auto file = parse_squad(test::unpacked_squad(published.file), published.file);
  const auto predictions =
      parse_predictions(test::unpacked_squad(published.predictions), "predictions");
  const SquadScores scores = score_predictions(file, predictions);
  EXPECT_EQ(scores.all.exact, published.exact);
  EXPECT_EQ(scores.all.f1, published.f1);
  EXPECT_EQ(scores.missing, published.missing);
  EXPECT_EQ(scores.foreign, published.foreign);
  if (!file.version_2) return;
  EXPECT_EQ(scores.all.questions, 11'873);
  EXPECT_EQ(scores.answerable.questions, 5'928);
  EXPECT_EQ(scores.answerable.exact, 74.10593792172739);
  EXPECT_EQ(scores.answerable.f1, 80.18183293833508);
  EXPECT_EQ(scores.impossible.questions, 5'945);
  EXPECT_EQ(scores.impossible.exact, 83.36417157275021);
  EXPECT_EQ(scores.impossible.f1, 83.36417157275021);
}

INSTANTIATE_TEST_SUITE_P(Squad, PublishedScores,
                         testing::Values(Published{"predictions-v1.1-bert-ensemble", "dev-v1.1",
                                                   86.20624408703878, 92.19557978351145, 0, 0},
                                         Published{"predictions-v1.1-logreg", "dev-v1.1",
                                                   40.14191106906339, 50.98153647324461, 13, 28},
                                         Published{"predictions-v2.0-bert-single", "dev-v2.0",
                                                   78.74168280973637, 81.77528052374723, 0, 0}),
                         [](const auto& test) { return "Case" + std::to_string(test.index); });

TEST(Squad, EveryFileAtHandIsRead) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  static const std::pair<const char*, size_t> kQuestions[] = {
      {"dev-v1.1", 10'570},
      {"dev-v2.0", 11'873},
      {"train-v1.1-part", 7'858},
      {"train-v2.0-part", 3'005},
      {"train-v1.1-extra-derived", 6'294},
      {"squadshifts-new_wiki-v1.0", 7'938},
      {"squadshifts-amazon_reviews-v1.0", 9'885}};
  for (const auto& [name, questions] : kQuestions) {
    size_t count = 0;
    const auto file = parse_squad(test::unpacked_squad(name), name);
    for (const auto& paragraph : file.paragraphs) count += paragraph.questions.size();
    EXPECT_EQ(count, questions) << name;
    EXPECT_EQ(file.version_2, std::string(name).find("v2.0") != std::string::npos) << name;
  }
}

std::string file_with(const std::string& question) {
  return R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": "é ab cd", "qas": [)" +
         question + "]}]}]}";
}
std::string problem_of(const std::string& json) {
  const Error error = error_of([&] { parse_squad(json, "dev.json"); });
  EXPECT_EQ(error.code(), Code::kFormat);
  return error.message();
}

TEST(Squad, OffsetsCountCodePoints) {
  const auto file = parse_squad(
      file_with(R"({"id": "1", "question": "?", "answers": [{"text": "ab", "answer_start": 2}]})"),
      "x");
  EXPECT_EQ(file.paragraphs[0].questions[0].answers[0].begin, 3u);
}

TEST(Squad, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(problem_of(R"({"data": [{"paragraphs": [{"context": "a")"),
              AllOf(HasSubstr("dev.json"), HasSubstr("line 1")));
  EXPECT_THAT(problem_of("[]"), HasSubstr("\"data\" is missing"));
  EXPECT_THAT(problem_of(R"({"data": {}})"), HasSubstr("\"data\" is of another type"));
  EXPECT_THAT(problem_of(file_with(R"({"question": "?", "answers": []})")),
              AllOf(HasSubstr("line 1, column"), HasSubstr("\"id\" is missing")));
  const std::string question = R"({"id": "1", "question": "?", "answers": []})";
  EXPECT_THAT(problem_of(file_with(question + ", " + question)), HasSubstr("the id \"1\""));
  for (const char* start : {"3", "99"}) {
    EXPECT_THAT(problem_of(file_with(
                    R"({"id": "1", "question": "?", "answers": [{"text": "ab", "answer_start": )" +
                    std::string(start) + "}]}")),
                HasSubstr("does not stand at character " + std::string(start)));
  }
  EXPECT_THAT(
      problem_of(file_with(
          R"({"id": "1", "question": "?", "answers": [{"text": "ab", "answer_start": 1.5}]})")),
      HasSubstr("whole number"));
  EXPECT_THAT(problem_of(file_with(R"({"id": "1", "question": "?", "is_impossible": true,
                  "answers": [{"text": "ab", "answer_start": 2}]})")),
              HasSubstr("impossible and has answers"));
  EXPECT_EQ(error_of([] { parse_predictions("{\"a\": 1}", "p.json"); }).code(), Code::kFormat);
}

}  // namespace
}  // namespace assay::data
