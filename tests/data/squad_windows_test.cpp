// Windows over contexts: the worked example of the scripts' rules, every shape of a small one, and
// the counts of the published files where they lie in ../shared/data.
#include "sdk/data/text/squad_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "sdk/base/error.h"
#include "tests/data/squad_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::ElementsAre;

// Letters are words of one piece, "ab" has two.
Tokenizer letters() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n##b\n";
  for (char c = 'a'; c <= 'z'; ++c) text += cat(std::string(1, c), "\n");
  return Tokenizer(Vocabulary::parse(text));
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(SquadWindows, TheWorkedExample) {
  const Tokenizer tokenizer = letters();
  const std::string text = repeated("a ", 500);
  const auto context = cut_context(text, tokenizer);
  const auto windows = windows_of(repeated("q ", 12), context, tokenizer, {});
  ASSERT_EQ(windows.size(), 3u);
  static const std::pair<int, int> kExpected[] = {{0, 369}, {128, 369}, {256, 244}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(windows[i].context_begin, kExpected[i].first);
    EXPECT_EQ(windows[i].context_size, kExpected[i].second);
    EXPECT_EQ(windows[i].context_position, 14);
    EXPECT_EQ(windows[i].ids.size(), 15u + windows[i].context_size);
  }
  EXPECT_TRUE(windows[0].best_context[200]);
  EXPECT_TRUE(windows[1].best_context[300 - 128]);
  // Every piece has one window that is best for it.
  std::vector<int> best(500, 0);
  for (const Window& window : windows)
    for (int i = 0; i < window.context_size; ++i)
      best[window.context_begin + i] += window.best_context[i];
  EXPECT_EQ(best, std::vector<int>(500, 1));
}

TEST(SquadWindows, ShortContextsHaveOneWindow) {
  const Tokenizer tokenizer = letters();
  const auto context = cut_context("a b", tokenizer);
  const auto windows = windows_of("q", context, tokenizer, {});
  ASSERT_EQ(windows.size(), 1u);
  const auto id = [&](const char* piece) { return *tokenizer.vocabulary().find(piece); };
  EXPECT_THAT(windows[0].ids,
              ElementsAre(id("[CLS]"), id("q"), id("[SEP]"), id("a"), id("b"), id("[SEP]")));
  EXPECT_EQ(windows[0].piece_at(2), std::nullopt);
  EXPECT_EQ(windows[0].piece_at(3), 0);
  EXPECT_EQ(windows[0].piece_at(5), std::nullopt);
}

SquadQuestion asking(std::string answer, size_t begin) {
  return {"1", "q", {{std::move(answer), begin}}, false};
}

TEST(SquadWindows, AnswersAreNarrowedToTheirPieces) {
  const Tokenizer tokenizer = letters();
  const auto context = cut_context("x (ab). y\u202Fz", tokenizer);
  EXPECT_THAT(context.words, ElementsAre("x", "(ab).", "y", "z"));
  const auto span = answer_span(asking("ab", 3), context, tokenizer);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->first, 2);  // x [UNK] a ##b [UNK] . y z, "(" and ")" being unknown
  EXPECT_EQ(span->last, 3);
  EXPECT_EQ(answer_span(asking("x  (ab)", 0), context, tokenizer)->first, 0);
  EXPECT_EQ(answer_span(asking("b c", 3), context, tokenizer), std::nullopt);
  EXPECT_EQ(answer_span(asking("", 3), context, tokenizer), std::nullopt);
}

TEST(SquadWindows, SpansAreFoundWhereAllOfThemIs) {
  const Tokenizer tokenizer = letters();
  const auto context = cut_context(repeated("a ", 12), tokenizer);
  const auto windows =
      windows_of("q", context, tokenizer, {.sequence_length = 12, .stride = 4, .max_question = 2});
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].find({3, 7})->first, 6);
  EXPECT_EQ(windows[0].find({7, 8}), std::nullopt);
  EXPECT_EQ(windows[1].find({7, 8})->last, 7);
  EXPECT_EQ(windows[1].find({3, 4}), std::nullopt);
  const auto narrow = error_of([&] {
    windows_of("q", context, tokenizer, {.sequence_length = 12, .stride = 8, .max_question = 2});
  });
  EXPECT_EQ(narrow.code(), Code::kInvalid);
}

// As much work a piece as of a short one.
TEST(SquadWindows, ALongContext) {
  constexpr int kPieces = 1'000'000;
  const std::string text = repeated("a ", kPieces);
  const Tokenizer tokenizer = letters();
  const std::vector<Window> windows = windows_of("q", cut_context(text, tokenizer), tokenizer, {});
  EXPECT_EQ(windows.size(), 7811u);  // of 380 pieces, 128 apart
  int64_t best = 0;
  for (const Window& window : windows) best += std::ranges::count(window.best_context, true);
  EXPECT_EQ(best, kPieces);
}

TEST(SquadWindows, TextsWithoutWords) {
  const Tokenizer tokenizer = letters();
  EXPECT_TRUE(windows_of("q", cut_context(" \n\u0301 ", tokenizer), tokenizer, {}).empty());
  EXPECT_TRUE(cut_context("", tokenizer).words.empty());
}

TEST(SquadWindows, CountsOfThePublishedFiles) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  const Tokenizer tokenizer(Vocabulary::read(test::kVocabulary));
  static const struct {
    const char* name;
    int windows, without_answer;  // -1: not counted
  } kFiles[] = {{"dev-v1.1", 10'833, -1},
                {"dev-v2.0", 12'232, -1},
                {"train-v1.1-part", 7'983, 82},
                {"train-v1.1-extra-derived", 6'350, 36},
                {"squadshifts-new_wiki-v1.0", 8'061, -1}};
  for (const auto& expected : kFiles) {
    int windows = 0, without_answer = 0, skipped = 0;
    const auto file = parse_squad(test::unpacked_squad(expected.name), expected.name);
    for (const auto& paragraph : file.paragraphs) {
      const auto context = cut_context(paragraph.context, tokenizer);
      for (const auto& question : paragraph.questions) {
        std::optional<PieceSpan> span;
        if (!question.answers.empty()) span = answer_span(question, context, tokenizer);
        skipped += !question.answers.empty() && !span;
        for (const Window& window : windows_of(question.text, context, tokenizer, {})) {
          ++windows;
          without_answer += span && !window.find(*span);
        }
      }
    }
    EXPECT_EQ(windows, expected.windows) << expected.name;
    EXPECT_EQ(skipped, 0) << expected.name;
    if (expected.without_answer >= 0) {
      EXPECT_EQ(without_answer, expected.without_answer) << expected.name;
    }
  }
}

}  // namespace
}  // namespace assay::data
