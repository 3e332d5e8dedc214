#include "tests/harness/run_node.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "sdk/base/bfloat16.h"
#include "sdk/base/float16.h"
#include "sdk/passes/views.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xA5};
constexpr auto kPoison = std::byte{0xFF};  // a NaN in every float type, -1 in every integer

template <class T>
void put(Bytes& bytes, size_t i, double value) {
  T element{};
  if constexpr (std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>) {
    element = T(static_cast<float>(value));
  } else {
    element = static_cast<T>(value);
  }
  std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
}

template <class T>
double get(const Bytes& bytes, size_t i) {
  T element{};
  std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
  if constexpr (std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>) {
    return static_cast<float>(element);
  } else {
    return static_cast<double>(element);
  }
}

template <class Body>
auto dispatch(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kBf16:
      return body(Bfloat16{});
    case DType::kF64:
      return body(double{});
    case DType::kI32:
      return body(int32_t{});
    case DType::kI64:
      return body(int64_t{});
    case DType::kU8:
      return body(uint8_t{});
    case DType::kF16:
      return body(Float16{});
  }
  fail(Code::kUnsupported, cat("the test harness does not convert ", dtype));
}

// One tensor's memory: [lead][guard][data][guard], data misaligned as asked.
class GuardedBuffer {
 public:
  GuardedBuffer(Backend& backend, const ValueType& type, size_t misalign_elems)
      : backend_(backend),
        bytes_(type.bytes()),
        lead_(misalign_elems * dtype_size(type.dtype)),
        memory_(backend.allocate(whole())) {
    const Bytes guard(whole(), kGuard);
    backend.write(base(), guard.data(), guard.size());
  }
  std::byte* data() const { return base() + lead_ + kGuardBytes; }
  void poison() const { write(Bytes(bytes_, kPoison)); }
  void write(const Bytes& bytes) const { backend_.write(data(), bytes.data(), bytes.size()); }
  Bytes read() const {
    Bytes bytes(bytes_);
    backend_.read(bytes.data(), data(), bytes.size());
    return bytes;
  }
  bool guards_intact() const {
    Bytes all(whole());
    backend_.read(all.data(), base(), all.size());
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(lead_ + kGuardBytes);
    return std::all_of(all.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), all.end(), is_guard);
  }

 private:
  std::byte* base() const { return static_cast<std::byte*>(memory_->data()); }
  size_t whole() const { return lead_ + bytes_ + 2 * kGuardBytes; }
  Backend& backend_;
  size_t bytes_, lead_;
  std::unique_ptr<Memory> memory_;
};

std::vector<NodeId> nodes_between(const Graph& graph, const std::vector<Feed>& feeds,
                                  const std::vector<ValueId>& wanted) {
  std::vector<bool> fed(graph.values().size()), needed(graph.values().size());
  for (const Feed& feed : feeds) fed[feed.value.index] = true;
  for (const ValueId value : wanted) needed[value.index] = !fed[value.index];
  std::vector<NodeId> order;
  for (auto i = static_cast<int32_t>(graph.nodes().size()) - 1; i >= 0; --i) {
    const Node& node = graph.node({i});
    const auto is_needed = [&](ValueId v) { return needed[v.index]; };
    if (std::none_of(node.outputs.begin(), node.outputs.end(), is_needed)) continue;
    order.push_back({i});
    for (const ValueId input : node.inputs) {
      if (!fed[input.index]) needed[input.index] = true;
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// What stands between the feeds and the wanted values as a graph of its own, whose outputs are the
// wanted values, with the copies that views need.
struct Part {
  Graph graph;
  std::vector<ValueId> fed, wanted;
};

Part part_of(const Graph& graph, const std::vector<Feed>& feeds,
             const std::vector<ValueId>& wanted) {
  Graph part;
  part.set_tf32(graph.tf32());
  std::vector<ValueId> map(graph.values().size()), fed;
  for (const Feed& feed : feeds) {
    const ValueType& type = graph.type(feed.value);
    fed.push_back(part.emit1(Input{cat("fed", feed.value.index), type.dtype, type.dims}, {}));
    map[feed.value.index] = fed.back();
  }
  for (const NodeId id : nodes_between(graph, feeds, wanted)) {
    const Node& node = graph.node(id);
    part.set_scope(node.scope);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(map[input.index]);
    const auto outputs = part.emit(node.op, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!map[node.outputs[i].index].valid()) map[node.outputs[i].index] = outputs[i];
    }
  }
  for (const ValueId value : wanted) part.outputs().push_back({"wanted", map[value.index]});
  LoweredGraph lowered = lower_views(std::move(part));
  Part result{std::move(lowered.graph), {}, {}};
  for (const ValueId value : fed) result.fed.push_back(lowered.values[value.index]);
  for (const GraphOutput& output : result.graph.outputs()) result.wanted.push_back(output.value);
  return result;
}

// Plans, binds and runs the nodes of such a graph.
class Runner {
 public:
  Runner(const Graph& graph, const std::vector<ValueId>& fed, const std::vector<Feed>& feeds,
         const RunOptions& options)
      : graph_(graph),
        fed_(fed),
        feeds_(feeds),
        options_(options),
        backend_(shared_backend_under_test(options.threads, options.deterministic)),
        buffers_(graph.values().size()),
        overwritten_(graph.values().size()) {}

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const NodePlan plan = backend_->plan(graph_, id);
    result_.kernels.push_back(plan.kernel);
    std::vector<InPlace> in_place = facts_of(graph_, id).in_place;
    in_place.insert(in_place.end(), plan.in_place.begin(), plan.in_place.end());
    result_.n_in_place = in_place.size();
    for (size_t i = 0; i < node.outputs.size(); ++i)
      place_output(node, static_cast<int>(i), in_place);

    std::vector<void*> inputs, outputs;
    for (const ValueId value : node.inputs) inputs.push_back(address(value));
    for (const ValueId value : node.outputs) outputs.push_back(address(value));
    result_.can_prepare = plan.prepare.bytes > 0;
    const bool prepares = options_.prepare && result_.can_prepare;
    const size_t scratch = prepares ? plan.prepare.scratch_bytes : plan.scratch_bytes;
    const ValueType scratch_type{DType::kU8, {static_cast<int64_t>(scratch)}};
    scratch_.push_back(std::make_unique<GuardedBuffer>(*backend_, scratch_type, 0));
    Binding binding{inputs, outputs, scratch_.back()->data()};
    if (prepares) {
      const ValueType type{DType::kU8, {static_cast<int64_t>(plan.prepare.bytes)}};
      prepared_.push_back(std::make_unique<GuardedBuffer>(*backend_, type, 0));
      prepared_.back()->poison();
      binding.prepared = prepared_.back()->data();
      prepare_launches_.emplace_back(plan.prepare.bind(binding));
    }
    Launch launch = plan.bind(binding);
    if (launch) launches_.emplace_back(std::move(launch));
  }

  RunResult run(const std::vector<ValueId>& wanted) {
    prepare();
    backend_->make_executable(std::move(prepare_launches_), 0)->run(nullptr);
    const size_t n_launches = launches_.size();
    const auto executable = backend_->make_executable(std::move(launches_), n_launches);
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      prepare();
      executable->run(nullptr);
      look_for_damage();
      std::vector<Bytes> outputs;
      for (const ValueId value : wanted) outputs.push_back(read(value));
      if (repeat > 0 && outputs != result_.outputs) result_.repeats_equal = false;
      result_.outputs = std::move(outputs);
    }
    return result_;
  }

 private:
  // Of the memory that the value lies in, made when it is first asked for.
  std::shared_ptr<GuardedBuffer>& buffer(ValueId value) {
    const ValueId root = graph_.root(value);
    auto& found = buffers_[root.index];
    if (found == nullptr)
      found =
          std::make_shared<GuardedBuffer>(*backend_, graph_.type(root), options_.misalign_elems);
    return found;
  }
  std::byte* address(ValueId value) {
    const Value& v = graph_.value(value);
    return buffer(value)->data() + v.layout.offset * static_cast<int64_t>(dtype_size(v.type.dtype));
  }

  Bytes read(ValueId value) {
    Bytes bytes(graph_.type(value).bytes());
    backend_->read(bytes.data(), address(value), bytes.size());
    return bytes;
  }

  void place_output(const Node& node, int output, const std::vector<InPlace>& in_place) {
    const ValueId value = node.outputs[output];
    ValueId shared = is_update(node.op) ? graph_.value(value).alias_of : ValueId{};
    if (options_.in_place >= 0 && options_.in_place < std::ssize(in_place)) {
      const InPlace entry = in_place[static_cast<size_t>(options_.in_place)];
      if (entry.output == output) {
        shared = node.inputs[static_cast<size_t>(entry.input)];
        buffers_[value.index] = buffer(shared);
      }
    }
    if (shared.valid()) overwritten_[graph_.root(shared).index] = true;
  }

  void prepare() {
    for (const auto& buffer : buffers_) {
      if (buffer != nullptr) buffer->poison();
    }
    for (const auto& scratch : scratch_) scratch->poison();
    for (size_t i = 0; i < feeds_.size(); ++i) buffer(fed_[i])->write(feeds_[i].data);
  }

  void look_for_damage() {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i] != nullptr && !buffers_[i]->guards_intact())
        result_.damage.push_back(cat("wrote outside value ", i));
    }
    for (const auto& scratch : scratch_) {
      if (!scratch->guards_intact()) result_.damage.push_back("wrote outside its scratch");
    }
    for (const auto& prepared : prepared_) {
      if (!prepared->guards_intact()) result_.damage.push_back("wrote outside its prepared memory");
    }
    for (size_t i = 0; i < feeds_.size(); ++i) {
      if (!overwritten_[fed_[i].index] && buffer(fed_[i])->read() != feeds_[i].data)
        result_.damage.push_back(cat("changed its input, value ", feeds_[i].value.index));
    }
  }

  const Graph& graph_;
  const std::vector<ValueId>& fed_;
  const std::vector<Feed>& feeds_;
  RunOptions options_;
  std::shared_ptr<Backend> backend_;
  std::vector<std::shared_ptr<GuardedBuffer>> buffers_;  // by root
  std::vector<bool> overwritten_;                        // by root: shared with an output
  std::vector<std::unique_ptr<GuardedBuffer>> scratch_;
  std::vector<std::unique_ptr<GuardedBuffer>> prepared_;
  std::vector<ScheduledLaunch> launches_, prepare_launches_;
  RunResult result_;
};

}  // namespace

Bytes encode(const Tensor& tensor, DType dtype) {
  Bytes bytes(tensor.values.size() * dtype_size(dtype));
  dispatch(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < tensor.values.size(); ++i) put<T>(bytes, i, tensor.values[i]);
  });
  return bytes;
}

Tensor decode(const Bytes& bytes, const ValueType& type) {
  Tensor tensor{type.dims, std::vector<double>(static_cast<size_t>(type.numel()))};
  dispatch(type.dtype, [&]<class T>(T) {
    for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = get<T>(bytes, i);
  });
  return tensor;
}

Tensor rounded(const Tensor& tensor, DType dtype) {
  return decode(encode(tensor, dtype), {dtype, tensor.dims});
}

RunResult run_graph(const Graph& graph, const std::vector<Feed>& feeds,
                    const std::vector<ValueId>& wanted, const RunOptions& options) {
  const Part part = part_of(graph, feeds, wanted);
  Runner runner(part.graph, part.fed, feeds, options);
  for (size_t i = 0; i < part.graph.nodes().size(); ++i) {
    const bool is_fed = std::holds_alternative<Input>(part.graph.nodes()[i].op);
    if (!is_fed) runner.add({static_cast<int32_t>(i)});
  }
  return runner.run(part.wanted);
}

OneNode make_node(const Op& op, const std::vector<ValueType>& inputs) {
  OneNode one;
  one.graph.set_scope("test");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input input{cat("x", i), inputs[i].dtype, inputs[i].dims};
    one.inputs.push_back(one.graph.emit1(input, {}));
  }
  one.outputs = one.graph.emit(op, one.inputs);
  return one;
}

RunResult run_node(const Op& op, const std::vector<Tensor>& inputs,
                   const std::vector<DType>& dtypes, const RunOptions& options) {
  std::vector<ValueType> types;
  for (size_t i = 0; i < inputs.size(); ++i) types.push_back({dtypes[i], inputs[i].dims});
  const OneNode one = make_node(op, types);
  std::vector<Feed> feeds;
  for (size_t i = 0; i < inputs.size(); ++i)
    feeds.push_back({one.inputs[i], encode(inputs[i], dtypes[i])});
  return run_graph(one.graph, feeds, one.outputs, options);
}

}  // namespace assay::test
