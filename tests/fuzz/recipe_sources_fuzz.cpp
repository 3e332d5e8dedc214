// Any bytes as a file of copied tables. Only Error may come out.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/util/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reciperun;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const SourceFile file = parse_source("fuzz", bytes);
    for (const SourceTable& table : file.tables) {
      for (const auto& row : table.rows) {
        for (const std::string& cell : row) count_in(cell);
      }
      v1::Locator at;
      at.set_table(table.name);
      at.set_column(table.columns.empty() ? "" : table.columns[0]);
      std::string problem;
      find_cell(file, at, problem);
    }
  } catch (const Error&) {
  }
  return 0;
}
