// Every recipe of the tree loads, its digests are the ones recorded here, and its cells are those
// of its sources.
//
// A changed exec digest is a new major version of the recipe, a changed expect digest a new minor
// one: change the version in the recipe, then call ASSAY_UPDATE_GOLDEN=1 recipe_run_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/util/file.h"

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
  std::string text =
      "# id, version, first 16 characters of the exec digest and of the expect digest of every "
      "recipe.\n";
  for (const std::string& id : recipe_ids(kRoot)) text += digest_line(id) + "\n";
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr) write_file_atomic(golden, text);
  EXPECT_EQ(read_file(golden), text);
}

TEST(Recipes, CellsAreThoseOfTheirSources) {
  for (const std::string& id : recipe_ids(kRoot)) {
    for (const SourceProblem& problem : verify_sources(load_recipe({kRoot, id}).recipe, kRoot)) {
      ADD_FAILURE() << id << ": " << problem.expectation << ": " << problem.text;
    }
  }
}

// Else whoever has the data would be the first to find a step that cannot be made.
TEST(Recipes, EveryPipelineCanBeMade) {
  int made = 0;
  for (const std::string& id : recipe_ids(kRoot)) {
    const ResolvedRecipe resolved = load_recipe({kRoot, id});
    for (const v1::DataRef& data : resolved.recipe.data()) {
      try {
        made += engine::transform_config(data) != "";
      } catch (const std::exception& error) {
        ADD_FAILURE() << id << ", data '" << data.id() << "': " << error.what();
      }
    }
  }
  EXPECT_GT(made, 100);
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

// Rows and recipes that point at each other.
TEST(Recipes, RowsOfOtherRecipesAreThere) {
  std::map<std::string, v1::Recipe> recipes;
  for (const std::string& id : recipe_ids(kRoot)) recipes[id] = load_recipe({kRoot, id}).recipe;
  const auto row = [&](const std::string& recipe, const std::string& id) {
    return recipes.count(recipe) == 0 ? nullptr : find_expectation(recipes.at(recipe), id);
  };
  for (const auto& [id, recipe] : recipes) {
    for (const v1::Expect& expect : recipe.expect()) {
      SCOPED_TRACE(id + ": " + expect.id());
      const v1::Ratio& ratio = expect.ratio();
      EXPECT_TRUE(ratio.num_recipe().empty() || row(ratio.num_recipe(), ratio.num()) != nullptr);
      EXPECT_TRUE(ratio.den_recipe().empty() || row(ratio.den_recipe(), ratio.den()) != nullptr);
      if (!expect.has_lender()) continue;
      const v1::Lender& lender = expect.lender();
      const v1::Expect* lends = row(lender.recipe(), lender.row());
      ASSERT_NE(lends, nullptr);
      const bool sample = lends->has_sample();
      EXPECT_EQ(lender.mean(), sample ? lends->sample().printed_mean() : lends->mean_std().mean());
      EXPECT_EQ(lender.std(), sample ? lends->sample().printed_std() : lends->mean_std().std());
      EXPECT_EQ(lender.std_scale(), sample ? 0 : lends->mean_std().std_scale());
      EXPECT_EQ(lender.n(), sample ? lends->sample().v_size() : lends->mean_std().n());
    }
  }
}

}  // namespace
}  // namespace reciperun
