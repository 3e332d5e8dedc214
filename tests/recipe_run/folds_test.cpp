// Folds against the lists that the published scripts make with NumPy.
#include "tools/recipe_run/assay/folds.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Recipe unet_recipe(const std::string& more = "") {
  v1::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    trials { unit: "fold" seed: [0, 1, 2, 3, 4] count: 5 }
    data { id: "train" role: "train" folds { k: 5 splitter: "rotate_then_cut" stride: 5 train_count: 24
      shuffle_seed: 0 shuffle_algorithm: "mt19937-fisher-yates-legacy" )" +
                                                                more + "} }",
                                                            &recipe));
  return recipe;
}

FoldRecords fold(uint64_t k) { return fold_records(unet_recipe().data(0).folds(), 30, k); }

TEST(Folds, NumpysLegacyShuffle) {
  EXPECT_THAT(numpy_shuffled(0, 30),
              ElementsAre(2, 28, 13, 10, 26, 24, 27, 11, 17, 22, 5, 16, 8, 14, 23, 20, 1, 29, 6, 4,
                          18, 19, 9, 7, 25, 3, 0, 21, 15, 12));
  EXPECT_THAT(numpy_shuffled(3, 1), ElementsAre(0));
  EXPECT_TRUE(numpy_shuffled(3, 0).empty());
}

TEST(Folds, TheFivePublishedOnes) {
  EXPECT_THAT(fold(0).held_out, ElementsAre(25, 3, 0, 21, 15, 12));
  EXPECT_THAT(fold(0).train, ElementsAre(2, 28, 13, 10, 26, 24, 27, 11, 17, 22, 5, 16, 8, 14, 23,
                                         20, 1, 29, 6, 4, 18, 19, 9, 7));
  EXPECT_THAT(fold(1).held_out, ElementsAre(4, 18, 19, 9, 7, 25));
  EXPECT_THAT(fold(1).train, ElementsAre(3, 0, 21, 15, 12, 2, 28, 13, 10, 26, 24, 27, 11, 17, 22, 5,
                                         16, 8, 14, 23, 20, 1, 29, 6));
  EXPECT_THAT(fold(2).held_out, ElementsAre(23, 20, 1, 29, 6, 4));
  EXPECT_THAT(fold(2).train, ElementsAre(18, 19, 9, 7, 25, 3, 0, 21, 15, 12, 2, 28, 13, 10, 26, 24,
                                         27, 11, 17, 22, 5, 16, 8, 14));
  EXPECT_THAT(fold(3).held_out, ElementsAre(22, 5, 16, 8, 14, 23));
  EXPECT_THAT(fold(3).train, ElementsAre(20, 1, 29, 6, 4, 18, 19, 9, 7, 25, 3, 0, 21, 15, 12, 2, 28,
                                         13, 10, 26, 24, 27, 11, 17));
  EXPECT_THAT(fold(4).held_out, ElementsAre(26, 24, 27, 11, 17, 22));
  EXPECT_THAT(fold(4).train, ElementsAre(5, 16, 8, 14, 23, 20, 1, 29, 6, 4, 18, 19, 9, 7, 25, 3, 0,
                                         21, 15, 12, 2, 28, 13, 10));
}

TEST(Folds, AreNoPartition) {
  std::map<int64_t, int> times;
  for (uint64_t k = 0; k < 5; ++k) {
    const FoldRecords records = fold(k);
    std::set<int64_t> all(records.train.begin(), records.train.end());
    all.insert(records.held_out.begin(), records.held_out.end());
    EXPECT_EQ(all.size(), 30u);  // within a fold nothing is used twice
    for (const int64_t slice : records.held_out) ++times[slice];
  }
  EXPECT_EQ(times.size(), 26u);
  for (const int64_t slice : {4, 22, 23, 25}) EXPECT_EQ(times[slice], 2) << slice;
  for (const int64_t slice : {2, 10, 13, 28}) EXPECT_EQ(times.count(slice), 0u) << slice;
}

// Of the first fold, rank 0 of eight has the slices 2, 17, 1 and rank 7 has 11, 20, 7.
TEST(Folds, EightShardsOfThree) {
  const std::vector<int64_t> train = fold(0).train;
  EXPECT_THAT((std::vector<int64_t>{train[0], train[8], train[16]}), ElementsAre(2, 17, 1));
  EXPECT_THAT((std::vector<int64_t>{train[7], train[15], train[23]}), ElementsAre(11, 20, 7));
}

TEST(Folds, TrialsBeyondTheLastFoldAreFurtherSeeds) {
  const v1::Recipe recipe = unet_recipe();
  EXPECT_EQ(trial_part(recipe, 3).fold, 3u);
  EXPECT_EQ(trial_part(recipe, 3).seed, 0u);
  EXPECT_EQ(trial_part(recipe, 13).fold, 3u);
  EXPECT_EQ(trial_part(recipe, 13).seed, 2u);
  EXPECT_EQ(trial_title(recipe, 3), "fold 4 of 5, seed 0");
  EXPECT_EQ(trial_title(recipe, 13), "fold 4 of 5, seed 2");
  v1::Recipe seeds;
  EXPECT_EQ(trial_part(seeds, 13).seed, 13u);
  EXPECT_EQ(trial_title(seeds, 13), "seed 13");
}

TEST(Folds, OfTrainingAndEvaluationMustBeTheSame) {
  const auto refusal = [](const std::function<void(v1::DataRef&)>& change) {
    v1::DataRef train = unet_recipe().data(0);
    train.set_lock("isbi2012_em"), train.set_split("train");
    v1::DataRef held_out = train;
    held_out.set_id("validation"), held_out.set_role("validation");
    change(held_out);
    try {
      require_disjoint_folds(train, held_out);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), Exit::kUsage);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal([](auto&) {}), "accepted");
  const std::string differ = "data.train.folds and data.validation.folds differ";
  EXPECT_THAT(refusal([](auto& d) { d.mutable_folds()->set_stride(6); }), HasSubstr(differ));
  EXPECT_THAT(refusal([](auto& d) { d.mutable_folds()->set_train_count(20); }), HasSubstr(differ));
  EXPECT_THAT(refusal([](auto& d) { d.mutable_folds()->set_shuffle_seed(1); }), HasSubstr(differ));
  EXPECT_THAT(refusal([](auto& d) { d.clear_folds(); }), HasSubstr(differ));
  EXPECT_EQ(refusal([](auto& d) { d.set_split("test"), d.clear_folds(); }), "accepted");
}

TEST(Folds, RefusesOthers) {
  const auto refusal = [](const std::string& more, int64_t samples = 30, uint64_t k = 0) {
    try {
      fold_records(unet_recipe(more).data(0).folds(), samples, k);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("", 24), HasSubstr("would be empty"));
  EXPECT_THAT(refusal("", 30, 5), HasSubstr("fold 5 was asked for"));
  v1::Recipe recipe = unet_recipe();
  recipe.mutable_data(0)->mutable_folds()->set_splitter("at_random");
  EXPECT_THROW(fold_records(recipe.data(0).folds(), 30, 0), Error);
  recipe = unet_recipe();
  recipe.mutable_data(0)->mutable_folds()->set_train_count(0);
  EXPECT_THROW(fold_records(recipe.data(0).folds(), 30, 0), Error);
  recipe.clear_data();
  EXPECT_THROW(trial_part(recipe, 0), Error);
}

}  // namespace
}  // namespace reciperun::engine
