// Calls that make the C interface's objects from a recipe, and readers of its reports.
#include "tools/recipe_run/assay/objects.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

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

// The pieces of a data set's vocabulary and their numbers.
std::map<std::string, int64_t> pieces_of(const fs::path& folder) {
  const std::string path = folder.string();
  const Text words = made<Text>(Exit::kDataMismatch, assay_text_create, text(path), text(""));
  assay_str lines{};
  call(Exit::kCrashed, assay_text_vocabulary, words.get(), &lines);
  std::map<std::string, int64_t> pieces;
  for (const std::string& piece : split(string(lines), '\n'))
    if (!piece.empty()) pieces.emplace(piece, static_cast<int64_t>(pieces.size()));
  return pieces;
}

// The records of data.range, of so many that there are.
std::vector<int64_t> range_records(const v1::DataRef& data, int64_t samples) {
  const v1::Range& range = data.range();
  const auto all = static_cast<uint64_t>(samples);
  require(range.count() > 0 && range.first() < all && range.count() <= all - range.first(),
          fmt::format("data.{}.range: {} records from number {} on, the split has {}", data.id(),
                      range.count(), range.first(), samples));
  require(!data.has_folds(), "data." + data.id() + ".range and folds exclude each other");
  std::vector<int64_t> records(range.count());
  std::iota(records.begin(), records.end(), static_cast<int64_t>(range.first()));
  return records;
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

int64_t encoder_layers(const assay_model* model) {
  constexpr std::string_view kLayer = "encoder.layer.";
  int64_t layers = 0;
  for (const Struct& variable : objects_of(model_report(model), "variables")) {
    const std::string& name = name_of(variable);
    if (const size_t at = name.find(kLayer); at != std::string::npos)
      layers = std::max<int64_t>(layers, 1 + std::atoll(name.c_str() + at + kLayer.size()));
  }
  return layers;
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

int64_t loader_samples(const assay_loader* loader) {
  return integer_of(report_of(Exit::kCrashed, assay_loader_report, loader), "samples");
}

Batch::Batch(const assay_loader* loader, const assay_model* model)
    : tensors_(objects_of(report_of(Exit::kCrashed, assay_loader_report, loader), "arrays").size()),
      taken_(tensors_.size()) {
  if (model != nullptr) taken_ = std::min(taken_, objects_of(model_report(model), "inputs").size());
}

void Batch::next(assay_loader* loader, assay_batch_info* info) {
  call(Exit::kCrashed, assay_loader_next, loader, tensors_.data(), tensors_.size(), info);
}

void check_data(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    check_samples(data, split_samples(recipe, data));
    transform_config(data);
  }
}

void check_vocabulary(const v1::Recipe& recipe, const Struct& model) {
  const auto& keys = at(model, "config").struct_value().fields();
  for (const v1::DataRef& data : recipe.data()) {
    if (!is_text(data)) continue;
    const std::map<std::string, int64_t> pieces = pieces_of(folder_of(recipe, data));
    const auto refuse = [&](const std::string& problem, const std::string& key) {
      throw Error(Exit::kDataMismatch, "data '" + data.id() + "': " + problem,
                  fmt::format("set model.hparam.{}, or convert the data set with the vocabulary "
                              "that the recipe is for",
                              key));
    };
    const auto rows = keys.find("vocabulary");
    if (rows != keys.end() && integer(rows->second) < static_cast<int64_t>(pieces.size()))
      refuse(fmt::format("its vocabulary has {} pieces, the model has rows for {}", pieces.size(),
                         integer(rows->second)),
             "vocabulary");
    for (const auto& [key, piece] :
         {std::pair{"cls", "[CLS]"}, {"sep", "[SEP]"}, {"mask", "[MASK]"}}) {
      const auto number = keys.find(key);
      if (number != keys.end() && integer(number->second) != pieces.at(piece))
        refuse(fmt::format("{} is piece {} of its vocabulary, the model takes {} for it", piece,
                           pieces.at(piece), integer(number->second)),
               key);
    }
  }
}

Share share_of(const v1::Recipe& recipe, const v1::DataRef& data, uint64_t fold) {
  const int64_t samples = split_samples(recipe, data);
  check_samples(data, samples);
  if (data.has_range()) return {range_records(data, samples)};
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

std::vector<Tensor> first_rows(const assay_context* context, const Batch& batch, size_t tensors,
                               int64_t rows) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < tensors; ++i) {
    const assay_tensor_info whole = info_of(batch.data()[i]);
    std::vector<int64_t> shape(whole.shape, whole.shape + whole.ndim);
    shape[0] = rows;
    out.push_back(made<Tensor>(Exit::kCrashed, assay_tensor_borrow, context, whole.data,
                               static_cast<size_t>(whole.bytes), whole.dtype, shape.data(),
                               whole.ndim, nullptr, uintptr_t{0}));
  }
  return out;
}

Forward::Forward(const assay_model* model, const std::string& config)
    : predictor_(made<Predictor>(Exit::kUsage, assay_predictor_create, model, text(config))),
      slot_(made<Slot>(Exit::kCrashed, assay_slot_create, predictor_.get())) {
  const Struct report = report_of(Exit::kCrashed, assay_predictor_report, predictor_.get());
  inputs_ = objects_of(report, "inputs").size();
  outputs_ = objects_of(report, "outputs").size();
}

std::vector<Tensor> Forward::run(const assay_tensor* const* batch) {
  std::vector<assay_tensor*> views(outputs_);
  call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), batch, inputs_,
       views.data(), views.size());
  return {views.begin(), views.end()};
}

std::vector<Tensor> Forward::run(const std::vector<Tensor>& batch) {
  std::vector<const assay_tensor*> tensors;
  for (const Tensor& tensor : batch) tensors.push_back(tensor.get());
  return run(tensors.data());
}

assay_tensor_info info_of(const assay_tensor* tensor) {
  assay_tensor_info info{};
  info.struct_size = sizeof info;
  call(Exit::kCrashed, assay_tensor_get_info, tensor, &info);
  return info;
}

Tensor new_tensor(const assay_context* context, const std::vector<int64_t>& shape) {
  return made<Tensor>(Exit::kCrashed, assay_tensor_new, context,
                      assay_device_id{ASSAY_DEVICE_CPU, 0}, assay_dtype{ASSAY_F32}, shape.data(),
                      static_cast<int32_t>(shape.size()));
}

}  // namespace reciperun::engine
