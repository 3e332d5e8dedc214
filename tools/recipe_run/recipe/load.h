// From a recipe's name to the fully resolved recipe: bases, overrides, checks, digests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/recipe_run/recipe/data_lock.pb.h"
#include "tools/recipe_run/recipe/fields.h"

namespace reciperun {

constexpr uint32_t kSchema = 1;

struct ResolvedRecipe {
  v1::Recipe recipe;
  std::filesystem::path file;
  Origins origins;
  RecipeLock lock;        // the files that went into it
  Changes modifications;  // values that --set really changed
  std::string exec_digest;
  std::string expect_digest;
  data::Lock data_lock;  // of its data, from data.lock beside the recipes

  // "" if comparable, else "modified: training.epochs 90 → 5".
  std::string modified_reason() const;
  // "file:line:column: " of what set `path`, something below it or, failing that, what it belongs
  // to; the recipe's file if nothing did.
  std::string place_of(std::string path) const;
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

// Reads, composes, applies `sets` ("path=value", in order) and checks. Values of `sets` are recipe
// text; quotes around strings may be left out, and one that changes nothing is no modification.
// Fails (Exit::kUsage) with the place and what to do.
ResolvedRecipe load_recipe(const RecipeFile& file, const std::vector<std::string>& sets = {});

// One --set, "path=value", as load_recipe applies it.
void apply_set(const std::string& text, ResolvedRecipe& resolved);

// What a resolved recipe must satisfy beyond its syntax before anything is run with it. Fails on
// the first problem, naming the file and line that set the value. An abstract recipe is only
// checked for what its heirs cannot repair.
void check_recipe(const ResolvedRecipe& resolved);

// Fails if the recipe is abstract: there is nothing to plan or to run.
void require_concrete(const ResolvedRecipe& resolved);

// Whether `version` ("1.4.0") satisfies `range` ("^1", "^1.2", "1.4.0", ""). Fails on malformed
// text.
bool version_satisfies(const std::string& version, const std::string& range);

}  // namespace reciperun
