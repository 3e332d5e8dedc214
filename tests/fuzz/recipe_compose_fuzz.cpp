// Any bytes as two recipe files, the second extending the first or itself: read, composed, checked,
// digested, its places looked up. The files are separated by a line "=====". Only Error may come
// out.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace {

using namespace reciperun;

// A folder of recipes that goes away with the process.
class Folder {
 public:
  Folder() { fs::create_directories(root / "f"); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  void put(const char* name, const std::string& text) const {
    const fs::path path = root / "f" / name;
    std::remove(path.c_str());  // ext4 flushes a file that is cut to be written again
    FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return;
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }

  const fs::path root =
      fs::temp_directory_path() / ("recipe_compose_fuzz_" + std::to_string(getpid()));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string separator = "\n=====\n";
  const size_t at = bytes.find(separator);
  folder.put("base.textproto", bytes.substr(0, at));
  folder.put("child.textproto",
             at == std::string::npos ? bytes : bytes.substr(at + separator.size()));
  for (const char* id : {"f/base", "f/child"}) {
    try {
      const ResolvedRecipe resolved = load_recipe({folder.root, id});
      require_concrete(resolved);
      for (const auto& [path, history] : resolved.origins) find_origin(resolved.origins, path);
    } catch (const Error&) {
    }
  }
  return 0;
}
