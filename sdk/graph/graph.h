// The graph: nodes and values in two vectors, 32-bit ids, single assignment.
//
// Nodes stand in a topological order, which is also the order of execution; passes keep it so. A
// value knows its type, its producer and where it lies: in memory of its own, in that of an input
// of the producer (views and in-place updates), or in that of a concatenation that comes later (see
// sdk/passes/views.h). Plain data: copy it, print it, compare it. Not thread-safe; a finished graph
// may be read from many threads.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "sdk/graph/layout.h"
#include "sdk/graph/ops.h"

namespace assay {

template <class Tag>
struct Id {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const Id&) const = default;
};
using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;

struct ValueType {
  DType dtype = DType::kF32;
  Dims dims;
  int64_t numel() const { return dims.numel(); }
  size_t bytes() const { return static_cast<size_t>(numel()) * dtype_size(dtype); }
  bool operator==(const ValueType&) const = default;
};
std::string to_text(const ValueType& type);  // "f32[128,10]"

struct Value {
  ValueType type;
  NodeId producer;
  int32_t output = 0;  // which output of the producer
  ValueId alias_of;    // shares the memory of this input of the producer, if valid
  ValueId placed_in;   // is written to where it stands in this result of a Concat, if valid
  Layout layout;       // in the memory of the root
};

// The queue of the device that a node runs on. Nodes of different queues run at the same time where
// no value or memory orders them; which do is a decision of a pass.
enum class QueueId : int32_t {
  kCompute = 0,
  kCommunication = 1  // transfers between devices, beside the computing that does not need them
};
inline constexpr size_t kQueues = 2;

// What a node of a training step is for; for profiles.
enum class Phase : int8_t { kForward, kBackward, kUpdate };
std::string_view to_text(Phase phase);  // "forward"

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string scope;  // "layer1.0.conv1", for messages and profiles
  QueueId queue = QueueId::kCompute;
  Phase phase = Phase::kForward;
};

// A value kept after the run, under a name: "loss", "logits", ...
struct GraphOutput {
  std::string name;
  ValueId value;
};

class Graph {
 public:
  // Appends a node and infers its output types at once. Shape or type errors name the scope and
  // both sides.
  std::vector<ValueId> emit(Op op, std::span<const ValueId> inputs);
  std::vector<ValueId> emit(Op op, std::initializer_list<ValueId> inputs) {
    return emit(std::move(op), std::span(inputs.begin(), inputs.size()));
  }
  // The same for ops with one output (or when only the first is wanted).
  ValueId emit1(Op op, std::initializer_list<ValueId> inputs) {
    return emit(std::move(op), inputs)[0];
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  Node& node(NodeId id) { return nodes_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const ValueType& type(ValueId id) const { return values_[id.index].type; }
  const Node& producer(ValueId id) const { return node(value(id).producer); }
  // The value whose memory this one lies in: itself, or what it is a view of or placed in.
  ValueId root(ValueId id) const;

  std::vector<GraphOutput>& outputs() { return outputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  ValueId output(std::string_view name) const;  // invalid id if there is none

  // Whether matrix products and convolutions of f32 data may round their operands to TF32.
  bool tf32() const { return tf32_; }
  void set_tf32(bool allowed) { tf32_ = allowed; }

  // New nodes get this scope.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }
  // New nodes belong to this phase, or to a later one that they read from.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // ---- For passes ----
  // Gives `node` another op and inputs, keeping its place and its outputs; the types are inferred
  // again and the first outputs must keep theirs. Outputs listed in `adopt` move here from their
  // old producer, as the outputs that follow.
  void rewrite(NodeId node, Op op, std::vector<ValueId> inputs,
               std::span<const ValueId> adopt = {});
  // Drops nodes whose outputs nobody needs; keeps updates in place. Renumbers ids.
  void remove_dead_nodes();
  // Says that `value`, which has memory of its own, is written into `concat`, which reads it.
  void place(ValueId value, ValueId concat);
  // Restores the topological order after rewrites, moving as few nodes as possible. Renumbers
  // nodes, not values.
  void sort();

 private:
  // Where every value lies, after something has moved.
  void lay_out();

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<GraphOutput> outputs_;
  std::string scope_;
  Phase phase_ = Phase::kForward;
  bool tf32_ = false;
};

// Which nodes read each value, by value index; graph outputs are counted in `is_output`.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<std::vector<NodeId>> readers;
  std::vector<bool> is_output;
  bool only_reader(ValueId value, NodeId node) const;
};

// The op's name ("conv2d") and text of its attributes ("{stride=[1,1], groups=1}").
std::string_view op_name(const Op& op);
std::string attributes_text(const Op& op);
// Where input i of a concatenation lies in its result.
Layout layout_in_concat(const Graph& graph, NodeId concat, int i);
// What the op can work on where it is: see Access.
Access reads(const Op& op, int input);
Access writes(const Op& op);
// Whether the node can read input i from where that lies.
bool reads_in_place(const Graph& graph, NodeId node, int i);
// True for ops that change memory which outlives the run; dead-code removal keeps them.
bool is_update(const Op& op);

// ---- What an op sees while its types are inferred ----

class InferCtx {
 public:
  InferCtx(const Graph& graph, const Op& op, std::span<const ValueId> inputs,
           const std::string& scope)
      : graph_(graph), op_(op), inputs_(inputs), scope_(scope) {}

  int n() const { return static_cast<int>(inputs_.size()); }
  const ValueType& x(int i) const;
  // Where input i lies; of what views cannot be made of, where its copy would.
  Layout layout(int i) const;
  // Declares the next output; `alias` is the input whose memory it shares, all of it.
  void y(ValueType type, int alias = -1);
  // Declares the next output as a part of the memory of input 0, or as that seen otherwise.
  void view(ValueType type, Layout layout);

  // Fails with "conv2d at layer1.0: <parts>".
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) [[unlikely]]
      fail_here(cat(parts...));
  }
  void require_inputs(int least, int most = -1) const;
  void require_dims(int i, const Dims& expected) const;
  void require_dtype(int i, DType expected) const;
  void require_data_type(int i) const;  // f32, bf16 or f16

  struct Output {
    ValueType type;
    int alias;
    Layout layout;
  };
  const std::vector<Output>& results() const { return results_; }

 private:
  [[noreturn]] void fail_here(const std::string& message) const;
  const Graph& graph_;
  const Op& op_;
  std::span<const ValueId> inputs_;
  const std::string& scope_;
  std::vector<Output> results_;
};

// ---- What an op sees while its gradient is built ----

// The sum of what arrives at a value, in the order of arrival: deterministic. Gradients of slices
// that fill the value side by side are concatenated. Leaves the sum alone in `list`.
ValueId sum_contributions(Graph& graph, std::vector<ValueId>& list);

class GradCtx {
 public:
  GradCtx(Graph& graph, NodeId node, std::vector<std::vector<ValueId>>& contributions,
          const std::vector<bool>& wanted)
      : graph_(graph), node_(node), contributions_(contributions), wanted_(wanted) {}

  ValueId x(int i) const { return graph_.node(node_).inputs[i]; }
  ValueId y(int i = 0) const { return graph_.node(node_).outputs[i]; }
  const ValueType& type(ValueId id) const { return graph_.type(id); }
  int n() const { return static_cast<int>(graph_.node(node_).inputs.size()); }
  // The gradient of output i; call only for outputs that have one (output 0 always does).
  ValueId dy(int i = 0);
  // Whether dy(i) was asked for: a gradient that arrives and is not used would be lost in silence.
  bool used(int i) const { return ((used_ >> i) & 1) != 0; }
  // Whether anybody wants the gradient of input i.
  bool wants(int i) const { return wanted_[x(i).index]; }
  // Adds a contribution to the gradient of input i.
  void dx(int i, ValueId gradient);
  std::vector<ValueId> emit(Op op, std::span<const ValueId> inputs) {
    return graph_.emit(std::move(op), inputs);
  }
  std::vector<ValueId> emit(Op op, std::initializer_list<ValueId> inputs) {
    return graph_.emit(std::move(op), inputs);
  }
  ValueId emit1(Op op, std::initializer_list<ValueId> inputs) {
    return graph_.emit1(std::move(op), inputs);
  }

 private:
  Graph& graph_;
  NodeId node_;
  std::vector<std::vector<ValueId>>& contributions_;  // by value index
  const std::vector<bool>& wanted_;
  uint64_t used_ = 0;  // bits by output
};

// Declared for every op here, defined in sdk/ops/<op>.cpp.
#define ASSAY_DECLARE(Name)             \
  void infer(const Name&, InferCtx& c); \
  void grad(const Name&, GradCtx& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay
