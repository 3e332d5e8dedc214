// Layers in the order of their description, each checked against what it takes.
#include "sdk/nn/network_model.h"

#include <algorithm>

#include "sdk/base/expect.h"

namespace assay::nn {
namespace {

void check_type(const std::string& layer, const LayerInput& wanted, const ValueType& actual) {
  using Type = LayerInput::Type;
  const bool is_integer = actual.dtype == DType::kI32;
  const bool fits = wanted.type == Type::kEither || is_integer == (wanted.type == Type::kIntegers);
  const int rank = actual.dims.rank();
  if (!fits || rank < wanted.least_rank || rank > wanted.most_rank) {
    fail_mismatch(Code::kInvalid, {cat(layer, ": ", wanted.name), std::string(wanted.name),
                                   assay::to_text(actual), to_text(wanted)});
  }
}

}  // namespace

// ---- Graphs ----

ValueId NetworkReplay::value(const NetworkSource& source) {
  if (!source.is_input) return source.index < layers_.size() ? layers_[source.index] : ValueId{};
  if (!network_.exists(source, b_.mode())) return {};
  if (inputs_.size() <= source.index) inputs_.resize(source.index + 1);
  ValueId& input = inputs_[source.index];
  if (!input.valid()) input = b_.input(network_.spec(source.index, b_.mode()));
  return input;
}

void NetworkReplay::emit(size_t index) {
  layers_.push_back({});
  if (!network_.exists({false, index}, b_.mode())) return;
  const NetworkDescription::LayerStep& step = network_.layers()[index];
  const std::string& name = network_.config().layers[index].name;
  std::vector<ValueId> inputs;
  for (const NetworkSource& input : step.inputs) inputs.push_back(value(input));
  try {
    layers_.back() = checked(step, name, inputs);
  } catch (const Error& error) {
    throw explained(error, step, inputs).at(name);
  }
}

Error NetworkReplay::explained(const Error& error, const NetworkDescription::LayerStep& step,
                               const std::vector<ValueId>& inputs) const {
  ErrorDetail detail = error.detail();
  const ConfigFields keys(step.layer->config());
  if (keys.find(detail.argument) != nullptr) return error;
  std::string reads;
  for (size_t i = 0; i < inputs.size(); ++i)
    reads += cat(i == 0 ? "" : " and ", network_.name_of(step.inputs[i]), " ", b_.type(inputs[i]));
  if (detail.argument.empty()) detail.argument = "in";
  if (detail.actual.empty()) detail.actual = reads;
  return {error.code(), cat(error.message(), "; it reads ", reads), detail};
}

ValueId NetworkReplay::checked(const NetworkDescription::LayerStep& step, const std::string& name,
                               const std::vector<ValueId>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& wanted = step.kind->inputs[std::min(i, step.kind->inputs.size() - 1)];
    check_type(cat(name, " (", step.kind->text.name, ")"), wanted, b_.type(inputs[i]));
  }
  if (const int64_t classes = step.layer->classes(b_, inputs); classes > 0) {
    for (const NetworkSource& input : step.inputs) check_range(name, input, classes);
  }
  const std::string share(step.layer->share());
  if (share.empty()) return step.layer->emit(b_, name, inputs);
  const Builder::Tie tie(b_, name, share);
  const ValueId y = step.layer->emit(b_, name, inputs);
  expect(tie.found() > 0, {name, "share"}, cat('"', share, '"'),
         "a layer with parameters of the same names");
  return y;
}

// Kernels take integers as indices, so the input they come from must say how large they are.
void NetworkReplay::check_range(const std::string& name, NetworkSource source, int64_t classes) {
  while (!source.is_input) {  // reshaped
    if (b_.type(value(source)).dtype != DType::kI32) return;
    source = network_.layers()[source.index].inputs[0];
  }
  const NetworkConfig::Input& input = network_.config().inputs[source.index];
  const NetworkInputConfig& keys = input.attributes;
  if (keys.dtype != "i32") return;
  const bool fits = !keys.range.empty() && keys.range[0] >= 0 && keys.range[1] <= classes;
  const std::string range =
      keys.range.empty() ? "any integers" : cat("[", keys.range[0], ", ", keys.range[1], ")");
  if (!fits || keys.padding.value_or(-1) != -1) {
    fail_mismatch(Code::kInvalid,
                  {cat(name, ": the range of ", input.name), "range",
                   fits ? cat(range, " and ", *keys.padding) : range,
                   cat("[0, ", classes, ") or within, and -1 if there is padding")});
  }
}

// ---- The model ----

Network::Network(const NetworkConfig& config) : network_(config.name) {
  for (const NetworkConfig::Input& input : config.inputs) network_.add_input(input);
  for (const NetworkConfig::Layer& layer : config.layers) network_.add_layer(layer);
  for (const NetworkConfig::Output& output : config.outputs) network_.add_output(output);
  for (const Mode mode : kNetworkModes) live_[static_cast<size_t>(mode)] = find_live(mode);
}

std::vector<InputSpec> Network::inputs(Mode mode) const {
  std::vector<InputSpec> specs;
  for (size_t i = 0; i < live(mode).inputs.size(); ++i) {
    if (live(mode).inputs[i]) specs.push_back(network_.spec(i, mode));
  }
  return specs;
}

Outputs Network::forward(Builder& b) const {
  NetworkReplay replay(network_, b);
  const Live& needed = live(b.mode());
  for (size_t i = 0; i < needed.layers.size(); ++i) {
    if (needed.layers[i])
      replay.emit(i);
    else
      replay.skip();
  }
  Outputs outputs;
  for (size_t i = 0; i < network_.outputs().size(); ++i) add_output(outputs, b, replay, i);
  return outputs;
}

Network::Live Network::find_live(Mode mode) const {
  Live needed{std::vector<bool>(network_.config().inputs.size()),
              std::vector<bool>(network_.layers().size())};
  const auto mark = [&](const NetworkSource& source) {
    (source.is_input ? needed.inputs : needed.layers)[source.index] = true;
  };
  for (const NetworkDescription::OutputStep& output : network_.outputs()) {
    if (!network_.exists(output.value, mode)) continue;
    mark(output.value);
    if (mode == Mode::kEval && output.weight) mark(*output.weight);
  }
  for (size_t i = needed.layers.size(); i-- > 0;) {
    if (needed.layers[i]) std::ranges::for_each(network_.layers()[i].inputs, mark);
  }
  return needed;
}

void Network::add_output(Outputs& outputs, Builder& b, NetworkReplay& replay, size_t i) const {
  const NetworkDescription::OutputStep& step = network_.outputs()[i];
  const NetworkConfig::Output& config = network_.config().outputs[i];
  const ValueId value = replay.value(step.value);
  if (!value.valid()) return;
  const bool is_number = b.dims(value).rank() == 0;
  const std::string& chosen = config.attributes.reduction.value_or(is_number ? "mean" : "last");
  Output output{config.name, value, Reduction::kLast};
  if (is_number && chosen == "mean") output.reduction = Reduction::kMean;
  if (is_number && chosen == "sum") output.reduction = Reduction::kSum;
  if (output.reduction == Reduction::kMean && b.mode() == Mode::kEval) {
    output.weight = step.weight ? replay.value(*step.weight)
                                : b.graph().emit1(Fill{{}, static_cast<float>(b.batch())}, {});
  }
  outputs.push_back(std::move(output));
}

}  // namespace assay::nn
