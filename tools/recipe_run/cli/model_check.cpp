#include "tools/recipe_run/cli/model_check.h"

#include <cctype>

#include "tools/recipe_run/base/error.h"

namespace reciperun {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where `name` stands in `text` as a word of its own; npos if nowhere.
size_t mention(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return at;
  }
  return std::string::npos;
}

// The path of the hparam that the engine's message names first; others it may list as known.
std::string path_at_fault(const v1::Model& model, const std::string& message) {
  std::string path = "model";
  size_t first = std::string::npos;
  for (const auto& [name, value] : model.hparam()) {
    const size_t at = mention(message, name);
    if (at >= first) continue;
    first = at;
    path = "model.hparam." + name;
  }
  return path;
}

}  // namespace

void check_model(const ResolvedRecipe& resolved, const TrainerDriver& driver) {
  try {
    driver.check_model(resolved.recipe);
  } catch (const Error& error) {
    const std::string path = path_at_fault(resolved.recipe.model(), error.what());
    const Origin* origin = find_origin(resolved.origins, path);
    const std::string place = origin == nullptr ? resolved.file.string() : origin->place();
    throw Error(error.exit_code(), place + ": " + path + ": " + error.what(), error.hint());
  }
}

std::string why_not_here(const ResolvedRecipe& resolved, uint32_t emulated_devices,
                         TrainerDriver& driver) {
  check_model(resolved, driver);
  if (emulated_devices > 0) driver.emulate(resolved.recipe, emulated_devices);
  return driver.why_not(resolved.recipe);
}

}  // namespace reciperun
