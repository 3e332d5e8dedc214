// The graph: nodes and values in two vectors, 32-bit ids, single assignment.
//
// Nodes stand in a topological order, which is also the order of execution; passes keep it so. A
// value knows its type, its producer and where it lies: in memory of its own, in that of an input
// of the producer (views and in-place updates), or in that of a concatenation that comes later (see
// sdk/passes/views.h). Plain data: copy it, print it, compare it. Not thread-safe; a finished graph
// may be read from many threads.
#pragma once

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
  bool operator==(const Id&) const = default;
  bool operator<(const Id& other) const { return index < other.index; }
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
  // Restores the topological order after rewrites, moving as few nodes as possible: of those that
  // are ready always the one of the lowest place, and among equals the one that stood first.
  // `places`, where given, has one for each node; otherwise it is the index. Renumbers nodes, not
  // values.
  void sort(std::span<const int32_t> places = {});

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

}  // namespace assay
