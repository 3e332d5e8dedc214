// The writer replays every layer as it comes, in each mode, and looks at the whole network in the
// end.
#include "sdk/nn/network.h"

#include <algorithm>
#include <deque>
#include <map>

#include "sdk/base/expect.h"
#include "sdk/graph/autodiff.h"
#include "sdk/graph/leaves.h"
#include "sdk/nn/network_model.h"

namespace assay::nn {
namespace {

constexpr int64_t kDraftBatch = 2;  // batch norm of 1 x 1 images wants two samples

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
      fail_network(cat(config.layers[i].name, " leads to no output"), "use it, or leave it out");
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

// A batch of another size has the same shapes but for the batch axis.
void check_outputs(const Builder& b, const Outputs& outputs) {
  const bool has_loss =
      std::ranges::any_of(outputs, [](const Output& output) { return output.name == kLoss; });
  if (!has_loss && b.mode() != Mode::kPredict)
    fail_network("no output is called \"loss\"", "training makes it smaller");
  if (outputs.empty())
    fail_network("nothing is left in a prediction",
                 "make an output of what does not depend on labels");
  for (const Output& output : outputs) {
    const Dims& dims = b.dims(output.value);
    if (output.name == kLoss && dims.rank() > 0)
      fail_network(cat("loss is ", dims), "it must be one number, []: \"mean\" makes it");
    if (output.weight.valid() && b.dims(output.weight).rank() > 0)
      fail_network(cat("the weight of ", output.name, " is ", b.dims(output.weight)),
                   "it must be one number, []: \"count_targets\" makes it");
    if (b.mode() == Mode::kPredict && (dims.rank() == 0 || dims[0] != b.batch()))
      fail_network(cat("the output ", output.name, " is ", dims, " for ", b.batch(), " samples"),
                   "in predictions each sample has its row: reshape it, or compute it of a label");
  }
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
  if (trained.empty()) fail_network("there are no parameters", "add a layer that has some");
  const auto gradients = append_backward(graph, loss, graph.emit1(Fill{{}, 1}, {}), values);
  for (size_t i = 0; i < trained.size(); ++i) {
    if (!gradients[i].valid())
      fail_network(cat("the loss does not depend on ", trained[i]->name),
                   "let it lead to the loss, or leave out its layer and the outputs behind it");
  }
}

void check(const Network& network) {
  check_uses(network);
  for (const int64_t batch : {kDraftBatch, kDraftBatch + 1}) {
    VariableTable variables;
    size_t trained = 0;
    for (const Mode mode : kNetworkModes) {
      Graph graph;
      Builder b(graph, mode, batch, variables, 0);
      const Outputs outputs = network.forward(b);
      check_outputs(b, outputs);
      if (mode == Mode::kTrain) {
        trained = variables.all().size();
        const auto loss = std::ranges::find(outputs, kLoss, &Output::name);
        check_gradients(graph, variables, loss->value);
      }
      if (variables.all().size() > trained)
        fail_network(cat(variables.all()[trained].name, " is not there in training"),
                     "parameters are those that training needs");
    }
  }
}

}  // namespace

class NetworkWriter::Draft {
 public:
  explicit Draft(std::string name) : network(std::move(name)) {}

  // Adds an input or a layer: `add` to the description, then to the graphs. A failure leaves no
  // trace of it.
  template <class Add>
  NetworkValue add(bool is_input, const Add& add) {
    const size_t inputs = network.config().inputs.size(), layers = network.layers().size();
    try {
      up_to_date();
      add();
      const NetworkSource source{is_input, is_input ? inputs : layers};
      emit(source);
      made.push_back(source);
      return {static_cast<int32_t>(made.size()) - 1};
    } catch (...) {
      network.keep(inputs, layers);
      scratch_.clear();
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
  std::vector<NetworkSource> made;

 private:
  // A mode's graph of all that was described.
  struct Scratch {
    Scratch(const NetworkDescription& network, Mode mode)
        : builder(graph, mode, kDraftBatch, variables, 0), replay(network, builder) {}
    Graph graph;
    VariableTable variables;
    Builder builder;
    NetworkReplay replay;
  };

  // Graphs cannot be shortened: after a failure they are written anew.
  void up_to_date() {
    if (scratch_.size() == kNetworkModes.size()) return;
    scratch_.clear();
    for (const Mode mode : kNetworkModes) scratch_.emplace_back(network, mode);
    try {
      for (size_t i = 0; i < network.config().inputs.size(); ++i) emit({true, i});
      for (size_t i = 0; i < network.layers().size(); ++i) emit({false, i});
    } catch (...) {
      scratch_.clear();
      throw;
    }
  }

  void emit(const NetworkSource& source) {
    for (Scratch& each : scratch_) {
      if (source.is_input)
        each.replay.value(source);
      else
        each.replay.emit(source.index);
    }
  }

  std::deque<Scratch> scratch_;  // one for each mode, or none
};

NetworkWriter::NetworkWriter(std::string name) : draft_(std::make_unique<Draft>(std::move(name))) {}
NetworkWriter::~NetworkWriter() = default;

NetworkValue NetworkWriter::input(const std::string& name, std::string_view attributes_json) {
  NetworkConfig::Input input{name, {}};
  parse_json(attributes_json, input.attributes, name);
  return draft_->add(true, [&] { draft_->network.add_input(std::move(input)); });
}

NetworkValue NetworkWriter::layer(std::string_view kind, const std::string& name,
                                  std::string_view attributes_json,
                                  std::span<const NetworkValue> inputs) {
  NetworkConfig::Layer layer{std::string(kind), name, {}, {std::string(attributes_json)}};
  for (const NetworkValue& input : inputs) layer.inputs.push_back(draft_->name_of(input, "in"));
  return draft_->add(false, [&] { draft_->network.add_layer(std::move(layer)); });
}

void NetworkWriter::output(const std::string& name, NetworkValue value, NetworkValue weight,
                           std::string_view attributes_json) {
  NetworkConfig::Output output{name,
                               draft_->name_of(value, "value"),
                               weight.valid() ? draft_->name_of(weight, "weight") : "",
                               {}};
  parse_json(attributes_json, output.attributes, name);
  draft_->network.add_output(std::move(output));
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
  NetworkWriter writer(config.name);
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
