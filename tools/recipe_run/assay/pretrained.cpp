// A folder of weights as the engine's partial load, and a check of what it left out.
#include "tools/recipe_run/assay/pretrained.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/json.h"

namespace reciperun::engine {
namespace {

constexpr const char* kWeights = "model.safetensors";

fs::path folder_of_weights(const v1::Recipe& recipe) {
  return fs::path(recipe.io().data_root()) / recipe.model().pretrained();
}

// Of models that name their body: all else is a head, which a pre-trained network need not have.
bool is_body(const std::string& variable) {
  const auto is_of = [&](const char* part) { return variable.find(part) != std::string::npos; };
  return is_of("embeddings.") || is_of("encoder.") || is_of("backbone.");
}

bool names_its_body(const assay_model* model) {
  const std::vector<Struct> variables = objects_of(model_report(model), "variables");
  return std::any_of(variables.begin(), variables.end(),
                     [](const Struct& variable) { return is_body(name_of(variable)); });
}

// The name map with what the recipe draws anew.
std::string map_of(const v1::Recipe& recipe, const fs::path& names) {
  Struct map;
  if (is_there(names)) {
    const std::string wrong = parse_json(read_file(names), map);
    if (!wrong.empty()) throw Error(Exit::kDataMismatch, names.string() + ": " + wrong);
  }
  for (const std::string& pattern : recipe.model().fresh())
    (*map.mutable_fields())["keep"].mutable_list_value()->add_values()->set_string_value(pattern);
  return map.fields().empty() ? "" : json_line(map);
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

void load(const v1::Recipe& recipe, assay_model* model, const fs::path& file,
          const std::string& names) {
  const std::string path = file.string();
  const Struct report =
      report_of(Exit::kDataMismatch, assay_model_load_weights, model, text(path),
                text("safetensors"), text(names), uint32_t{ASSAY_WEIGHTS_PARTIAL});
  const auto refuse = [&](const std::string& what) {
    throw Error(
        Exit::kDataMismatch, path + ": " + what,
        "weights of a model of the same size; where their names are others, with names.json "
        "beside them (models/names); model.fresh for what is to be drawn anew");
  };
  for (const Struct& other : objects_of(report, "mismatched"))
    refuse(name_of(other, "model") + " has another shape");
  const bool heads_may_miss = recipe.model().fresh().empty() && names_its_body(model);
  for (const auto& missing : assay::tools::at(report, "missing").list_value().values())
    if (!heads_may_miss || is_body(missing.string_value()))
      refuse("there is no " + missing.string_value());
}

void check_digest(const v1::Model& model, const fs::path& file) {
  if (model.pretrained_sha256().empty()) return;
  const std::string digest = sha256_of_file(file);
  if (digest != model.pretrained_sha256())
    throw Error(Exit::kDataMismatch, fmt::format("{}: its SHA-256 is {}", file.string(), digest),
                fmt::format("model.pretrained_sha256 is {}", model.pretrained_sha256()));
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
  const bool is_weights = is_there(folder / kWeights);
  const fs::path file = folder / (is_weights ? kWeights : "checkpoint");
  check_digest(recipe.model(), file);
  if (is_weights)
    load(recipe, model, file, map_of(recipe, folder / "names.json"));
  else
    load(recipe, model, TemporaryWeights(file).path(), map_of(recipe, {}));
}

}  // namespace reciperun::engine
