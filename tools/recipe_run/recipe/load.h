// From a recipe's name to the fully resolved recipe: bases, overrides, checks, digests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/recipe_run/recipe/data_lock.pb.h"
#include "tools/recipe_run/recipe/merge.h"

namespace reciperun {

constexpr uint32_t kSchema = 1;

// One value changed by --set.
struct Modification {
  std::string path;
  std::string from;  // recipe text; "" if it was not set
  std::string to;
  bool free = false;  // inside free_override: rows stay comparable
};

// A file that went into the recipe.
struct BaseUsed {
  std::string id;
  std::string version;
  std::string sha256;  // of the file's bytes
};

struct ResolvedRecipe {
  v1::Recipe recipe;
  std::filesystem::path file;
  Origins origins;
  std::vector<BaseUsed> bases;  // in the order they were applied, this recipe's own file last
  std::vector<Modification> modifications;  // values that --set really changed
  std::string exec_digest;
  std::string expect_digest;
  data::Lock data_lock;  // of its data, from data.lock beside the recipes

  // "" if comparable, else "modified: training.epochs 90 → 5".
  std::string modified_reason() const;
};

// A recipe's id and where it lies: `name` is an id below `root` ("fashion_mnist/cnn_2conv_bn"), or
// the path of a file (ending in .textproto), whose root then follows from the id inside.
struct RecipeFile {
  std::filesystem::path root;
  std::string id;
};
RecipeFile locate_recipe(const std::filesystem::path& root, const std::string& name);

// Every id below `root`, sorted.
std::vector<std::string> recipe_ids(const std::filesystem::path& root);

// Reads, composes, applies `sets` ("path=value", in order) and checks. Fails (Exit::kUsage) with
// the place and what to do.
ResolvedRecipe load_recipe(const RecipeFile& file, const std::vector<std::string>& sets = {});

// Fails if the recipe is abstract: there is nothing to plan or to run.
void require_concrete(const ResolvedRecipe& resolved);

// Whether `version` ("1.4.0") satisfies `range` ("^1", "^1.2", "1.4.0", ""). Fails on malformed
// text.
bool version_satisfies(const std::string& version, const std::string& range);

}  // namespace reciperun
