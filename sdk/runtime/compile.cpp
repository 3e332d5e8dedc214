// Graph -> Program: plan every node, decide where each value lives, bind, list the launches.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sdk/graph/text.h"
#include "sdk/graph/verify.h"
#include "sdk/passes/views.h"
#include "sdk/runtime/program.h"
#include "sdk/runtime/queue_order.h"

namespace assay {

class Compiler {
 public:
  Compiler(Graph graph, Segments& segments, const CompileOptions& options)
      : program_(new Program), segments_(segments), options_(options) {
    program_->backend_ = &segments.backend();
    program_->channel_ = options.channel;
    const auto follows = [&](const Parameter& first, const Parameter& second) {
      return first.role == second.role && address_of(first) + bytes_of(first) == address_of(second);
    };
    program_->graph_ = lower_views(std::move(graph), follows).graph;
    program_->arena_ =
        options.arena != nullptr ? options.arena : std::make_shared<Arena>(backend());
    require(options.arena == nullptr || options.constants == nullptr, Code::kInternal,
            "constants are computed at once, in an arena of their own");
  }

  std::unique_ptr<Program> compile() {
    verify(graph());
    plan_nodes();
    find_roots();
    find_constants();
    place_leaves();
    forward_stores();
    place_constants();
    order_queues();
    place_arena();
    list_ports();
    if (options_.arena == nullptr) compute_constants();
    return std::move(program_);
  }

 private:
  const Graph& graph() const { return program_->graph_; }
  Backend& backend() const { return *program_->backend_; }
  size_t n_values() const { return graph().values().size(); }
  int n_nodes() const { return static_cast<int>(graph().nodes().size()); }

  void plan_nodes() {
    for (int i = 0; i < n_nodes(); ++i) {
      program_->plans_.push_back(backend().plan(graph(), {i}));
      program_->facts_.push_back(facts_of(graph(), {i}));
    }
  }

  // Values that share memory share a root.
  void find_roots() {
    root_.resize(n_values());
    for (size_t v = 0; v < n_values(); ++v) root_[v] = graph().root({static_cast<int32_t>(v)});
    address_.assign(n_values(), nullptr);
  }

  // Whether a value fills the memory of its root.
  bool is_whole(ValueId value) const {
    return is_dense(graph().value(value).layout, graph().type(value).dims) &&
           graph().type(value).bytes() == graph().type(root_[value.index]).bytes();
  }

  // After planning, which is the slow part: the session keeps other programs waiting.
  void find_constants() {
    if (options_.constants != nullptr) session_.emplace(*options_.constants);
    constants_ = ConstantNodes(graph(), session_ ? &*session_ : nullptr);
  }

  void* input_block(const std::string& name, ValueId id) {
    program_->memory_.input_bytes += graph().type(id).bytes();
    return program_->arena_->input(name, graph().type(id));
  }

  std::byte* address_of(const Parameter& parameter) const {
    return static_cast<std::byte*>(segments_.tensor(parameter.name, parameter.role).data);
  }
  static size_t bytes_of(const Parameter& parameter) {
    return ValueType{parameter.dtype, parameter.dims}.bytes();
  }
  // Of what lies at `address`, the beginning of its root's memory.
  std::byte* root_address(ValueId value, std::byte* address) const {
    return address - graph().value(value).layout.offset *
                         static_cast<int64_t>(dtype_size(graph().type(value).dtype));
  }

  void place_leaves() {
    for (size_t v = 0; v < n_values(); ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      const Node& node = graph().producer(id);
      if (const auto* parameter = std::get_if<Parameter>(&node.op)) {
        address_[root_[v].index] = root_address(id, address_of(*parameter));
      } else if (const auto* input = std::get_if<Input>(&node.op)) {
        address_[v] = input_block(input->name, id);
      } else if (const auto* scalar = std::get_if<StepScalar>(&node.op)) {
        address_[v] = input_block(attributes_text(node.op), id);
        (scalar->kind == ScalarKind::kLearningRate ? program_->learning_rate_
                                                   : program_->random_step_) = address_[v];
      }
    }
  }

  // A value whose only fate is to be stored is computed in place at its destination, as is one of
  // which all parts are stored and lie there as they lie in it.
  void forward_stores() {
    at_rest_.assign(n_nodes(), false);
    struct Forwarded {
      std::byte* address;
      size_t bytes;  // stored so
      std::vector<int> stores;
    };
    std::map<ValueId, Forwarded> forwarded;  // by root
    for (int i = 0; i < n_nodes(); ++i) {
      const Node& node = graph().nodes()[i];
      const auto* store = std::get_if<Store>(&node.op);
      if (store == nullptr || store->accumulate) continue;
      const ValueId source = node.inputs[1], root = root_[source.index];
      const ValueType& type = graph().type(source);
      if (address_[root.index] != nullptr || !is_dense(graph().value(source).layout, type.dims))
        continue;
      auto* const target = static_cast<std::byte*>(address_[root_[node.inputs[0].index].index]);
      std::byte* const address = root_address(source, target);
      Forwarded& parts = forwarded.try_emplace(root, Forwarded{address, 0}).first->second;
      if (parts.address != address) continue;
      parts.bytes += type.bytes();
      parts.stores.push_back(i);
    }
    std::vector<bool> is_forwarded(n_values(), false);
    for (const auto& [root, parts] : forwarded) {
      if (parts.bytes != graph().type(root).bytes()) continue;
      address_[root.index] = parts.address;
      is_forwarded[root.index] = true;
      for (const int store : parts.stores) at_rest_[store] = true;
    }
    forward_takeovers(is_forwarded);
  }

  // By root: the last node that reads it; outputs of the graph are read behind all.
  std::vector<int> last_readers() const {
    std::vector<int> last(n_values(), -1);
    for (int i = 0; i < n_nodes(); ++i)
      for (const ValueId input : graph().nodes()[i].inputs) last[root_[input.index].index] = i;
    for (const GraphOutput& output : graph().outputs())
      last[root_[output.value.index].index] = n_nodes();
    return last;
  }

  // What a forwarded value may take over is made where that goes: a table's gradient begins as that
  // of a product, and rows are added to it in place.
  void forward_takeovers(std::vector<bool>& is_forwarded) {
    const std::vector<int> last_reader = last_readers();
    const std::vector<bool> beside = touched_beside();
    for (int i = n_nodes() - 1; i >= 0; --i) {
      const Node& node = graph().nodes()[i];
      for (const InPlace& pair : in_place_pairs(i)) {
        const ValueId output = node.outputs[pair.output];
        const ValueId input = root_[node.inputs[pair.input].index];
        if (!is_forwarded[output.index] || address_[input.index] != nullptr) continue;
        if (beside[input.index] || last_reader[input.index] != i || !can_take_over(node, pair))
          continue;
        if (graph().type(output).bytes() != graph().type(input).bytes()) continue;
        address_[input.index] = address_[output.index];
        is_forwarded[input.index] = true;
        break;
      }
    }
  }

  // The block of a constant, and whether somebody has filled it.
  std::pair<void*, bool> constant_block(int64_t number, size_t bytes) {
    std::shared_ptr<Memory> block = session_->find(number);
    const bool filled = block != nullptr;
    if (!filled) block = session_->make(number, backend(), bytes);
    program_->memory_.constant_bytes += bytes;
    program_->blocks_.push_back(block);
    return {block->data(), filled};
  }

  void place_constants() {
    std::vector<bool> filled(n_values(), false);  // by root
    for (int i = 0; i < n_nodes(); ++i) {
      if (!constants_.contains(i)) continue;
      at_rest_[i] = true;
      for (const ValueId output : graph().nodes()[i].outputs) {
        if (root_[output.index] != output || address_[output.index] != nullptr) continue;
        const auto [data, is_filled] =
            constant_block(constants_.number(output), graph().type(output).bytes());
        address_[output.index] = data;
        filled[output.index] = is_filled;
      }
    }
    // All outputs or none: programs that hold one hold the others.
    done_.assign(n_nodes(), false);
    for (size_t v = 0; v < n_values(); ++v) {
      if (filled[root_[v].index]) done_[graph().values()[v].producer.index] = true;
    }
  }

  // Once values that will share an address are known: two queues must not touch one at once.
  void order_queues() {
    std::map<void*, size_t> by_address;
    std::vector<size_t> memory(n_values());
    for (size_t v = 0; v < n_values(); ++v) {
      const auto root = static_cast<size_t>(root_[v].index);
      memory[v] = address_[root] == nullptr
                      ? root
                      : by_address.try_emplace(address_[root], root).first->second;
    }
    order_ = QueueOrder(graph(), memory);
  }

  // Whether a part of the node's work is done once.
  bool prepares(int i) const {
    const NodePlan::Prepare& prepare = program_->plans_[i].prepare;
    return !constants_.contains(i) && prepare.bytes > 0 &&
           constants_.is_constant(graph().nodes()[i].inputs[prepare.input]);
  }

  size_t scratch_bytes(int i) const {
    const NodePlan& plan = program_->plans_[i];
    if (done_[i]) return 0;
    return prepares(i) ? plan.prepare.scratch_bytes : plan.scratch_bytes;
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
        lifetimes.push_back({graph().type(output).bytes(), order_.first(i), order_.last(i)});
      }
    }
    // Parts of a concatenation are written before it.
    for (size_t v = 0; v < n_values(); ++v) {
      if (const int b = buffer[root_[v].index]; b >= 0)
        lifetimes[b].first =
            std::min(lifetimes[b].first, order_.first(graph().values()[v].producer.index));
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
      if (scratch_bytes(i) == 0) continue;
      scratch[i] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({scratch_bytes(i), order_.first(i), order_.last(i)});
    }
    // Buffers merged into another have no bytes of their own; their owner's place is theirs.
    const ArenaPlan plan = plan_arena(lifetimes);
    program_->memory_.arena_bytes = plan.peak_bytes;
    program_->memory_.separate_bytes = plan.sum_bytes;
    program_->memory_.floor_bytes = plan.floor_bytes;
    program_->arena_->reserve(plan.peak_bytes);
    const auto offset_of = [&](int b) {
      return b < 0 ? -1 : static_cast<int64_t>(plan.offsets[b]);
    };
    std::ranges::transform(buffer, std::back_inserter(program_->arena_offset_), offset_of);
    std::ranges::transform(scratch, std::back_inserter(program_->scratch_offset_), offset_of);
  }

  // By root: the last node that reads the value through any alias; outputs of the graph live to the
  // end.
  std::vector<int> last_uses() const {
    std::vector<int> last(n_values(), 0);
    for (int i = 0; i < n_nodes(); ++i) {
      for (const ValueId input : graph().nodes()[i].inputs) {
        int& node = last[root_[input.index].index];
        node = std::max(node, order_.last(i));
      }
    }
    for (const GraphOutput& output : graph().outputs())
      last[root_[output.value.index].index] = n_nodes();
    return last;
  }

  int64_t times_read(const Node& node, ValueId root) const {
    return std::count_if(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId input) { return root_[input.index] == root; });
  }

  // By root: values that the second queue touches, at a time that the order of nodes does not tell.
  std::vector<bool> touched_beside() const {
    std::vector<bool> touched(n_values(), false);
    for (const Node& node : graph().nodes()) {
      if (node.queue == QueueId::kCompute) continue;
      for (const ValueId input : node.inputs) touched[root_[input.index].index] = true;
      for (const ValueId output : node.outputs) touched[root_[output.index].index] = true;
    }
    return touched;
  }

  std::vector<InPlace> in_place_pairs(int i) const {
    std::vector<InPlace> pairs = program_->facts_[i].in_place;
    const std::vector<InPlace>& also = program_->plans_[i].in_place;
    pairs.insert(pairs.end(), also.begin(), also.end());
    return pairs;
  }
  // A plan speaks for one input: read through another one as well, the value must stay whole.
  bool can_take_over(const Node& node, const InPlace& pair) const {
    const ValueId input = node.inputs[pair.input];
    return times_read(node, root_[input.index]) == 1 && is_whole(input);
  }

  void take_over_inputs(std::vector<int>& buffer, std::vector<BufferLifetime>& lifetimes,
                        const std::vector<int>& last_use) {
    const std::vector<bool> beside = touched_beside();
    for (int i = 0; i < n_nodes(); ++i) {
      const Node& node = graph().nodes()[i];
      for (const InPlace& pair : in_place_pairs(i)) {
        const ValueId output = node.outputs[pair.output];
        const ValueId input = root_[node.inputs[pair.input].index];
        const int from = buffer[output.index];
        const int to = buffer[input.index];
        if (from < 0 || to < 0 || from == to || last_use[input.index] != i) continue;
        if (beside[input.index] || !can_take_over(node, pair)) continue;
        if (graph().type(output).bytes() > lifetimes[to].bytes || lifetimes[to].last > i) continue;
        lifetimes[to].last = std::max(lifetimes[from].last, lifetimes[to].last);
        lifetimes[from].bytes = 0;
        buffer[output.index] = to;
        break;
      }
    }
  }

  void list_ports() {
    for (size_t v = 0; v < n_values(); ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      if (const auto* input = std::get_if<Input>(&graph().producer(id).op))
        program_->inputs_.push_back({input->name, graph().type(id), address_[v]});
    }
    for (const GraphOutput& output : graph().outputs())
      program_->outputs_.push_back({output.name, graph().type(output.value)});
    program_->prepared_.assign(static_cast<size_t>(n_nodes()), nullptr);
  }

  // As constant_block, for what a node prepares.
  std::pair<void*, bool> prepared_block(int i) {
    const NodePlan::Prepare& prepare = program_->plans_[i].prepare;
    if (prepare.form.empty()) {
      program_->memory_.constant_bytes += prepare.bytes;
      program_->blocks_.push_back(backend().allocate(prepare.bytes));
      return {program_->blocks_.back()->data(), false};
    }
    const int64_t input = constants_.number(graph().nodes()[i].inputs[prepare.input]);
    return constant_block(session_->number_of(cat("prepared ", prepare.form, " of ", input)),
                          prepare.bytes);
  }

  // Runs the constants, and what plans prepare from constants, that no other program has run.
  void compute_constants() {
    std::vector<Launch> once;
    for (int i = 0; i < n_nodes(); ++i) {
      const NodePlan& plan = program_->plans_[i];
      if (constants_.contains(i)) {
        if (!done_[i]) once.push_back(program_->bind_node(i, plan.bind));
      } else if (prepares(i)) {
        const auto [data, filled] = prepared_block(i);
        program_->prepared_[i] = data;
        if (!filled) once.push_back(program_->bind_node(i, plan.prepare.bind));
      }
    }
    std::erase_if(once, [](const Launch& launch) { return !launch; });
    backend().make_executable({once.begin(), once.end()}, 0)->run(nullptr);
    if (session_) session_->commit();
    program_->bind();
  }

  std::unique_ptr<Program> program_;
  Segments& segments_;
  CompileOptions options_;
  std::optional<ConstantStore::Session> session_;
  ConstantNodes constants_;
  QueueOrder& order_ = program_->order_;
  std::vector<ValueId>& root_ = program_->root_;
  std::vector<void*>& address_ = program_->fixed_;
  std::vector<bool>& at_rest_ = program_->at_rest_;  // constants, and stores that need no copy
  std::vector<bool> done_;  // by node: constants that another program has computed
};

std::unique_ptr<Program> compile(Graph graph, Segments& segments, const CompileOptions& options) {
  return Compiler(std::move(graph), segments, options).compile();
}

}  // namespace assay
