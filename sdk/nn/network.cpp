// The writer replays every layer as it comes, in each mode, and looks at the whole network in the
// end.
#include "sdk/nn/network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "sdk/base/expect.h"
#include "sdk/graph/autodiff.h"
#include "sdk/graph/leaves.h"
#include "sdk/nn/network_model.h"

namespace assay::nn {
namespace {

// Batch norm of 1 x 1 images wants two samples. What fits two sizes of batches fits all: shapes
// that depend on them otherwise than by their batch axis differ.
constexpr std::array<int64_t, 2> kDraftBatches{2, 3};

[[noreturn]] void fail_network(const std::string& what, const std::string& hint) {
  fail(Code::kInvalid, cat("graph: ", what, "; ", hint), {.argument = "g", .hint = hint});
}

// Everything is of use, in training and in evaluation.
void check_uses(const Network& network) {
  const NetworkConfig& config = network.config();
  const auto in = [&](Mode mode) -> const Network::Live& { return network.live(mode); };
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const bool used =
        std::ranges::any_of(kNetworkModes, [&](Mode mode) { return in(mode).layers[i]; });
    if (!used)
      fail_network(cat(config.layers[i].name, " leads to no output"),
                   "make an output of it, or describe the network anew without it");
  }
  for (size_t i = 0; i < config.inputs.size(); ++i) {
    if (!in(Mode::kTrain).inputs[i] || !in(Mode::kEval).inputs[i])
      fail_network(cat("the input ", config.inputs[i].name,
                       in(Mode::kTrain).inputs[i]  ? " is not needed in evaluations"
                       : in(Mode::kEval).inputs[i] ? " is not needed in training"
                                                   : " leads to no output"),
                   "training and evaluation take the same inputs");
  }
}

// What is one number for a batch: losses, weights.
void check_number(const Builder& b, const Key& key, ValueId value, std::string_view made_by) {
  const std::string missing = b.training() ? "not there in training" : "not there in evaluations";
  expect(value.valid() && b.dims(value).rank() == 0, key,
         value.valid() ? assay::to_text(b.type(value)) : missing, "[], a single number; ", made_by,
         " gives one");
}

// What a prediction gives.
void check_rows(const Builder& b, const std::string& output, ValueId value) {
  const Dims& dims = b.dims(value);
  if (dims.rank() > 0 && dims[0] == b.batch()) return;
  fail_mismatch(
      Code::kInvalid,
      {cat(output, ": value"), "value", assay::to_text(b.type(value)),
       cat("[", b.batch(), ",...], for predictions give a row for each of ", b.batch(), " samples"),
       cat(dims.rank() > 0 ? "reshape it, or " : "",
           "compute it of a label, an input with \"label\": true: predictions do without")});
}

// The mode of `b` need not have the value.
void check_output(const Builder& b, const NetworkConfig::Output& output, ValueId value) {
  const Key shown{output.name, "value"};
  if (output.name == kLoss && b.mode() == Mode::kPredict) {
    expect(!value.valid(), shown, "computed without a label",
           "a loss of a label, which predictions do without: declare the input of the answers with "
           "\"label\": true");
  } else if (output.name == kLoss) {
    check_number(b, shown, value, "a layer like \"softmax_cross_entropy\" or \"mean\"");
  }
  if (!value.valid()) return;
  if (b.mode() == Mode::kPredict) check_rows(b, output.name, value);
}

// What is taken for nothing in files.
void check_reduction(const Builder& b, const NetworkConfig::Output& output, ValueId value,
                     ValueId weight) {
  if (b.mode() != Mode::kEval || !value.valid()) return;
  if (!output.weight.empty())
    check_number(b, {output.name, "weight"}, weight, "a layer like \"count_targets\"");
  const std::string reduction = output.attributes.reduction.value_or("last");
  expect(reduction == "last" || b.dims(value).rank() == 0, {output.name, "reduction"},
         cat('"', reduction, '"'), "\"last\" for ", b.type(value), ", which is no single number");
}

// Every parameter learns.
void check_gradients(Graph& graph, const VariableTable& variables, ValueId loss) {
  Leaves leaves(graph);
  std::vector<const Variable*> trained;
  std::vector<ValueId> values;
  for (const Variable& variable : variables.all()) {
    if (variable.role != Role::kValue) continue;
    trained.push_back(&variable);
    values.push_back(leaves.leaf(variable, Role::kValue));
  }
  const Key shown{kLoss, "value"};
  expect(!trained.empty(), shown, "computed without parameters", "what depends on some");
  const auto gradients = append_backward(graph, loss, graph.emit1(Fill{{}, 1}, {}), values);
  for (size_t i = 0; i < trained.size(); ++i)
    expect(gradients[i].valid(), shown, cat("independent of ", trained[i]->name),
           "what depends on every parameter: add what that one leads to, or describe the network "
           "anew without it");
}

bool has_loss(const NetworkConfig& config) {
  return std::ranges::count(config.outputs, kLoss, &NetworkConfig::Output::name) > 0;
}

// What holds of the whole. Parts were checked as they came.
void check(const Network& network) {
  if (!has_loss(network.config()))
    fail_network("no output is called \"loss\"", "give what training makes smaller this name");
  check_uses(network);
  if (std::ranges::count(network.live(Mode::kPredict).layers, true) == 0)
    fail_network("nothing is left in a prediction",
                 "make an output of what does not depend on labels");
}

}  // namespace

class NetworkWriter::Draft {
 public:
  Draft(std::string name, Origin origin)
      : network(std::move(name)), is_read(origin == Origin::kRead) {}

  // Adds an input or a layer: `add` to the description, then to the graphs. A failure leaves no
  // trace of it.
  template <class Add>
  NetworkValue add(bool is_input, const Add& add) {
    const size_t inputs = network.config().inputs.size(), layers = network.layers().size();
    try {
      up_to_date();
      const size_t variables = variables_.all().size();
      add();
      const NetworkSource source{is_input, is_input ? inputs : layers};
      emit(source);
      if (has_loss(network.config()) && variables_.all().size() > variables)
        fail_network(cat("the loss is there already, and cannot depend on ",
                         variables_.all()[variables].name),
                     "layers with parameters come before the output \"loss\"");
      made.push_back(source);
      return {static_cast<int32_t>(made.size()) - 1};
    } catch (...) {
      network.keep(inputs, layers);
      forget_scratch();
      throw;
    }
  }

  void add_output(NetworkConfig::Output output) {
    up_to_date();
    network.add_output(std::move(output));
    try {
      check_last_output();
      if (network.config().outputs.back().name == kLoss) check_loss();
    } catch (...) {
      network.forget_last_output();
      throw;
    }
  }

  // In the first mode that has it.
  ValueType type(const NetworkSource& source) {
    up_to_date();
    for (Scratch& each : scratch_) {
      const ValueId value = each.replay.value(source);
      if (value.valid()) return each.builder.type(value);
    }
    return {};
  }

  const std::string& name_of(NetworkValue value, std::string_view argument) const {
    expect(value.valid() && static_cast<size_t>(value.index) < made.size(), {"graph", argument},
           "no value of this graph", "what assay_graph_input or assay_graph_layer gave");
    return network.name_of(made[static_cast<size_t>(value.index)]);
  }

  NetworkDescription network;
  const bool is_read;
  std::vector<NetworkSource> made;

 private:
  // A mode's graph of all that was described.
  struct Scratch {
    Scratch(const NetworkDescription& network, Mode mode, int64_t batch, VariableTable& variables)
        : builder(graph, mode, batch, variables, 0), replay(network, builder) {}
    void add(const NetworkSource& source) try {
      if (source.is_input)
        replay.value(source);
      else
        replay.emit(source.index);
    } catch (const Error& error) {
      if (builder.batch() == kDraftBatches[0]) throw;
      throw error.with_context(cat("in a batch of ", builder.batch(), " samples"));
    }
    Graph graph;
    Builder builder;
    NetworkReplay replay;
  };

  // Graphs cannot be shortened: after a failure they are written anew.
  void up_to_date() {
    if (!scratch_.empty()) return;
    try {
      for (const int64_t batch : kDraftBatches) {
        for (const Mode mode : kNetworkModes)
          scratch_.emplace_back(network, mode, batch, variables_);
      }
      for (const NetworkSource& source : made) emit(source);
    } catch (...) {
      forget_scratch();
      throw;
    }
  }

  void forget_scratch() {
    scratch_.clear();
    variables_ = {};
  }

  void check_last_output() {
    const NetworkDescription::OutputStep& step = network.outputs().back();
    for (Scratch& each : scratch_) {
      const ValueId weight = step.weight ? each.replay.value(*step.weight) : ValueId{};
      const ValueId value = each.replay.value(step.value);
      const NetworkConfig::Output& output = network.config().outputs.back();
      check_output(each.builder, output, value);
      if (!is_read) check_reduction(each.builder, output, value, weight);
    }
  }

  // In a graph of its own, for gradients stay in it.
  void check_loss() {
    VariableTable variables;
    Scratch training(network, Mode::kTrain, kDraftBatches[0], variables);
    for (const NetworkSource& source : made) training.add(source);
    check_gradients(training.graph, variables,
                    training.replay.value(network.outputs().back().value));
  }

  void emit(const NetworkSource& source) {
    scratch_.front().add(source);
    const size_t trained = variables_.all().size();
    for (Scratch& each : scratch_) {
      if (&each != &scratch_.front()) each.add(source);
    }
    if (variables_.all().size() > trained)
      fail_network(cat(variables_.all()[trained].name, " is not there in training"),
                   "parameters are those that training needs, and a layer in front of it is of "
                   "evaluations or predictions only");
  }

  VariableTable variables_;      // of all of these
  std::deque<Scratch> scratch_;  // one for each size of batch and mode, training first, or none
};

NetworkWriter::NetworkWriter(std::string name, Origin origin)
    : draft_(std::make_unique<Draft>(std::move(name), origin)) {}
NetworkWriter::~NetworkWriter() = default;

NetworkValue NetworkWriter::input(const std::string& name, std::string_view attributes_json) {
  NetworkConfig::Input input{name, {}};
  try {
    parse_json(attributes_json, input.attributes, name);
    return draft_->add(true, [&] { draft_->network.add_input(std::move(input)); });
  } catch (const Error& error) {
    throw error.at(name);
  }
}

NetworkValue NetworkWriter::layer(std::string_view kind, const std::string& name,
                                  std::string_view attributes_json,
                                  std::span<const NetworkValue> inputs) {
  NetworkConfig::Layer layer{std::string(kind), name, {}, {std::string(attributes_json)}};
  try {
    for (const NetworkValue& input : inputs) layer.inputs.push_back(draft_->name_of(input, "in"));
    return draft_->add(false, [&] {
      draft_->network.add_layer(std::move(layer));
      if (!draft_->is_read) draft_->network.layers().back().layer->require_clear(name);
    });
  } catch (const Error& error) {
    throw error.at(name);
  }
}

void NetworkWriter::output(const std::string& name, NetworkValue value, NetworkValue weight,
                           std::string_view attributes_json) {
  NetworkConfig::Output output{name,
                               draft_->name_of(value, "value"),
                               weight.valid() ? draft_->name_of(weight, "weight") : "",
                               {}};
  parse_json(attributes_json, output.attributes, name);
  draft_->add_output(std::move(output));
}

std::unique_ptr<Model> NetworkWriter::finish() const {
  auto network = std::make_unique<Network>(config());
  check(*network);
  return network;
}

size_t NetworkWriter::size() const { return draft_->made.size(); }

const NetworkConfig& NetworkWriter::config() const { return draft_->network.config(); }

std::vector<NetworkWriter::Value> NetworkWriter::values() const {
  std::vector<Value> all;
  for (const NetworkSource& source : draft_->made)
    all.push_back({draft_->network.name_of(source), draft_->type(source)});
  return all;
}

std::unique_ptr<Model> read_network(std::string_view config_json) {
  NetworkConfig config;
  parse_json(config_json, config, "graph");
  NetworkWriter writer(config.name, NetworkWriter::Origin::kRead);
  std::map<std::string, NetworkValue, std::less<>> values;
  const auto value = [&](const std::string& name) {
    const auto found = values.find(name);
    if (found != values.end()) return found->second;
    std::vector<std::string_view> known;
    for (const auto& [each, number] : values) known.push_back(each);
    fail_unknown("graph: no input or layer before is called", "inputs", name, known);
  };
  for (const NetworkConfig::Input& input : config.inputs)
    values[input.name] = writer.input(input.name, to_json(input.attributes));
  for (const NetworkConfig::Layer& layer : config.layers) {
    std::vector<NetworkValue> inputs;
    for (const std::string& name : layer.inputs) inputs.push_back(value(name));
    values[layer.name] = writer.layer(layer.kind, layer.name, layer.attributes.text, inputs);
  }
  for (const NetworkConfig::Output& output : config.outputs) {
    writer.output(output.name, value(output.value),
                  output.weight.empty() ? NetworkValue{} : value(output.weight),
                  to_json(output.attributes));
  }
  return writer.finish();
}

}  // namespace assay::nn
