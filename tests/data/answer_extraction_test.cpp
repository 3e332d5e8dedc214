// Answers from scored positions: alignments against the scripts' rules in Python
// (tests/fixtures/text), each rule of the selection, and gold positions of a whole file.
#include "sdk/data/text/answer_extraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sdk/data/text/answer_score.h"
#include "tests/data/squad_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using testing::ElementsAre;

TEST(AnswerExtraction, AlignsWordsWithTheirText) {
  const std::string fixtures = ASSAY_SOURCE_DIR "/tests/fixtures/text/";
  const Tokenizer tokenizer(Vocabulary::read(fixtures + "vocabulary.txt"));
  std::ifstream file(fixtures + "alignments.tsv");
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    const std::string words = line.substr(0, first), expected = line.substr(second + 1);
    const std::string original = line.substr(first + 1, second - first - 1);
    EXPECT_EQ(aligned_text(words, original, tokenizer), expected) << words << " in " << original;
  }
  EXPECT_EQ(rows, 300);
}

std::vector<std::string> texts(const std::vector<AnswerText>& answers) {
  std::vector<std::string> all;
  for (const AnswerText& answer : answers) all.push_back(answer.text);
  return all;
}

// [CLS] q [SEP] a b c d [SEP] and, 2 further, [CLS] q [SEP] c d e f [SEP].
class BestAnswers : public testing::Test {
 protected:
  std::vector<std::string> from(std::vector<SpanCandidate> first,
                                std::vector<SpanCandidate> second = {}, int64_t n_best = 20) {
    const std::vector<AnsweredWindow> answered{{&windows_[0], first}, {&windows_[1], second}};
    answers_ =
        best_answers(answered, context_, tokenizer_, {.n_best = n_best, .longest_answer = 3});
    return texts(answers_);
  }

  Tokenizer tokenizer_{
      Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\nq\n")};
  ContextPieces context_ = cut_context("A b C d E f", tokenizer_);
  std::vector<Window> windows_ =
      windows_of("q", context_, tokenizer_, {.sequence_length = 8, .stride = 2, .max_question = 1});
  std::vector<AnswerText> answers_;
};

TEST_F(BestAnswers, AreTheTextsOfTheBestCandidates) {
  ASSERT_EQ(windows_.size(), 2u);
  EXPECT_THAT(from({{3, 3, -2}, {4, 5, -1}}, {{5, 6, -1.5}}), ElementsAre("b C", "E f", "A"));
  EXPECT_EQ(answers_[1].score, -1.5);
}

TEST_F(BestAnswers, LieInTheContext) {
  EXPECT_THAT(from({{0, 0, 9}, {1, 3, 9}, {2, 3, 9}, {4, 7, 9}, {3, 8, 9}, {4, 4, 1}}),
              ElementsAre("b"));
}

TEST_F(BestAnswers, EndBehindTheirBeginning) {
  EXPECT_THAT(from({{4, 3, 9}, {4, 4, 1}}), ElementsAre("b"));
}

TEST_F(BestAnswers, AreNotTooLong) {
  EXPECT_THAT(from({{3, 6, 9}, {3, 5, 1}}), ElementsAre("A b C"));
}

TEST_F(BestAnswers, BeginWhereTheirWindowSeesMost) {
  // d is in the middle of the second window and at the edge of the first.
  EXPECT_THAT(from({{6, 6, 9}}, {{4, 4, 1}}), ElementsAre("d"));
  EXPECT_EQ(answers_[0].score, 1);
}

TEST_F(BestAnswers, AppearOnce) {
  EXPECT_THAT(from({{3, 3, 1}, {3, 3, 2}, {4, 4, 1.5}}), ElementsAre("A", "b"));
  EXPECT_EQ(answers_[0].score, 2);
}

TEST_F(BestAnswers, AreAtMostSoManyOfAWindowAndOfAll) {
  EXPECT_THAT(from({{3, 3, 3}, {3, 4, 2}, {3, 5, 1}}, {{5, 5, 0}}, 2), ElementsAre("A", "A b"));
}

TEST_F(BestAnswers, AreEmptyInAWordIfThereAreNone) {
  EXPECT_THAT(from({{0, 0, 9}}), ElementsAre("empty"));
  EXPECT_EQ(answers_[0].score, 0);
}

// A model that is always right: what windows, narrowing and alignment lose of the gold answers.
TEST(AnswerExtraction, GoldPositionsGiveGoldAnswers) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  const Tokenizer tokenizer(Vocabulary::read(test::kVocabulary));
  const auto file = parse_squad(test::unpacked_squad("dev-v1.1"), "dev-v1.1");
  Predictions predictions;
  for (const auto& paragraph : file.paragraphs) {
    const auto context = cut_context(paragraph.context, tokenizer);
    for (const auto& question : paragraph.questions) {
      const auto gold = answer_span(question, context, tokenizer);
      const auto windows = windows_of(question.text, context, tokenizer, {});
      std::vector<AnsweredWindow> answered;
      for (const Window& window : windows) {
        answered.push_back({&window, {}});
        if (const auto span = window.find(*gold))
          answered.back().candidates = {{span->first, span->last, 1}};
      }
      predictions[question.id] =
          best_answers(answered, context, tokenizer, {.longest_answer = 1000})[0].text;
    }
  }
  const SquadScores scores = score_predictions(file, predictions);
  EXPECT_EQ(scores.all.exact, 99.77294228949859);  // tests/fixtures/text/gold_answers.py
  EXPECT_EQ(scores.all.f1, 99.82881948685555);
}

}  // namespace
}  // namespace assay::data
