// Names and keys of a network: which there are, and what each may be.
#include "sdk/nn/network_description.h"

#include <algorithm>
#include <utility>

#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"

namespace assay::nn {
namespace {

constexpr size_t kMostInputs = 32, kMostOutputs = 32, kMostLayers = 10000;
constexpr size_t kLongestName = 200;
constexpr int64_t kMostNumbers = int64_t{1} << 40;  // of a sample

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Layers name variables, where dots stand between scopes; the names of inputs and outputs are
// words.
void check_name(std::string_view what, const std::string& name, bool with_dots) {
  const bool is_short = !name.empty() && name.size() <= kLongestName;
  const bool is_plain = std::ranges::all_of(
      name, [&](char c) { return is_word(c) || (with_dots && (c == '.' || c == '-')); });
  const bool dots_between =
      !name.starts_with('.') && !name.ends_with('.') && name.find("..") == std::string::npos;
  expect(is_short && is_plain && dots_between, {what, "name"},
         name.empty() ? "empty" : excerpt(name), "1 to ", kLongestName,
         with_dots ? " letters, digits, _ or -, with dots between" : " letters, digits or _");
}

DType dtype_of(const std::string& name) { return name == "i32" ? DType::kI32 : DType::kF32; }

bool is_for(LayerModes modes, Mode mode) {
  return modes == LayerModes::kAll ||
         mode == (modes == LayerModes::kEval ? Mode::kEval : Mode::kPredict);
}

void check_together(const std::string& name, const NetworkInputConfig& keys) {
  expect(keys.shape.size() < Dims::kMaxRank, {name, "shape"}, cat(keys.shape.size(), " sizes"),
         "at most ", Dims::kMaxRank - 1);
  int64_t left = kMostNumbers;
  for (const int64_t size : keys.shape) left /= size;
  expect(left > 0, {name, "shape"}, Dims(keys.shape), "at most 2^40 numbers");
  const bool is_integer = keys.dtype == "i32";
  expect(keys.range.empty() || is_integer, {name, "range"}, cat(keys.range.size(), " numbers"),
         "none: it is of integers, \"dtype\": \"i32\"");
  expect(keys.range.empty() || (keys.range.size() == 2 && keys.range[0] < keys.range[1]),
         {name, "range"}, Dims(std::span(keys.range).first(std::min<size_t>(keys.range.size(), 8))),
         "[low, high), with low below high");
  expect(!keys.padding || !keys.range.empty(), {name, "padding"}, keys.padding.value_or(0),
         "none without a range");
}

void check_operands(const LayerKind& kind, const NetworkConfig::Layer& layer) {
  const size_t needed = kind.inputs.size(), given = layer.inputs.size();
  const bool fits = kind.text.repeats ? given >= needed : given == needed;
  std::vector<std::string_view> names;
  for (const LayerInput& input : kind.inputs) names.push_back(input.name);
  if (!fits || given > kMostOperands) {
    const std::string wanted =
        cat(needed, ": ", enumerate(names, false, " and "), kind.text.repeats ? ", or more" : "");
    fail(Code::kInvalid,
         cat(layer.name, " (", kind.text.name, "): inputs are ", given, ", expected ", wanted),
         {.op_path = layer.name, .argument = "in", .expected = wanted, .actual = cat(given)});
  }
}

}  // namespace

const std::string& NetworkDescription::name_of(const NetworkSource& source) const {
  return source.is_input ? config_.inputs[source.index].name : config_.layers[source.index].name;
}

NetworkSource NetworkDescription::find(const std::string& name) const {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [each, source] : names_) known.push_back(each);
  fail_unknown("no input or layer is called", "inputs", name, known);
}

void NetworkDescription::add_input(NetworkConfig::Input input) {
  check_name("graph input", input.name, false);
  check_new(input.name);
  require(config_.inputs.size() < kMostInputs, Code::kInvalid, "a graph has at most ", kMostInputs,
          " inputs");
  check_config(input.name, "", input.attributes);
  check_together(input.name, input.attributes);
  names_[input.name] = {true, config_.inputs.size()};
  config_.inputs.push_back(std::move(input));
}

void NetworkDescription::add_layer(NetworkConfig::Layer layer) {
  const LayerKind& kind = layer_kind(layer.kind);
  check_name("graph layer", layer.name, true);
  check_new(layer.name);
  require(config_.layers.size() < kMostLayers, Code::kInvalid, "a graph has at most ", kMostLayers,
          " layers");
  check_operands(kind, layer);
  LayerStep step{&kind, make_layer(kind, layer.name, layer.attributes.text), {}};
  for (const std::string& input : layer.inputs) step.inputs.push_back(find(input));
  check_share(layer.name, step.layer->share());
  for (const Mode mode : kNetworkModes)
    step.exists[static_cast<size_t>(mode)] = is_for(kind.text.modes, mode) && all_exist(step, mode);
  layer.attributes.text = config_to_json(step.layer->config());
  names_[layer.name] = {false, config_.layers.size()};
  layers_.push_back(std::move(step));
  config_.layers.push_back(std::move(layer));
}

void NetworkDescription::add_output(NetworkConfig::Output output) {
  check_name("graph output", output.name, false);
  const auto is_same = [&](const auto& other) { return other.name == output.name; };
  expect(std::ranges::none_of(config_.outputs, is_same), {"graph output", "name"},
         cat('"', output.name, "\", which is taken"), "a name of its own");
  for (const std::string_view taken : {"grad_norm", "skip", "decay_loss"})
    expect(output.name != taken, {"graph output", "name"}, taken,
           "another name: the trainer has an output of this one");
  require(config_.outputs.size() < kMostOutputs, Code::kInvalid, "a graph has at most ",
          kMostOutputs, " outputs");
  check_config(output.name, "", output.attributes);
  OutputStep step{find(output.value), {}};
  expect(!step.value.is_input, {output.name, "value"}, "an input", "what a layer gives");
  if (!output.weight.empty()) step.weight = find(output.weight);
  outputs_.reserve(outputs_.size() + 1);  // so that both lists grow or none
  config_.outputs.push_back(std::move(output));
  outputs_.push_back(step);
}

void NetworkDescription::keep(size_t inputs, size_t layers) {
  std::erase_if(names_, [&](const auto& entry) {
    return entry.second.index >= (entry.second.is_input ? inputs : layers);
  });
  while (config_.inputs.size() > inputs) config_.inputs.pop_back();
  while (config_.layers.size() > layers) config_.layers.pop_back();
  while (layers_.size() > layers) layers_.pop_back();
}

void NetworkDescription::forget_last_output() {
  config_.outputs.pop_back();
  outputs_.pop_back();
}

InputSpec NetworkDescription::spec(size_t index, Mode mode) const {
  const NetworkConfig::Input& input = config_.inputs[index];
  const NetworkInputConfig& keys = input.attributes;
  InputSpec spec{.name = input.name,
                 .dtype = dtype_of(keys.dtype),
                 .sample = Dims(keys.shape),
                 .is_label = keys.label};
  if (!keys.range.empty()) spec.range = IndexRange{keys.range[0], keys.range[1]};
  // As for classifiers: rows that fill up the last batch of a data set count nowhere.
  if (spec.is_label && spec.range && mode == Mode::kEval) spec.padding = -1;
  if (keys.padding) spec.padding = keys.padding;
  return spec;
}

bool NetworkDescription::exists(const NetworkSource& source, Mode mode) const {
  if (source.is_input)
    return mode != Mode::kPredict || !config_.inputs[source.index].attributes.label;
  return layers_[source.index].exists[static_cast<size_t>(mode)];
}

void NetworkDescription::check_new(const std::string& name) const {
  expect(!names_.contains(name), {"graph", "name"}, cat('"', name, "\", which is taken"),
         "a name of its own; \"share\" makes two layers have the same parameters");
}

bool NetworkDescription::all_exist(const LayerStep& step, Mode mode) const {
  return std::ranges::all_of(step.inputs,
                             [&](const NetworkSource& input) { return exists(input, mode); });
}

void NetworkDescription::check_share(const std::string& name, std::string_view share) const {
  if (share.empty()) return;
  std::vector<std::string_view> known;
  for (const NetworkConfig::Layer& layer : config_.layers) known.push_back(layer.name);
  if (std::ranges::find(known, share) == known.end())
    fail_unknown(cat(name, ": share: no layer before is called"), "share", share, known);
}

// ---- Keys ----

void NetworkInputConfig::fields(ConfigFields& f) {
  f("shape", shape, "sizes of a sample; [], the default, is one number").in({1, 1 << 30, true});
  f("dtype", dtype, "\"f32\", or \"i32\" for numbers of classes, tokens and the like")
      .one_of({"f32", "i32"});
  f("label", label, "known only where the answer is: predictions do without");
  f("range", range, "[low, high): others are refused; of i32. Labels -1 are taken in evaluations")
      .in({-2147483648.0, 2147483647, true});
  f("padding", padding, "one more integer that is taken, where there is nothing")
      .in({-2147483648.0, 2147483647, true});
}

void NetworkOutputConfig::fields(ConfigFields& f) {
  f("reduction", reduction,
    "of the batches of an evaluation: \"mean\", the sum of the values by that of the weights; "
    "\"sum\"; \"last\", of tensors")
      .one_of({"mean", "sum", "last"});
}

void NetworkConfig::Input::fields(ConfigFields& f) {
  f("name", name, "of the tensor of a batch");
  f("attributes", attributes, "its keys");
}

void NetworkConfig::Layer::fields(ConfigFields& f) {
  f("kind", kind, "of layer");
  f("name", name, "of its parameters");
  f("inputs", inputs, "names of inputs and layers");
  f("attributes", attributes, "keys of the kind");
}

void NetworkConfig::Output::fields(ConfigFields& f) {
  f("name", name, "by which it is known");
  f("value", value, "the layer that gives it");
  f("weight", weight, "the layer that gives how much of a batch it sums up");
  f("attributes", attributes, "its keys");
}

void NetworkConfig::fields(ConfigFields& f) {
  f("name", name, "of the network");
  f("inputs", inputs, "in the order of a batch");
  f("layers", layers, "in the order they are computed");
  f("outputs", outputs, "losses, metrics, results");
}

}  // namespace assay::nn
