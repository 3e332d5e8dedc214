// Every published number with what its recipe says about it: what the checks of the published
// tables look at.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/sources/table_file.h"

namespace reciperun::lint {

// An expectation with the cell it was copied from.
struct Printed {
  const v1::Recipe* recipe = nullptr;
  const v1::Expect* expect = nullptr;
  std::string file;  // of the source, below recipes/
  const SourceTable* table = nullptr;
  int row = 0;  // from 0
  double value = 0;
  double step = 0;  // one unit of the last printed digit

  const std::string& column() const { return expect->at().column(); }
  // Its row as its locator selects it: "GPUs 8, Batch size / GPU 1".
  std::string where() const;
};

struct Corpus {
  std::map<std::string, v1::Recipe> recipes;
  std::map<std::string, SourceFile> files;  // by file name below recipes/
  std::vector<Printed> numbers;

  // nullptr if there is no such row or it has no published value.
  const Printed* find(const std::string& recipe, const std::string& row) const;

 private:
  friend Corpus load_corpus(const std::filesystem::path& root);
  std::map<std::pair<std::string, std::string>, size_t> index_;
};

// Every recipe below `root`, abstract ones left out. Fails if one cannot be read or a cell is gone.
Corpus load_corpus(const std::filesystem::path& root);

struct Interval {
  double lower = 0;
  double upper = 0;
};

// The values that are printed as this one, whether rounded or truncated.
Interval printed_interval(const Printed& number);
Interval rounded_interval(const Printed& number);

// The numbers of each table, in the order of the recipes; keyed by file and table name.
std::map<std::pair<std::string, std::string>, std::vector<const Printed*>> by_table(
    const Corpus& corpus);

}  // namespace reciperun::lint
