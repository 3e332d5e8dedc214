// Are the copied tables those of the published document?
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/sources/table_file.h"

namespace reciperun {

// Everything in which `file` and the text of the document it names disagree: the digest, a header
// or a row that the document does not print there, a sentence it does not say. Tables are looked
// for in their order; inside a table every row must follow the one before. Layout does not count:
// blanks, line ends, and the marks of bold text.
std::vector<std::string> document_problems(const SourceFile& file, const std::string& document);

}  // namespace reciperun
