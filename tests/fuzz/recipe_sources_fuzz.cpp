// Any bytes as a file of copied tables, and as the document they are compared with. Only Error may
// come out.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/sources/document.h"
#include "tools/recipe_run/sources/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reciperun;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    SourceFile file = parse_source("fuzz", bytes);
    file.document_sha256 = sha256_hex(bytes);  // so that the comparison goes on
    document_problems(file, bytes);
    for (const SourceTable& table : file.tables) {
      for (const auto& row : table.rows) {
        for (const std::string& cell : row) numbers_in(cell);
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
