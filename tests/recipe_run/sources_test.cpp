// Copies of published tables: their format, and the cells that expectations point at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/recipe/tables.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";

std::string refusal(const std::string& text) {
  try {
    parse_source("t.tsv", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SourceFile, HoldsNamedTables) {
  const SourceFile file = parse_source(
      "t.tsv",
      "# of this file\ndocument\td.txt\tabc\n\ntable\tfirst\n# of epochs\ttop1\n50\t76.3\n\n"
      "# a remark\ntable\tsecond\nGPUs\trate\n1\t10\n8\t80\n");
  EXPECT_EQ(file.document, "d.txt");
  ASSERT_EQ(file.tables.size(), 2u);
  EXPECT_THAT(file.tables[0].columns, ElementsAre("# of epochs", "top1"));
  ASSERT_NE(file.find("second"), nullptr);
  EXPECT_THAT(file.find("second")->rows[1], ElementsAre("8", "80"));
  EXPECT_EQ(file.find("third"), nullptr);
}

TEST(SourceFile, OneTableNeedsNoName) {
  const SourceFile file = parse_source("t.tsv", "# remark\nname\tscore\na\t1\n");
  ASSERT_NE(file.find("name"), nullptr);
  EXPECT_EQ(file.find("score"), nullptr);
}

TEST(SourceFile, RefusesWhatIsNoTable) {
  EXPECT_THAT(refusal("table\ta\nx\ty\n1\n"), HasSubstr("t.tsv:3: 1 cells under 2 columns"));
  EXPECT_THAT(refusal("table\ta\nx\tx\n"), HasSubstr("t.tsv:2: two columns are called 'x'"));
  EXPECT_THAT(refusal("table\ta\nx\n\ntable\ta\n"), HasSubstr("'a' stands here twice"));
  EXPECT_THAT(refusal("table\ta\nx\n\nstray\n"), HasSubstr("t.tsv:4: a row outside"));
  EXPECT_THAT(refusal("table\n"), HasSubstr("without a name"));
  EXPECT_THAT(refusal("document\tx\n"), HasSubstr("SHA-256"));
}

TEST(Cell, NumbersLeaveOutFootnotes) {
  EXPECT_THAT(numbers_in("[1]29171.69w/XLA 24734.22"), ElementsAre("29171.69", "24734.22"));
  EXPECT_THAT(numbers_in("87.19 / 92.85"), ElementsAre("87.19", "92.85"));
  EXPECT_THAT(numbers_in("15724.70 bsz=160"), ElementsAre("15724.70", "160"));
  EXPECT_THAT(numbers_in("1.84x"), ElementsAre("1.84"));
  EXPECT_THAT(numbers_in("8."), ElementsAre("8"));
  EXPECT_THAT(numbers_in("[2] -"), IsEmpty());
  EXPECT_THAT(numbers_in("[3"), ElementsAre("3"));
}

TEST(Cell, CountsAreAtMostTheLargestThereIs) {
  EXPECT_EQ(count_in("48 x DGX A100"), 48u);
  EXPECT_EQ(count_in("over four runs"), 4u);
  EXPECT_EQ(count_in("many"), 0u);
  EXPECT_EQ(count_in("4294967295"), 4294967295u);
  EXPECT_EQ(count_in("4294967296"), 4294967295u);
  EXPECT_EQ(count_in(std::string(400, '9') + " epochs"), 4294967295u);
}

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("sources_test_" + std::to_string(getpid()));
    text_ = "# origin\nname\tkind\tscore\na\tx\t0.934\na\ty\t0.9\n";
    put(text_);
  }
  void put(const std::string& text) { write_file_atomic(root_ / "t.tsv", text); }
  v1::Recipe recipe(const std::string& printed, double value) {
    v1::Recipe r;
    v1::Source& source = *r.add_source();
    source.set_id("s");
    source.set_file("t.tsv");
    source.set_sha256(sha256_hex(text_));
    v1::Expect& expect = *r.add_expect();
    expect.set_id("e");
    expect.mutable_single()->set_v(value);
    expect.mutable_single()->set_n(1);
    v1::Locator& at = *expect.mutable_at();
    at.set_source("s");
    for (const auto& [column, equals] : {std::pair{"name", "a"}, std::pair{"kind", "x"}}) {
      v1::Cell& cell = *at.add_where();
      cell.set_column(column);
      cell.set_equals(equals);
    }
    at.set_column("score");
    at.set_printed(printed);
    return r;
  }
  std::string problem(const v1::Recipe& r) {
    const auto problems = verify_sources(r, root_);
    return problems.empty() ? "" : problems[0].text;
  }
  fs::path root_;
  std::string text_;
};

TEST_F(VerifyTest, AnyChangedCharacterIsFound) {
  EXPECT_EQ(problem(recipe("0.934", 0.934)), "");
  EXPECT_THAT(problem(recipe("0.935", 0.935)), HasSubstr("prints '0.934'"));
  EXPECT_THAT(problem(recipe("0.934", 0.943)), HasSubstr("0.943 is not the printed"));
  v1::Recipe ambiguous = recipe("0.934", 0.934);
  ambiguous.mutable_expect(0)->mutable_at()->mutable_where()->RemoveLast();
  EXPECT_THAT(problem(ambiguous), HasSubstr("selects 2 rows"));
  v1::Recipe wrong_column = recipe("0.934", 0.934);
  wrong_column.mutable_expect(0)->mutable_at()->set_column("scores");
  EXPECT_THAT(problem(wrong_column), HasSubstr("no column 'scores'"));
  put("# orig1n\nname\tkind\tscore\na\tx\t0.934\na\ty\t0.9\n");
  EXPECT_THAT(problem(recipe("0.934", 0.934)), HasSubstr("has digest"));
}

TEST_F(VerifyTest, PartsAndFurtherCells) {
  put("name\tpair\tSeed 1\tother\tmean\na\t87.19 / 92.85\t1.5\t2.5\t2.0\n");
  text_ = read_file(root_ / "t.tsv");
  v1::Recipe r = recipe("92.85", 92.85);
  v1::Locator& at = *r.mutable_expect(0)->mutable_at();
  at.mutable_where()->RemoveLast();
  at.set_column("pair");
  at.set_part(2);
  EXPECT_EQ(problem(r), "");
  at.set_part(3);
  EXPECT_THAT(problem(r), HasSubstr("prints ''"));
  at.set_part(0);
  at.set_column("mean");
  at.set_printed("2.0");
  v1::Sample& sample = *r.mutable_expect(0)->mutable_sample();
  sample.set_printed_mean(2);
  sample.add_v(1.5);
  EXPECT_THAT(problem(r), HasSubstr("states 2 numbers, its locator names 1 cells"));
  v1::Cell& also = *at.add_also();
  also.set_column("Seed 1");
  also.set_equals("1.5");
  EXPECT_EQ(problem(r), "");
  also.set_equals("1.6");
  EXPECT_THAT(problem(r), HasSubstr("prints '1.5', the recipe says '1.6'"));
}

TEST(Sources, EveryPublishedNumberIsOneExpectation) {
  std::map<std::string, v1::Recipe> recipes;
  std::vector<const v1::Recipe*> all;
  for (const std::string& id : recipe_ids(kRecipes)) {
    v1::Recipe& recipe = recipes[id] = load_recipe({kRecipes, id}).recipe;
    if (!recipe.abstract()) all.push_back(&recipe);
  }
  const Completeness found = completeness_of(all, kRecipes);
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_EQ(found.results, 1127);
  EXPECT_EQ(found.claimed, 1127);
}

}  // namespace
}  // namespace reciperun
