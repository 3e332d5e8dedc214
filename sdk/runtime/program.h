// A compiled graph: every node planned, all memory placed, ready to run again and again.
//
// One thread at a time may use a program; programs that share an arena must not run at once, nor
// programs that share segments if one of them updates. run() allocates nothing of its own, but for
// the first run in an arena or after it grew.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/runtime/arena.h"
#include "sdk/runtime/constants.h"
#include "sdk/runtime/memory.h"
#include "sdk/runtime/queue_order.h"
#include "sdk/runtime/segments.h"

namespace assay {

struct MemoryReport {
  uint64_t arena_bytes = 0;     // activations, gradients in flight, scratch: shared over time
  uint64_t separate_bytes = 0;  // what the same buffers would take without sharing
  uint64_t floor_bytes = 0;     // the least any plan could reach
  uint64_t input_bytes = 0;     // inputs and step scalars
  uint64_t constant_bytes = 0;  // values computed once; other programs may share them
};

// One row of the step profile.
struct ProfileRow {
  NodeId node;                            // of Program::graph()
  std::string op, scope, kernel, output;  // output: type of the first output
  double seconds = 0;                     // median over the timed runs
  double flops = 0, bytes = 0;
};

class Program {
 public:
  // Runs the graph once on what inputs and scalars hold. With `cancel`, see Executable::run.
  void run(const std::atomic<bool>* cancel = nullptr) {
    bind();
    executable_->run(cancel);
  }
  bool in_doubt() const { return executable_ != nullptr && executable_->in_doubt(); }
  QueueTimes queue_times() const { return executable_ ? executable_->queue_times() : QueueTimes{}; }
  // Runs it `repeats` times with a timer around each node.
  std::vector<ProfileRow> profile(int repeats);

  // Device address and type of an input or output. Fails with kNotFound naming what exists. Outputs
  // of a program in a shared arena have an address from the first run on, and hold what it left
  // there until another program runs.
  struct Port {
    std::string name;
    ValueType type;
    void* data = nullptr;
  };
  const Port& input(std::string_view name) const;
  const Port& output(std::string_view name) const;
  const Port* find_output(std::string_view name) const;  // null if there is none
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

  // Does nothing if the graph has no such scalar.
  void set_learning_rate(float value);
  void set_random_step(int64_t value);

  const MemoryReport& memory() const { return memory_; }
  // The graph after all passes.
  const Graph& graph() const { return graph_; }
  const NodeFacts& facts(NodeId node) const { return facts_[static_cast<size_t>(node.index)]; }
  const NodePlan& plan(NodeId node) const { return plans_[static_cast<size_t>(node.index)]; }
  // Graph text with the kernel chosen for each node and the offset of each output: "... @ 4096
  // [dnnl:jit:avx512]".
  std::string plan_text() const;
  Backend& backend() const { return *backend_; }

 private:
  friend class Compiler;
  Program() = default;

  // Gives every plan its addresses, unless they are those of the arena's present block.
  void bind() {
    if (void* block = arena_->data(); block != bound_ || executable_ == nullptr) [[unlikely]]
      bind_to(block);
  }
  void bind_to(void* block);
  // `forms` of a plan, with node i's addresses.
  Launch bind_node(int i, const std::function<Launch(const Binding&)>& form) const;
  void* address(ValueId value) const;

  Backend* backend_ = nullptr;
  Channel* channel_ = nullptr;
  Graph graph_;
  std::vector<NodePlan> plans_;          // by node
  std::vector<NodeFacts> facts_;         // by node
  std::vector<ValueId> root_;            // by value: the one whose memory it shares, mostly itself
  std::vector<void*> fixed_;             // by root: its address outside of the arena, or null
  std::vector<int64_t> arena_offset_;    // by root, -1 if not in the arena
  std::vector<int64_t> scratch_offset_;  // by node, -1 for none
  std::vector<void*> prepared_;          // by node
  QueueOrder order_;
  std::vector<bool> at_rest_;  // by node: has nothing to do in a run
  std::vector<std::shared_ptr<Memory>> blocks_;
  std::shared_ptr<Arena> arena_;
  void* bound_ = nullptr;
  std::vector<NodeId> launched_;  // the nodes behind executable_'s launches
  std::unique_ptr<Executable> executable_;
  std::vector<Port> inputs_, outputs_;
  void* learning_rate_ = nullptr;
  void* random_step_ = nullptr;
  MemoryReport memory_;
};

struct CompileOptions {
  // For predictors, whose weights do not change: evaluate nodes that depend on parameters only
  // once, now, unless another program of this store has done so. Null: at each run.
  std::shared_ptr<ConstantStore> constants = nullptr;
  // The memory it shares with programs that never run at the same time, without `constants`; taken
  // when one of them runs. Null: its own, taken now.
  std::shared_ptr<Arena> arena = nullptr;
  // What AllReduce goes through; outlives the program.
  Channel* channel = nullptr;
};

// Plans every node on the segments' backend and plans memory. The segments must outlive the
// program. Errors of an op are reported with its scope.
std::unique_ptr<Program> compile(Graph graph, Segments& segments,
                                 const CompileOptions& options = {});

}  // namespace assay
