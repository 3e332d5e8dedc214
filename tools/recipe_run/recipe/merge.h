// Laying one recipe file over another, remembering where every value comes from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/recipe_run/recipe/parse.h"

namespace reciperun {

struct Origin {
  std::string file;   // or "--set"
  int line = 0;       // from 1; 0 for --set
  std::string value;  // as recipe text
  int column = 0;     // from 1; 0 for --set

  // "file:line:column", or "--set".
  std::string place() const;
};

// For every set path: who set it, the last one counts; earlier ones are what it hides.
using Origins = std::map<std::string, std::vector<Origin>>;

// Lays `parsed` over `target`: scalars replace, messages merge, repeated messages with a key merge
// by key, other repeated fields replace, setting one member of a oneof removes the others.
// `extends` and `clear` are not carried over.
void lay_over(const ParsedFile& parsed, v1::Recipe& target, Origins& origins);

// Who set `path` or, failing that, something below it; nullptr if nobody did.
const Origin* find_origin(const Origins& origins, const std::string& path);

// Forgets `path` and everything below it.
void forget(Origins& origins, const std::string& path);

}  // namespace reciperun
