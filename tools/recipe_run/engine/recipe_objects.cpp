#include "tools/recipe_run/engine/recipe_objects.h"

#include <algorithm>
#include <set>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/engine/pipeline.h"

namespace reciperun::engine {

Model new_model(const assay_context* context, const v1::Recipe& recipe) {
  assay_model* model = nullptr;
  const std::string config = model_config(recipe.model());
  try {
    call(Exit::kUsage, assay_model_named, context, text(recipe.model().arch()), text(config),
         &model);
  } catch (const Error& error) {  // a name it does not know is the recipe's fault, not the data's
    throw Error(Exit::kUsage, error.what(), error.hint());
  }
  return Model(model);
}

google::protobuf::Struct model_report(const assay_model* model) {
  assay_report* report = nullptr;
  call(Exit::kCrashed, assay_model_report, model, &report);
  return parse_report(Report(report));
}

namespace {

bool has_one_number(const google::protobuf::Map<std::string, google::protobuf::Value>& variable) {
  const auto shape = variable.find("shape");
  if (shape == variable.end()) return false;
  const auto& sizes = shape->second.list_value().values();
  return std::all_of(sizes.begin(), sizes.end(),
                     [](const auto& size) { return integer(size) == 1; });
}

}  // namespace

std::vector<Variable> variables_of(const google::protobuf::Struct& report) {
  std::vector<Variable> variables;
  std::set<std::string> normalisations;
  for (const auto& item : report.fields().at("variables").list_value().values()) {
    const auto& fields = item.struct_value().fields();
    const std::string& name = fields.at("name").string_value();
    if (name.ends_with(".running_mean")) normalisations.insert(name.substr(0, name.rfind('.')));
    if (fields.at("role").string_value() == "value")
      variables.push_back({name, false, has_one_number(fields)});
  }
  for (Variable& variable : variables) {
    const size_t dot = variable.name.rfind('.');
    variable.normalisation =
        dot != std::string::npos && normalisations.contains(variable.name.substr(0, dot));
  }
  return variables;
}

int64_t integer(const google::protobuf::Value& value) {
  return value.has_string_value() ? std::stoll(value.string_value())
                                  : static_cast<int64_t>(value.number_value());
}

fs::path folder_of(const v1::Recipe& recipe, const v1::DataRef& data) {
  return fs::path(recipe.io().data_root()) / data.lock();
}

Loader new_loader(const assay_context* context, const v1::Recipe& recipe, const v1::DataRef& data,
                  const LoaderConfig& config) {
  assay_loader* loader = nullptr;
  const std::string folder = folder_of(recipe, data).string();
  call(Exit::kUsage, assay_loader_create, context, text(folder), text(data.split()),
       text(config.loader), text(config.transform), &loader);
  return Loader(loader);
}

int64_t loader_samples(const assay_loader* loader) {
  assay_report* report = nullptr;
  call(Exit::kCrashed, assay_loader_report, loader, &report);
  return integer(parse_report(Report(report)).fields().at("samples"));
}

namespace {

int64_t split_samples(const v1::Recipe& recipe, const v1::DataRef& data) {
  assay_report* report = nullptr;
  const std::string folder = folder_of(recipe, data).string();
  call(Exit::kUsage, assay_dataset_report, text(folder), &report);
  const auto manifest = parse_report(Report(report));
  std::vector<std::string> names;
  for (const auto& value : manifest.fields().at("splits").list_value().values()) {
    const auto& split = value.struct_value().fields();
    names.push_back(split.at("name").string_value());
    if (names.back() == data.split()) return integer(split.at("records"));
  }
  throw Error(Exit::kDataMismatch,
              "data '" + data.id() + "': " + folder + " has no split '" + data.split() + "'",
              "convert a source that has it, or take another with --set data." + data.id() +
                  ".split=" + join(names, " or "));
}

void check_samples(const v1::DataRef& data, int64_t samples) {
  if (data.expect_samples() == 0 || data.expect_samples() == static_cast<uint64_t>(samples)) return;
  throw Error(Exit::kDataMismatch,
              "data '" + data.id() + "': split " + data.split() + " holds " +
                  std::to_string(samples) + " samples, the recipe expects " +
                  std::to_string(data.expect_samples()),
              "convert the data set again with dataset-convert");
}

}  // namespace

void check_data(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    check_samples(data, split_samples(recipe, data));
    transform_config(data);
  }
}

Share share_of(const v1::Recipe& recipe, const v1::DataRef& data, uint64_t fold) {
  const int64_t samples = split_samples(recipe, data);
  check_samples(data, samples);
  if (!data.has_folds()) return {};
  FoldRecords records = fold_records(data.folds(), samples, fold);
  return {data.role() == "train" ? std::move(records.train) : std::move(records.held_out)};
}

Feeding feeding_for(const v1::DataRef& data, bool on_gpu) {
  const auto raw = on_gpu ? raw_pipeline(data) : std::nullopt;
  if (!raw) return {};
  return {kRawTensors, raw->transform, raw->raw_images};
}

Loader new_training_loader(const assay_context* context, const v1::Recipe& recipe,
                           const Feeding& feeding, LoaderConfig config) {
  if (!feeding.transform.empty()) config.transform = feeding.transform;
  return new_loader(context, recipe, training_data(recipe), config);
}

}  // namespace reciperun::engine
