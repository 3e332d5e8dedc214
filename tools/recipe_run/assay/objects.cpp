// Calls that make the C interface's objects from a recipe, and readers of its reports.
#include "tools/recipe_run/assay/objects.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/recipe_run/assay/folds.h"
#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {
namespace {

using assay::tools::at;

int64_t integer(const google::protobuf::Value& value) {
  return value.has_string_value() ? std::stoll(value.string_value())
                                  : static_cast<int64_t>(value.number_value());
}

// What `init` draws a weight [outputs, .., inputs] from, as reports say it: "normal", 0.0589.
// Nothing for a name that is unknown.
struct Draw {
  std::string distribution;
  double parameter = 0;  // standard deviation, or the bound of a uniform one
};
Draw draw_of(const std::string& init, const std::vector<int64_t>& shape) {
  double area = 1;
  for (size_t i = 1; i + 1 < shape.size(); ++i) area *= static_cast<double>(shape[i]);
  const double fan_out = area * static_cast<double>(shape.front());
  const double fan_in = area * static_cast<double>(shape.back());
  const std::string truncated = "truncated_normal_";
  if (init == "he_normal_fan_in") return {"normal", std::sqrt(2 / fan_in)};
  if (init == "he_normal_fan_out") return {"normal", std::sqrt(2 / fan_out)};
  if (init == "glorot_uniform") return {"uniform", std::sqrt(6 / (fan_in + fan_out))};
  if (init.starts_with(truncated))
    return {"truncated_normal", std::atof(init.c_str() + truncated.size())};
  return {};
}

int64_t split_samples(const v1::Recipe& recipe, const v1::DataRef& data) {
  const std::string folder = folder_of(recipe, data).string();
  std::vector<std::string> names;
  for (const Struct& split :
       objects_of(report_of(Exit::kUsage, assay_dataset_report, text(folder)), "splits")) {
    names.push_back(name_of(split));
    if (names.back() == data.split()) return integer_of(split, "records");
  }
  throw Error(Exit::kDataMismatch,
              fmt::format("data '{}': {} has no split '{}'", data.id(), folder, data.split()),
              fmt::format("convert a source that has it, or take another with --set "
                          "data.{}.split={}",
                          data.id(), join(names, " or ")));
}

// By name of a conversion.
const std::map<std::string, std::string>& kinds_of_samples() {
  static const std::map<std::string, std::string> kKinds = [] {
    std::map<std::string, std::string> kinds;
    for (const Struct& item : objects_of(report_of(Exit::kCrashed, assay_dataset_list), "datasets"))
      kinds[name_of(item)] = name_of(item, "samples");
    return kinds;
  }();
  return kKinds;
}

void check_samples(const v1::DataRef& data, int64_t samples) {
  if (data.expect_samples() == 0 || data.expect_samples() == static_cast<uint64_t>(samples)) return;
  throw Error(Exit::kDataMismatch,
              fmt::format("data '{}': split {} holds {} samples, the recipe expects {}", data.id(),
                          data.split(), samples, data.expect_samples()),
              "convert the data set again with dataset-convert");
}

}  // namespace

std::vector<Struct> objects_of(const Struct& report, const std::string& list) {
  std::vector<Struct> out;
  for (const auto& value : at(report, list).list_value().values())
    out.push_back(value.struct_value());
  return out;
}

const std::string& name_of(const Struct& object, const std::string& key) {
  return at(object, key).string_value();
}

int64_t integer_of(const Struct& object, const std::string& key) {
  return integer(at(object, key));
}

std::vector<int64_t> integers_of(const Struct& object, const std::string& key) {
  std::vector<int64_t> out;
  for (const auto& value : at(object, key).list_value().values()) out.push_back(integer(value));
  return out;
}

Model new_model(const assay_context* context, const v1::Recipe& recipe) {
  const std::string config = model_config(recipe.model());
  try {
    return made<Model>(Exit::kUsage, assay_model_named, context, text(recipe.model().arch()),
                       text(config));
  } catch (const Error& error) {  // a name it does not know is the recipe's fault, not the data's
    throw Error(Exit::kUsage, error.what(), error.hint());
  }
}

Struct model_report(const assay_model* model) {
  return report_of(Exit::kCrashed, assay_model_report, model);
}

void check_init(const v1::Model& model, const Struct& report) {
  if (model.init().empty()) return;
  constexpr double kPrinted = 1e-9;  // relative: both sides round
  for (const Struct& variable : objects_of(report, "variables")) {
    const std::vector<int64_t> shape = integers_of(variable, "shape");
    // Filters and tables; a last dense layer may have a way of its own.
    if (shape.size() != 4 && name_of(variable, "kind") != "embedding") continue;
    const std::vector<std::string> drawn = split(name_of(variable, "initializer"), '(');
    const Draw asked = draw_of(model.init(), shape);
    const double parameter = drawn.size() < 2 ? 0 : std::atof(drawn[1].c_str());
    require(asked.distribution == drawn[0] &&
                std::abs(parameter - asked.parameter) <= kPrinted * asked.parameter,
            fmt::format("model.init '{}' is not how this engine draws the first weights of {}",
                        model.init(), model.arch()),
            fmt::format("{} has {}", name_of(variable), name_of(variable, "initializer")));
  }
}

std::string conversion_of(const std::string& data_set) {
  for (const auto& [name, samples] : kinds_of_samples())
    if (data_set == name || data_set.starts_with(name + "_")) return name;
  return "";
}

std::string prepared_as(const std::string& data_set) {
  const auto known = kinds_of_samples().find(conversion_of(data_set));
  return known == kinds_of_samples().end() ? "" : known->second;
}

fs::path folder_of(const v1::Recipe& recipe, const v1::DataRef& data) {
  return fs::path(recipe.io().data_root()) / data.lock();
}

Loader new_loader(const assay_context* context, const v1::Recipe& recipe, const v1::DataRef& data,
                  const LoaderConfig& config) {
  const std::string folder = folder_of(recipe, data).string();
  return made<Loader>(Exit::kUsage, assay_loader_create, context, text(folder), text(data.split()),
                      text(config.loader), text(config.transform));
}

int64_t loader_samples(const assay_loader* loader) {
  return integer_of(report_of(Exit::kCrashed, assay_loader_report, loader), "samples");
}

Batch::Batch(const assay_loader* loader)
    : tensors_(
          objects_of(report_of(Exit::kCrashed, assay_loader_report, loader), "arrays").size()) {}

void Batch::next(assay_loader* loader, assay_batch_info* info) {
  call(Exit::kCrashed, assay_loader_next, loader, tensors_.data(), tensors_.size(), info);
}

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
  return {raw->transform, raw->raw_images};
}

Loader new_training_loader(const assay_context* context, const v1::Recipe& recipe,
                           const Feeding& feeding, LoaderConfig config) {
  if (!feeding.transform.empty()) config.transform = feeding.transform;
  return new_loader(context, recipe, training_data(recipe), config);
}

Forward::Forward(const assay_model* model, const std::string& config)
    : predictor_(made<Predictor>(Exit::kUsage, assay_predictor_create, model, text(config))),
      slot_(made<Slot>(Exit::kCrashed, assay_slot_create, predictor_.get())) {}

Tensor Forward::run(const assay_tensor* input) {
  assay_tensor* output = nullptr;
  call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), &input, size_t{1},
       &output, size_t{1});
  return Tensor(output);
}

Tensor new_tensor(const assay_context* context, const std::vector<int64_t>& shape) {
  return made<Tensor>(Exit::kCrashed, assay_tensor_new, context,
                      assay_device_id{ASSAY_DEVICE_CPU, 0}, assay_dtype{ASSAY_F32}, shape.data(),
                      static_cast<int32_t>(shape.size()));
}

}  // namespace reciperun::engine
