// Networks as data. A Description holds names and keys, checked one by one; a Replay writes it into
// a graph. The writer replays every layer as it comes, in each mode; the finished model does so for
// the layers that its outputs need.
#include "sdk/nn/network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "sdk/base/utf8.h"
#include "sdk/graph/autodiff.h"

namespace assay::nn {
namespace {

constexpr size_t kMostInputs = 32, kMostOutputs = 32, kMostLayers = 10000;
constexpr size_t kLongestName = 200;
constexpr int64_t kDraftBatch = 2;  // batch norm of 1 x 1 images wants two samples
constexpr std::array kModes{Mode::kTrain, Mode::kEval, Mode::kPredict};

// An input or a layer, by its place in the configuration.
struct Source {
  bool is_input = true;
  size_t index = 0;
};

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

// ---- Names and keys ----

class Description {
 public:
  struct LayerStep {
    const LayerKind* kind;
    std::unique_ptr<Layer> layer;
    std::vector<Source> inputs;
    std::array<bool, kModes.size()> exists{};  // by mode
  };
  struct OutputStep {
    Source value;
    std::optional<Source> weight;
  };

  explicit Description(std::string name) { config_.name = std::move(name); }

  const NetworkConfig& config() const { return config_; }
  const std::vector<LayerStep>& layers() const { return layers_; }
  const std::vector<OutputStep>& outputs() const { return outputs_; }
  const std::string& name_of(const Source& source) const {
    return source.is_input ? config_.inputs[source.index].name : config_.layers[source.index].name;
  }
  Source find(const std::string& name) const {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    std::vector<std::string_view> known;
    for (const auto& [each, source] : names_) known.push_back(each);
    fail_unknown("no input or layer is called", "inputs", name, known);
  }

  void add_input(NetworkConfig::Input input) {
    check_name("graph input", input.name, false);
    check_new(input.name);
    require(config_.inputs.size() < kMostInputs, Code::kInvalid, "a graph has at most ",
            kMostInputs, " inputs");
    check_config(input.name, "", input.attributes);
    check_together(input.name, input.attributes);
    names_[input.name] = {true, config_.inputs.size()};
    config_.inputs.push_back(std::move(input));
  }

  // The attributes become all keys of the kind.
  void add_layer(NetworkConfig::Layer layer) {
    const LayerKind& kind = layer_kind(layer.kind);
    check_name("graph layer", layer.name, true);
    check_new(layer.name);
    require(config_.layers.size() < kMostLayers, Code::kInvalid, "a graph has at most ",
            kMostLayers, " layers");
    check_operands(kind, layer);
    LayerStep step{&kind, make_layer(kind, layer.name, layer.attributes.text), {}};
    for (const std::string& input : layer.inputs) step.inputs.push_back(find(input));
    check_share(layer.name, step.layer->share());
    for (const Mode mode : kModes)
      step.exists[static_cast<size_t>(mode)] =
          is_for(kind.text.modes, mode) && all_exist(step, mode);
    layer.attributes.text = config_to_json(step.layer->config());
    names_[layer.name] = {false, config_.layers.size()};
    layers_.push_back(std::move(step));
    config_.layers.push_back(std::move(layer));
  }

  // Forgets what came behind these, even if it was added by half.
  void keep(size_t inputs, size_t layers) {
    std::erase_if(names_, [&](const auto& entry) {
      return entry.second.index >= (entry.second.is_input ? inputs : layers);
    });
    while (config_.inputs.size() > inputs) config_.inputs.pop_back();
    while (config_.layers.size() > layers) config_.layers.pop_back();
    while (layers_.size() > layers) layers_.pop_back();
  }

  void add_output(NetworkConfig::Output output) {
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

  InputSpec spec(size_t index, Mode mode) const {
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

  // Predictions do without labels and what is computed of them.
  bool exists(const Source& source, Mode mode) const {
    if (source.is_input)
      return mode != Mode::kPredict || !config_.inputs[source.index].attributes.label;
    return layers_[source.index].exists[static_cast<size_t>(mode)];
  }

 private:
  void check_new(const std::string& name) const {
    expect(!names_.contains(name), {"graph", "name"}, cat('"', name, "\", which is taken"),
           "a name of its own; \"share\" makes two layers have the same parameters");
  }

  static bool is_for(LayerModes modes, Mode mode) {
    return modes == LayerModes::kAll ||
           mode == (modes == LayerModes::kEval ? Mode::kEval : Mode::kPredict);
  }
  bool all_exist(const LayerStep& step, Mode mode) const {
    return std::ranges::all_of(step.inputs,
                               [&](const Source& input) { return exists(input, mode); });
  }

  static void check_together(const std::string& name, const NetworkInputConfig& keys) {
    expect(keys.shape.size() < Dims::kMaxRank, {name, "shape"}, cat(keys.shape.size(), " sizes"),
           "at most ", Dims::kMaxRank - 1);
    const bool is_integer = keys.dtype == "i32";
    expect(keys.range.empty() || is_integer, {name, "range"}, cat(keys.range.size(), " numbers"),
           "none: it is of integers, \"dtype\": \"i32\"");
    expect(keys.range.empty() || (keys.range.size() == 2 && keys.range[0] < keys.range[1]),
           {name, "range"},
           Dims(std::span(keys.range).first(std::min<size_t>(keys.range.size(), 8))),
           "[low, high), with low below high");
    expect(!keys.padding || !keys.range.empty(), {name, "padding"}, keys.padding.value_or(0),
           "none without a range");
  }

  static void check_operands(const LayerKind& kind, const NetworkConfig::Layer& layer) {
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

  void check_share(const std::string& name, std::string_view share) const {
    if (share.empty()) return;
    std::vector<std::string_view> known;
    for (const NetworkConfig::Layer& layer : config_.layers) known.push_back(layer.name);
    if (std::ranges::find(known, share) == known.end())
      fail_unknown(cat(name, ": share: no layer before is called"), "share", share, known);
  }

  NetworkConfig config_;
  std::vector<LayerStep> layers_;
  std::vector<OutputStep> outputs_;
  std::map<std::string, Source, std::less<>> names_;
};

// ---- Graphs ----

// Writes a description into one builder, in the builder's mode.
class Replay {
 public:
  Replay(const Description& network, Builder& builder) : network_(network), b_(builder) {}

  // Invalid where this mode does not have it.
  ValueId value(const Source& source) {
    if (!source.is_input) return source.index < layers_.size() ? layers_[source.index] : ValueId{};
    if (!network_.exists(source, b_.mode())) return {};
    if (inputs_.size() <= source.index) inputs_.resize(source.index + 1);
    ValueId& input = inputs_[source.index];
    if (!input.valid()) input = b_.input(network_.spec(source.index, b_.mode()));
    return input;
  }

  // Emits layer `index`, the first after those emitted or skipped.
  void emit(size_t index) {
    layers_.push_back({});
    if (!network_.exists({false, index}, b_.mode())) return;
    const Description::LayerStep& step = network_.layers()[index];
    const std::string& name = network_.config().layers[index].name;
    std::vector<ValueId> inputs;
    for (const Source& input : step.inputs) inputs.push_back(value(input));
    try {
      layers_.back() = checked(step, name, inputs);
    } catch (const Error& error) {  // says where
      ErrorDetail detail = error.detail();
      detail.op_path = name;
      throw Error(error.code(), error.message(), detail);
    }
  }
  void skip() { layers_.push_back({}); }

 private:
  ValueId checked(const Description::LayerStep& step, const std::string& name,
                  const std::vector<ValueId>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& wanted = step.kind->inputs[std::min(i, step.kind->inputs.size() - 1)];
      check_type(cat(name, " (", step.kind->text.name, ")"), wanted, b_.type(inputs[i]));
    }
    if (const int64_t classes = step.layer->classes(b_, inputs); classes > 0) {
      for (const Source& input : step.inputs) check_range(name, input, classes);
    }
    const std::string share(step.layer->share());
    if (share.empty()) return step.layer->emit(b_, name, inputs);
    const Builder::Tie tie(b_, name, share);
    const ValueId y = step.layer->emit(b_, name, inputs);
    expect(tie.found() > 0, {name, "share"}, cat('"', share, '"'),
           "a layer with parameters of the same names");
    return y;
  }

  static void check_type(const std::string& layer, const LayerInput& wanted,
                         const ValueType& actual) {
    using Type = LayerInput::Type;
    const bool is_integer = actual.dtype == DType::kI32;
    const bool fits =
        wanted.type == Type::kEither || is_integer == (wanted.type == Type::kIntegers);
    const int rank = actual.dims.rank();
    if (!fits || rank < wanted.least_rank || rank > wanted.most_rank) {
      fail_mismatch(Code::kInvalid, {cat(layer, ": ", wanted.name), std::string(wanted.name),
                                     assay::to_text(actual), to_text(wanted)});
    }
  }

  // Kernels take integers as indices, so the input they come from must say how large they are.
  void check_range(const std::string& name, Source source, int64_t classes) {
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

  const Description& network_;
  Builder& b_;
  std::vector<ValueId> inputs_, layers_;
};

// ---- The model ----

// What one mode needs for its outputs.
struct Live {
  std::vector<bool> inputs, layers;
};

class Network : public Model {
 public:
  explicit Network(const NetworkConfig& config) : network_(config.name) {
    for (const NetworkConfig::Input& input : config.inputs) network_.add_input(input);
    for (const NetworkConfig::Layer& layer : config.layers) network_.add_layer(layer);
    for (const NetworkConfig::Output& output : config.outputs) network_.add_output(output);
    for (const Mode mode : kModes) live_[static_cast<size_t>(mode)] = find_live(mode);
  }

  std::string architecture() const override { return std::string(kNetworkArchitecture); }
  std::string config_json() const override { return to_json(network_.config()); }

  std::vector<InputSpec> inputs(Mode mode) const override {
    std::vector<InputSpec> specs;
    for (size_t i = 0; i < live(mode).inputs.size(); ++i) {
      if (live(mode).inputs[i]) specs.push_back(network_.spec(i, mode));
    }
    return specs;
  }

  Outputs forward(Builder& b) const override {
    Replay replay(network_, b);
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

  const Description& description() const { return network_; }
  const Live& live(Mode mode) const { return live_[static_cast<size_t>(mode)]; }

 private:
  Live find_live(Mode mode) const {
    Live needed{std::vector<bool>(network_.config().inputs.size()),
                std::vector<bool>(network_.layers().size())};
    const auto mark = [&](const Source& source) {
      (source.is_input ? needed.inputs : needed.layers)[source.index] = true;
    };
    for (const Description::OutputStep& output : network_.outputs()) {
      if (!network_.exists(output.value, mode)) continue;
      mark(output.value);
      if (mode == Mode::kEval && output.weight) mark(*output.weight);
    }
    for (size_t i = needed.layers.size(); i-- > 0;) {
      if (needed.layers[i]) std::ranges::for_each(network_.layers()[i].inputs, mark);
    }
    return needed;
  }

  void add_output(Outputs& outputs, Builder& b, Replay& replay, size_t i) const {
    const Description::OutputStep& step = network_.outputs()[i];
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

  Description network_;
  std::array<Live, kModes.size()> live_;
};

// ---- What must hold of a whole network ----

[[noreturn]] void fail_network(std::string what, std::string hint) {
  fail(Code::kInvalid, cat("graph: ", what, "; ", hint), {.argument = "g", .hint = hint});
}

// Everything is of use, in training and in evaluation.
void check_uses(const Network& network) {
  const NetworkConfig& config = network.description().config();
  const auto in = [&](Mode mode) -> const Live& { return network.live(mode); };
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const bool used = std::ranges::any_of(kModes, [&](Mode mode) { return in(mode).layers[i]; });
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
    for (const Mode mode : kModes) {
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

// ---- The writer ----

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
      const Source source{is_input, is_input ? inputs : layers};
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
  ValueType type(const Source& source) {
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

  Description network;
  std::vector<Source> made;

 private:
  // A mode's graph of all that was described.
  struct Scratch {
    Scratch(const Description& network, Mode mode)
        : builder(graph, mode, kDraftBatch, variables, 0), replay(network, builder) {}
    Graph graph;
    VariableTable variables;
    Builder builder;
    Replay replay;
  };

  // Graphs cannot be shortened: after a failure they are written anew.
  void up_to_date() {
    if (scratch_.size() == kModes.size()) return;
    scratch_.clear();
    for (const Mode mode : kModes) scratch_.emplace_back(network, mode);
    try {
      for (size_t i = 0; i < network.config().inputs.size(); ++i) emit({true, i});
      for (size_t i = 0; i < network.layers().size(); ++i) emit({false, i});
    } catch (...) {
      scratch_.clear();
      throw;
    }
  }

  void emit(const Source& source) {
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
  for (const Source& source : draft_->made)
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
