// Every recipe of the tree loads, its digests are the ones recorded here, and its cells are those
// of its sources.
//
// A changed exec digest is a new major version of the recipe, a changed expect digest a new minor
// one: change the version in the recipe, then tests/golden/recipe_digests.tsv.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/verdict/expectation.h"

namespace reciperun {
namespace {

const fs::path kRoot = fs::path(ASSAY_SOURCE_DIR) / "recipes";

// "id<TAB>version<TAB>exec digest<TAB>expect digest", the digests cut to 16 characters.
std::string digest_line(const std::string& id) {
  const ResolvedRecipe resolved = load_recipe({kRoot, id});
  return id + "\t" + resolved.recipe.version() + "\t" + resolved.exec_digest.substr(0, 16) + "\t" +
         resolved.expect_digest.substr(0, 16);
}

TEST(Recipes, HaveTheRecordedVersionsAndDigests) {
  const fs::path golden = fs::path(ASSAY_SOURCE_DIR) / "tests/golden/recipe_digests.tsv";
  std::set<std::string> recorded;
  for (const std::string& line : split(read_file(golden), '\n')) {
    if (!line.empty() && line[0] != '#') recorded.insert(line);
  }
  for (const std::string& id : recipe_ids(kRoot)) {
    const std::string line = digest_line(id);
    EXPECT_EQ(recorded.erase(line), 1u) << "not in " << golden << ":\n" << line;
  }
  EXPECT_THAT(recorded, ::testing::IsEmpty()) << "recorded, but of no recipe";
}

TEST(Recipes, CellsAreThoseOfTheirSources) {
  for (const std::string& id : recipe_ids(kRoot)) {
    for (const SourceProblem& problem : verify_sources(load_recipe({kRoot, id}).recipe, kRoot)) {
      ADD_FAILURE() << id << ": " << problem.expectation << ": " << problem.text;
    }
  }
}

TEST(Recipes, EveryUnitIsKnownAndEveryPublishedRowHasItsCell) {
  for (const std::string& id : recipe_ids(kRoot)) {
    const ResolvedRecipe resolved = load_recipe({kRoot, id});
    for (const v1::Expect& expect : resolved.recipe.expect()) {
      EXPECT_NO_THROW(unit_factor(expect.unit())) << id << " " << expect.id();
      EXPECT_EQ(expect.has_at(), expect.value_case() != v1::Expect::VALUE_NOT_SET)
          << id << " " << expect.id();
    }
  }
}

class SourcesTest : public ::testing::Test {
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

TEST_F(SourcesTest, AnyChangedCharacterIsFound) {
  EXPECT_EQ(problem(recipe("0.934", 0.934)), "");
  EXPECT_THAT(problem(recipe("0.935", 0.935)), ::testing::HasSubstr("prints '0.934'"));
  EXPECT_THAT(problem(recipe("0.934", 0.943)), ::testing::HasSubstr("0.943 is not the printed"));
  v1::Recipe ambiguous = recipe("0.934", 0.934);
  ambiguous.mutable_expect(0)->mutable_at()->mutable_where()->RemoveLast();
  EXPECT_THAT(problem(ambiguous), ::testing::HasSubstr("selects 2 rows"));
  v1::Recipe wrong_column = recipe("0.934", 0.934);
  wrong_column.mutable_expect(0)->mutable_at()->set_column("scores");
  EXPECT_THAT(problem(wrong_column), ::testing::HasSubstr("no column 'scores'"));
  put("# orig1n\nname\tkind\tscore\na\tx\t0.934\na\ty\t0.9\n");
  EXPECT_THAT(problem(recipe("0.934", 0.934)), ::testing::HasSubstr("has digest"));
}

}  // namespace
}  // namespace reciperun
