// Graph -> Program: plan every node, decide where each value lives, bind, list the launches.
#include <algorithm>

#include "sdk/graph/text.h"
#include "sdk/graph/verify.h"
#include "sdk/runtime/program.h"

namespace assay {

class Compiler {
 public:
  Compiler(Graph graph, Segments& segments, const CompileOptions& options)
      : program_(new Program), segments_(segments), options_(options) {
    program_->backend_ = &segments.backend();
    program_->graph_ = std::move(graph);
  }

  std::unique_ptr<Program> compile() {
    verify(graph());
    plan_nodes();
    find_roots();
    find_constants();
    place_leaves();
    forward_stores();
    place_constants();
    place_arena();
    resolve_aliases();
    list_slots();
    bind();
    return std::move(program_);
  }

 private:
  const Graph& graph() const { return program_->graph_; }
  Backend& backend() const { return *program_->backend_; }
  size_t n_values() const { return graph().values().size(); }
  int n_nodes() const { return static_cast<int>(graph().nodes().size()); }

  void plan_nodes() {
    for (int i = 0; i < n_nodes(); ++i) program_->plans_.push_back(backend().plan(graph(), {i}));
  }

  // Values that share memory share a root: the value at the end of the alias chain.
  void find_roots() {
    root_.resize(n_values());
    for (size_t v = 0; v < n_values(); ++v) {
      const ValueId alias = graph().values()[v].alias_of;
      root_[v] = alias.valid() ? root_[alias.index] : ValueId{static_cast<int32_t>(v)};
    }
    address_.assign(n_values(), nullptr);
    constant_.assign(n_nodes(), false);
  }

  void find_constants() {
    fixed_.assign(n_values(), false);
    if (!options_.hoist_constants) return;
    for (int i = 0; i < n_nodes(); ++i) {
      const Node& node = graph().nodes()[i];
      bool all = !is_update(node.op) && !std::holds_alternative<Input>(node.op) &&
                 !std::holds_alternative<StepScalar>(node.op);
      for (const ValueId input : node.inputs) all = all && fixed_[input.index];
      constant_[i] = all;
      for (const ValueId output : node.outputs) fixed_[output.index] = all;
    }
  }

  void* own_block(size_t bytes, uint64_t& category) {
    category += bytes;
    program_->blocks_.push_back(backend().allocate(bytes));
    return program_->blocks_.back()->data();
  }

  void place_leaves() {
    for (size_t v = 0; v < n_values(); ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      const Node& node = graph().producer(id);
      if (const auto* parameter = std::get_if<Parameter>(&node.op)) {
        address_[v] = segments_.tensor(parameter->name, parameter->role).data;
      } else if (std::holds_alternative<Input>(node.op)) {
        address_[v] = own_block(graph().type(id).bytes(), program_->memory_.input_bytes);
      } else if (const auto* scalar = std::get_if<StepScalar>(&node.op)) {
        address_[v] = own_block(graph().type(id).bytes(), program_->memory_.input_bytes);
        (scalar->kind == ScalarKind::kLearningRate ? program_->learning_rate_
                                                   : program_->random_step_) = address_[v];
      }
    }
  }

  // A value whose only fate is to be stored is computed in place at its destination.
  void forward_stores() {
    forwarded_.assign(n_nodes(), false);
    for (int i = 0; i < n_nodes(); ++i) {
      const Node& node = graph().nodes()[i];
      const auto* store = std::get_if<Store>(&node.op);
      if (store == nullptr || store->accumulate) continue;
      const ValueId source = root_[node.inputs[1].index];
      if (address_[source.index] != nullptr ||
          graph().type(source).bytes() != graph().type(node.inputs[0]).bytes())
        continue;
      address_[source.index] = address_[root_[node.inputs[0].index].index];
      forwarded_[i] = true;
    }
  }

  void place_constants() {
    for (int i = 0; i < n_nodes(); ++i) {
      if (!constant_[i]) continue;
      for (const ValueId output : graph().nodes()[i].outputs) {
        if (root_[output.index] == output && address_[output.index] == nullptr) {
          address_[output.index] =
              own_block(graph().type(output).bytes(), program_->memory_.constant_bytes);
        }
      }
    }
  }

  // Lifetimes of the roots that have no address yet, merged where an output takes over the memory
  // of a dying input.
  void place_arena() {
    std::vector<int> buffer(n_values(), -1);
    std::vector<BufferLifetime> lifetimes;
    for (int i = 0; i < n_nodes(); ++i) {
      for (const ValueId output : graph().nodes()[i].outputs) {
        if (root_[output.index] != output || address_[output.index] != nullptr) continue;
        buffer[output.index] = static_cast<int>(lifetimes.size());
        lifetimes.push_back({graph().type(output).bytes(), i, i});
      }
    }
    const std::vector<int> last_use = last_uses();
    const auto extend = [&](ValueId root) {
      if (const int b = buffer[root.index]; b >= 0)
        lifetimes[b].last = std::max(lifetimes[b].last, last_use[root.index]);
    };
    for (size_t v = 0; v < n_values(); ++v) extend(root_[v]);
    take_over_inputs(buffer, lifetimes, last_use);

    std::vector<int> scratch(n_nodes(), -1);
    for (int i = 0; i < n_nodes(); ++i) {
      if (program_->plans_[i].scratch_bytes == 0) continue;
      scratch[i] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({program_->plans_[i].scratch_bytes, i, i});
    }
    // Buffers merged into another have no bytes of their own; their owner's place is theirs.
    const ArenaPlan plan = plan_arena(lifetimes);
    program_->memory_.arena_bytes = plan.peak_bytes;
    program_->memory_.separate_bytes = plan.sum_bytes;
    program_->memory_.floor_bytes = plan.floor_bytes;
    program_->blocks_.push_back(backend().allocate(plan.peak_bytes));
    auto* arena = static_cast<std::byte*>(program_->blocks_.back()->data());
    program_->arena_offset_.assign(n_values(), -1);
    for (size_t v = 0; v < n_values(); ++v) {
      if (buffer[v] < 0) continue;
      program_->arena_offset_[v] = static_cast<int64_t>(plan.offsets[buffer[v]]);
      address_[v] = arena + plan.offsets[buffer[v]];
    }
    scratch_.assign(n_nodes(), nullptr);
    for (int i = 0; i < n_nodes(); ++i) {
      if (scratch[i] >= 0) scratch_[i] = arena + plan.offsets[scratch[i]];
    }
  }

  // By root: the last node that reads the value through any alias; outputs of the graph live to the
  // end.
  std::vector<int> last_uses() const {
    std::vector<int> last(n_values(), 0);
    for (int i = 0; i < n_nodes(); ++i) {
      for (const ValueId input : graph().nodes()[i].inputs) last[root_[input.index].index] = i;
    }
    for (const GraphOutput& output : graph().outputs())
      last[root_[output.value.index].index] = n_nodes();
    return last;
  }

  int64_t times_read(const Node& node, ValueId root) const {
    return std::count_if(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId input) { return root_[input.index] == root; });
  }

  void take_over_inputs(std::vector<int>& buffer, std::vector<BufferLifetime>& lifetimes,
                        const std::vector<int>& last_use) {
    for (int i = 0; i < n_nodes(); ++i) {
      const Node& node = graph().nodes()[i];
      for (const NodePlan::InPlace& pair : program_->plans_[i].in_place) {
        const ValueId output = node.outputs[pair.output];
        const ValueId input = root_[node.inputs[pair.input].index];
        const int from = buffer[output.index];
        const int to = buffer[input.index];
        if (from < 0 || to < 0 || from == to || last_use[input.index] != i) continue;
        // A plan speaks for one input: read through another one as well, the value must stay whole.
        if (times_read(node, input) > 1) continue;
        if (graph().type(output).bytes() > lifetimes[to].bytes || lifetimes[to].last > i) continue;
        lifetimes[to].last = std::max(lifetimes[from].last, lifetimes[to].last);
        lifetimes[from].bytes = 0;
        buffer[output.index] = to;
        break;
      }
    }
  }

  void resolve_aliases() {
    for (size_t v = 0; v < n_values(); ++v) address_[v] = address_[root_[v].index];
  }

  void list_slots() {
    for (size_t v = 0; v < n_values(); ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      if (const auto* input = std::get_if<Input>(&graph().producer(id).op)) {
        program_->inputs_.push_back({input->name, graph().type(id), address_[v]});
      }
    }
    for (const GraphOutput& output : graph().outputs()) {
      program_->outputs_.push_back(
          {output.name, graph().type(output.value), address_[output.value.index]});
    }
  }

  // Launches for constants and for what plans prepare from constants go to `once`.
  Launch bind_node(int i, std::vector<Launch>& once) {
    const Node& node = graph().nodes()[i];
    const NodePlan& plan = program_->plans_[i];
    std::vector<void*> inputs, outputs;
    for (const ValueId input : node.inputs) inputs.push_back(address_[input.index]);
    for (const ValueId output : node.outputs) outputs.push_back(address_[output.index]);
    Binding binding{inputs, outputs, scratch_[i]};
    if (!constant_[i] && plan.prepare.bytes > 0 && fixed_[node.inputs[plan.prepare.input].index]) {
      binding.prepared = own_block(plan.prepare.bytes, program_->memory_.constant_bytes);
      once.push_back(plan.prepare.bind(binding));
    }
    return plan.bind(binding);
  }

  void bind() {
    std::vector<Launch> once, always;
    size_t cancellable = 0;
    for (int i = 0; i < n_nodes(); ++i) {
      if (forwarded_[i]) continue;
      Launch launch = bind_node(i, once);
      if (!launch) continue;
      if (constant_[i]) {
        once.push_back(std::move(launch));
        continue;
      }
      // A plain store may be repeated; one that accumulates would count twice.
      const auto* store = std::get_if<Store>(&graph().nodes()[i].op);
      const bool updates =
          is_update(graph().nodes()[i].op) && (store == nullptr || store->accumulate);
      if (cancellable == always.size() && !updates) ++cancellable;
      always.push_back(std::move(launch));
      program_->launched_.push_back({i});
    }
    backend().make_executable(std::move(once), 0)->run(nullptr);
    program_->executable_ = backend().make_executable(std::move(always), cancellable);
  }

  std::unique_ptr<Program> program_;
  Segments& segments_;
  CompileOptions options_;
  std::vector<ValueId> root_;    // by value
  std::vector<void*> address_;   // by value
  std::vector<void*> scratch_;   // by node
  std::vector<bool> constant_;   // by node
  std::vector<bool> fixed_;      // by value: computed by constant nodes
  std::vector<bool> forwarded_;  // by node: stores that need no copy
};

std::unique_ptr<Program> compile(Graph graph, Segments& segments, const CompileOptions& options) {
  return Compiler(std::move(graph), segments, options).compile();
}

}  // namespace assay
