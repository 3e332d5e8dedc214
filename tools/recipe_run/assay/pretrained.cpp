// A folder of weights as the engine's partial load, and a check of what it left out.
#include "tools/recipe_run/assay/pretrained.h"

#include <fmt/core.h>
#include <unistd.h>

#include "tools/recipe_run/util/file.h"

namespace reciperun::engine {
namespace {

constexpr const char* kWeights = "model.safetensors";

fs::path folder_of_weights(const v1::Recipe& recipe) {
  return fs::path(recipe.io().data_root()) / recipe.model().pretrained();
}

// What a pre-trained network need not have.
bool is_head(const std::string& variable) {
  const auto is_of = [&](const char* part) { return variable.find(part) != std::string::npos; };
  return !is_of("embeddings.") && !is_of("encoder.") && !is_of("backbone.");
}

// A checkpoint's weights lie in a file of their own while they are read.
class TemporaryWeights {
 public:
  explicit TemporaryWeights(const fs::path& checkpoint)
      : path_(fs::temp_directory_path() / fmt::format("recipe_run_{}_{}", getpid(), kWeights)) {
    const std::string from = checkpoint.string(), to = path_.string();
    report_of(Exit::kDataMismatch, assay_checkpoint_convert, text(from), text(to),
              text("safetensors"), text(""), int32_t{0});
  }
  ~TemporaryWeights() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryWeights(const TemporaryWeights&) = delete;
  TemporaryWeights& operator=(const TemporaryWeights&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void load(assay_model* model, const fs::path& file, const std::string& names) {
  const std::string path = file.string();
  const Struct report =
      report_of(Exit::kDataMismatch, assay_model_load_weights, model, text(path),
                text("safetensors"), text(names), uint32_t{ASSAY_WEIGHTS_PARTIAL});
  const auto refuse = [&](const std::string& what) {
    throw Error(
        Exit::kDataMismatch, path + ": " + what,
        "weights of a model of the same size; where their names are others, with names.json "
        "beside them (models/names)");
  };
  for (const Struct& other : objects_of(report, "mismatched"))
    refuse(name_of(other, "model") + " has another shape");
  for (const auto& missing : assay::tools::at(report, "missing").list_value().values())
    if (!is_head(missing.string_value())) refuse("there is no " + missing.string_value());
}

}  // namespace

std::string missing_weights(const v1::Recipe& recipe) {
  if (recipe.model().pretrained().empty()) return "";
  const fs::path folder = folder_of_weights(recipe);
  if (is_there(folder / kWeights) || is_there(folder / "checkpoint")) return "";
  return fmt::format(
      "there are no weights '{0}': put them into {1} as {2}, with names.json where their names are "
      "others (models/names), or a training's checkpoint as 'checkpoint'",
      recipe.model().pretrained(), folder.string(), kWeights);
}

void begin_weights(const v1::Recipe& recipe, assay_model* model, uint64_t seed) {
  if (recipe.model().pretrained().empty()) return;
  call(Exit::kCrashed, assay_model_initialize, model, seed);
  const fs::path folder = folder_of_weights(recipe);
  if (!is_there(folder / kWeights))
    return load(model, TemporaryWeights(folder / "checkpoint").path(), "");
  const fs::path names = folder / "names.json";
  load(model, folder / kWeights, is_there(names) ? read_file(names) : "");
}

}  // namespace reciperun::engine
