// Composition of recipes: strict parsing, origins, overrides, digests.
#include "tools/recipe_run/recipe/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/recipe/fields.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;

constexpr char kBase[] = R"(schema: 1
id: "toy/base"
version: "1.2.0"
abstract: true
model { arch: "cnn" hparam { key: "stem" value: "cifar" } }
data { id: "train" role: "train" lock: "toy" pipeline { op: "crop" } pipeline { op: "flip" } }
data { id: "test" role: "test" lock: "toy" }
training {
  epochs: 90
  batch_per_device: 32
  label_smoothing: 0.1
  optimizer { name: "sgd" lr: 0.1 }
}
numerics { compute: FP32 }
trials { unit: "seed" seed: [1, 2, 3] count: 3 }
evaluation { metric: "accuracy" select: LAST when: "end" }
bench { id: "infer" mode: INFER batch: [1, 8] measure_steps: 100 repeats: 7 }
source { id: "table" file: "t.tsv" }
expect { id: "thr.b8" bench: "infer" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 100 } at { source: "table" } }
free_override: "io.data_root"
free_override: "trials.count"
)";

constexpr char kChild[] = R"(schema: 1
id: "toy/child"
version: "1.0.0"
extends: "toy/base@^1.1"
model { hparam { key: "width" value: "64" } }
data { id: "train" pipeline { op: "pad" } }
training { steps: 500 label_smoothing: 0 }
bench { id: "infer" batch: 4 }
)";

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    put("toy/base", kBase);
    put("toy/child", kChild);
  }
  void put(const std::string& id, const std::string& text) {
    write_file_atomic(root_ / (id + ".textproto"), text);
  }
  ResolvedRecipe load(const std::string& id, const std::vector<std::string>& sets = {}) {
    return load_recipe(locate_recipe(root_, id), sets);
  }
  // The message and hint of the error that loading raises.
  std::string error_of(const std::string& id, const std::vector<std::string>& sets = {}) {
    try {
      load(id, sets);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), Exit::kUsage);
      return std::string(error.what()) + " | " + error.hint();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
  std::string child_with(const std::string& more) { return std::string(kChild) + more; }

  fs::path root_;
};

TEST_F(LoadTest, LaterFilesReplaceScalarsAndMergeMessages) {
  const v1::Recipe recipe = load("toy/child").recipe;
  EXPECT_EQ(recipe.model().arch(), "cnn");
  EXPECT_EQ(recipe.model().hparam().at("stem"), "cifar");
  EXPECT_EQ(recipe.model().hparam().at("width"), "64");
  EXPECT_EQ(recipe.training().length_case(), v1::Training::kSteps);
  EXPECT_EQ(recipe.training().batch_per_device(), 32u);
  ASSERT_EQ(recipe.data_size(), 2);
  EXPECT_EQ(recipe.data(0).lock(), "toy");
  ASSERT_EQ(recipe.data(0).pipeline_size(), 1);  // no key: replaced as a whole
  EXPECT_EQ(recipe.data(0).pipeline(0).op(), "pad");
  ASSERT_EQ(recipe.bench_size(), 1);
  ASSERT_EQ(recipe.bench(0).batch_size(), 1);
  EXPECT_EQ(recipe.bench(0).measure_steps(), 100u);
  EXPECT_FALSE(recipe.abstract());
}

TEST_F(LoadTest, AnExplicitZeroReplacesAnInheritedValue) {
  EXPECT_EQ(load("toy/child").recipe.training().label_smoothing(), 0.0);
}

TEST_F(LoadTest, OriginsNameFileAndLineAndWhatTheyHide) {
  const ResolvedRecipe resolved = load("toy/child");
  const auto& smoothing = resolved.origins.at("training.label_smoothing");
  ASSERT_EQ(smoothing.size(), 2u);
  EXPECT_THAT(smoothing[0].file, HasSubstr("base.textproto"));
  EXPECT_EQ(smoothing[0].line, 11);
  EXPECT_EQ(smoothing[0].value, "0.1");
  EXPECT_THAT(smoothing[1].file, HasSubstr("child.textproto"));
  EXPECT_EQ(smoothing[1].line, 7);
  EXPECT_EQ(resolved.origins.count("training.epochs"),
            0u);  // the other member of the oneof is gone
  EXPECT_EQ(resolved.origins.at("model.hparam.stem").back().line, 5);
  EXPECT_EQ(resolved.origins.at("data.train.pipeline.0.op").back().line, 6);
  EXPECT_EQ(resolved.origins.count("data.train.pipeline.1.op"), 0u);
  EXPECT_EQ(resolved.origins.at("bench.infer.batch").back().value, "[4]");
}

TEST_F(LoadTest, ClearRemovesWhatWasInherited) {
  put("toy/child", child_with("clear: \"data.train.pipeline\" clear: \"expect.thr.b8\" clear: "
                              "\"model.hparam.stem\"\n"));
  const ResolvedRecipe resolved = load("toy/child");
  EXPECT_EQ(resolved.recipe.expect_size(), 0);
  ASSERT_EQ(resolved.recipe.data(0).pipeline_size(), 1);
  EXPECT_EQ(resolved.recipe.data(0).pipeline(0).op(), "pad");
  EXPECT_EQ(resolved.origins.count("expect.thr.b8.metric"), 0u);
}

TEST_F(LoadTest, BadTextIsRefusedWithPlaceAndHint) {
  put("toy/child", "schema: 1\nid: \"toy/child\"\ntraining { epoch: 3 }\n");
  EXPECT_THAT(error_of("toy/child"), HasSubstr("child.textproto:3:"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("did you mean 'epochs'?"));
  put("toy/child", child_with("version: \"2.0.0\"\n"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("child.textproto:9:"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("stands here twice"));
  put("toy/child", child_with("numerics { compute: FP31 }\n"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("FP31"));
  put("toy/child", child_with("trials { count: \"three\" }\n"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("child.textproto:9:17"));
  put("toy/child", child_with("bench { id: \"b\" } bench { id: \"b\" }\n"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("bench 'b' stands in this file twice"));
  put("toy/child", child_with("expect { metric: \"x\" }\n"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("expect without id"));
  put("toy/child", std::string(200000, '{'));
  error_of("toy/child");
}

TEST_F(LoadTest, BasesAreFoundCheckedAndNotCircular) {
  put("toy/child", "schema: 1 id: \"toy/child\" version: \"1.0.0\"\nextends: \"toy/bade\"\n");
  EXPECT_THAT(error_of("toy/child"), HasSubstr("child.textproto:2"));
  EXPECT_THAT(error_of("toy/child"), HasSubstr("did you mean 'toy/base'?"));
  put("toy/child", "schema: 1 id: \"toy/child\" version: \"1.0.0\" extends: \"toy/base@^2\"\n");
  EXPECT_THAT(error_of("toy/child"), HasSubstr("its version is 1.2.0"));
  put("toy/a", "schema: 1 id: \"toy/a\" version: \"1.0.0\" extends: \"toy/b\"");
  put("toy/b", "schema: 1 id: \"toy/b\" version: \"1.0.0\" extends: \"toy/a\"");
  EXPECT_THAT(error_of("toy/a"), HasSubstr("toy/a → toy/b → toy/a"));
  put("toy/c", "schema: 2 id: \"toy/c\" version: \"1.0.0\"");
  EXPECT_THAT(error_of("toy/c"), HasSubstr("newer recipe-run"));
  put("toy/d", "schema: 1 id: \"toy/other\" version: \"1.0.0\"");
  EXPECT_THAT(error_of("toy/d"), HasSubstr("expected 'toy/d'"));
}

TEST_F(LoadTest, ThreeDeepExtendsKeepsEveryOrigin) {
  put("toy/grandchild",
      "schema: 1 id: \"toy/grandchild\" version: \"1.0.0\" extends: \"toy/child@^1\"\ntraining { "
      "label_smoothing: 0.2 }");
  const ResolvedRecipe resolved = load("toy/grandchild");
  ASSERT_EQ(resolved.origins.at("training.label_smoothing").size(), 3u);
  ASSERT_EQ(resolved.lock.base_size(), 3);
  EXPECT_EQ(resolved.lock.base(0).id(), "toy/base");
  EXPECT_EQ(resolved.lock.base(2).id(), "toy/grandchild");
}

TEST_F(LoadTest, SetMarksTheRecipeModifiedUnlessFree) {
  EXPECT_EQ(load("toy/child", {"trials.count=5", "io.data_root=/data"}).modified_reason(), "");
  EXPECT_EQ(load("toy/child", {"training.batch_per_device=32"}).modified_reason(), "");
  EXPECT_EQ(load("toy/child", {"training.steps=5"}).modified_reason(),
            "modified: training.steps 500 → 5");
  const ResolvedRecipe resolved =
      load("toy/child", {"training.epochs=2", "bench.infer.batch=[1, 2]"});
  EXPECT_EQ(resolved.recipe.training().epochs(), 2);
  EXPECT_EQ(resolved.recipe.bench(0).batch_size(), 2);
  EXPECT_EQ(resolved.origins.count("training.steps"), 0u);
  EXPECT_EQ(load("toy/child", {"expect.thr.b8.single.v=7"}).recipe.expect(0).single().v(), 7);
  EXPECT_EQ(load("toy/child", {"model.hparam.depth=3"}).recipe.model().hparam().at("depth"), "3");
}

TEST_F(LoadTest, SetRefusesWhatDoesNotExist) {
  EXPECT_THAT(error_of("toy/child", {"training.epoch=2"}), HasSubstr("did you mean 'epochs'?"));
  EXPECT_THAT(error_of("toy/child", {"bench.inference.batch=2"}), HasSubstr("there are: infer"));
  EXPECT_THAT(error_of("toy/child", {"training.epochs=two"}), HasSubstr("training.epochs=two"));
  EXPECT_THAT(error_of("toy/child", {"training.epochs"}), HasSubstr("no '='"));
  EXPECT_THAT(error_of("toy/child", {"data.train.pipeline.7.op=x"}),
              HasSubstr("element number below 1"));
}

TEST_F(LoadTest, DigestsSeparateWhatRunsFromWhatIsExpected) {
  const ResolvedRecipe plain = load("toy/child");
  const ResolvedRecipe more_trials = load("toy/child", {"trials.count=5", "io.workers=7"});
  EXPECT_EQ(plain.exec_digest, more_trials.exec_digest);
  const ResolvedRecipe longer = load("toy/child", {"training.steps=501"});
  EXPECT_NE(plain.exec_digest, longer.exec_digest);
  EXPECT_EQ(plain.expect_digest, longer.expect_digest);
  const ResolvedRecipe corrected = load("toy/child", {"expect.thr.b8.single.v=101"});
  EXPECT_EQ(plain.exec_digest, corrected.exec_digest);
  EXPECT_NE(plain.expect_digest, corrected.expect_digest);
}

TEST_F(LoadTest, CanonicalFormSortsKeysAndLeavesOutDefaults) {
  v1::Margin margin;
  margin.set_relative(1e-7);
  margin.set_absolute(0.1);
  EXPECT_EQ(canonical_json(margin), R"({"absolute":0.1,"relative":1e-7})");
  v1::Training training;
  training.set_steps(0);  // a member of a oneof is set, whatever its value
  training.mutable_optimizer();
  EXPECT_EQ(canonical_json(training), R"({"optimizer":{},"steps":0})");
}

TEST_F(LoadTest, MeaninglessRecipesAreRefusedWithTheLineAtFault) {
  const auto refused = [&](const std::string& more, const std::string& message) {
    put("toy/child", child_with(more));
    EXPECT_THAT(error_of("toy/child"), HasSubstr(message));
  };
  refused("trials { seed: [4, 4] }\n", "child.textproto:9:10: trials.seed: a seed is listed twice");
  refused("numerics { compute: COMPUTE_UNSET }\n",
          "child.textproto:9:12: numerics.compute: not set");
  refused("free_override: \"io.wrokers\"\n", "did you mean 'workers'?");
  refused(
      "expect { id: \"a\" metric: \"x\" unit: \"1\" direction: HIGHER single { v: 1 } at { "
      "source: \"table\" } spread_from: \"b\" }\n",
      "there is no expectation 'b'");
  refused("expect { id: \"a\" metric: \"x\" unit: \"1\" direction: HIGHER bench: \"none\" }\n",
          "there is no bench");
  refused("expect { id: \"a\" metric: \"x\" unit: \"1\" direction: HIGHER gate: true }\n",
          "exit code");
  refused(
      "bench { id: \"q\" mode: INFER batch: 1 measure_steps: 1 repeats: 1 quantile { p: 0.99 } }\n",
      "name the estimator");
}

TEST_F(LoadTest, EveryRefusalNamesFileLineColumnAndWhatToDo) {
  const auto refused = [&](const std::string& more, const std::string& place,
                           const std::string& message, const std::string& hint) {
    put("toy/heir",
        "schema: 1\nid: \"toy/heir\"\nversion: \"1.0.0\"\nextends: \"toy/child\"\n" + more);
    const std::string error = error_of("toy/heir");
    EXPECT_THAT(error, HasSubstr("heir.textproto:" + place + ": "));
    EXPECT_THAT(error, HasSubstr(message));
    EXPECT_THAT(error, HasSubstr(" | " + hint));
  };
  const std::string row = "expect { id: \"a\" metric: \"x\" unit: \"1\" direction: HIGHER ";
  refused("trainings { epochs: 3 }\n", "5:11", "there is no field 'trainings' in Recipe",
          "did you mean");
  refused("version: \"2.0.0\"\n", "5:8", "'version' stands here twice", "keep one of them");
  refused("training { label_smoothing: 1.5 }\n", "5:12", "below 1", "");
  refused("training { optimizer { weight_decay: -1 } }\n", "5:24", "must not be negative", "");
  refused("training { batch_per_device: -1 }\n", "5:30", "expected a whole number, found -", "");
  refused("numerics { compute: FP23 }\n", "5:26", "'FP23' is no value of 'compute'",
          "did you mean 'FP32'?");
  refused("training { epochs: 3 steps: 5 }\n", "5:27", "exclude each other", "keep one");
  refused("training { drop_last: maybe }\n", "5:29", "'drop_last' is true or false", "");
  refused("title: 3\n", "5:8", "expected text in double quotes, found 3", "");
  refused("training { optimizer { name: \"sdg\" } }\n", "5:24", "'sdg' is unknown",
          "did you mean 'sgd'?");
  refused("training { schedule { kind: \"cosinus\" } }\n", "5:23", "'cosinus' is unknown",
          "did you mean 'cosine'?");
  refused("training { optimizer { no_decay: \"batchnorm\" } }\n", "5:24", "'batchnorm' is unknown",
          "one of: bn, layer_norm, bias");
  refused("trials { count: 0 }\n" + row + "}\n", "5:10", "there are rows over trials", "1 to 1000");
  refused(row + "single { v: 1 } }\n", "5:40", "without the cell it was copied from", "add 'at'");
  refused(row + "single { v: 1 } at { source: \"tabel\" } }\n", "5:79", "no source 'tabel'",
          "there are: table");
  refused("clear: \"data.trian\"\n", "5:1", "data.trian", "");
  refused("extends: \"toy/bass\"\n", "5:1", "no recipe 'toy/bass'", "did you mean 'toy/base'?");
  refused("extends: \"toy/base@^7\"\n", "5:1", "its version is 1.2.0", "see what its new version");
  refused("extends: \"toy/base@~1\"\n", "5:1", "malformed", "write ^1");
  refused("extends: \"toy/heir\"\n", "5:1", "goes in a circle", "remove one");
}

TEST_F(LoadTest, PhasesMergeByName) {
  put("toy/phases", R"(schema: 1
id: "toy/phases"
version: "1.0.0"
extends: "toy/base"
clear: "training"
training {
  phase { name: "short" training { steps: 10 batch_per_device: 4 optimizer { name: "lamb" lr: 0.1 } } }
  phase { name: "long" training { steps: 5 batch_per_device: 2 optimizer { name: "lamb" lr: 0.2 } } }
}
)");
  put("toy/more", R"(schema: 1 id: "toy/more" version: "1.0.0" extends: "toy/phases"
training { phase { name: "long" training { accumulate: 3 } } }
)");
  const ResolvedRecipe resolved = load("toy/more");
  ASSERT_EQ(resolved.recipe.training().phase_size(), 2);
  EXPECT_EQ(resolved.recipe.training().phase(1).training().accumulate(), 3u);
  EXPECT_EQ(resolved.recipe.training().phase(1).training().steps(), 5u);
  EXPECT_EQ(resolved.origins.at("training.phase.long.training.steps").back().line, 8);
  EXPECT_THAT(error_of("toy/more", {"training.phase.long.training.steps=0"}),
              HasSubstr("--set: training.phase.long.training.steps: needs steps or epochs"));
}

TEST_F(LoadTest, VersionRanges) {
  EXPECT_TRUE(version_satisfies("1.4.0", "^1"));
  EXPECT_TRUE(version_satisfies("1.4.0", "^1.4"));
  EXPECT_FALSE(version_satisfies("1.4.0", "^1.5"));
  EXPECT_FALSE(version_satisfies("2.0.0", "^1.5"));
  EXPECT_TRUE(version_satisfies("1.4.0", "1.4.0"));
  EXPECT_THROW(version_satisfies("1.4.0", "~1"), Error);
}

TEST_F(LoadTest, APathOfAFileWorksLikeItsId) {
  const RecipeFile file = locate_recipe("elsewhere", (root_ / "toy/child.textproto").string());
  EXPECT_EQ(file.id, "toy/child");
  EXPECT_EQ(load_recipe(file).exec_digest, load("toy/child").exec_digest);
}

}  // namespace
}  // namespace reciperun
