// Who waits for whom where two queues work: found from what nodes read and write, memory by memory,
// and cut down to the last launch that matters.
#include "sdk/runtime/queue_order.h"

#include <algorithm>

namespace assay {
namespace {

static_assert(kQueues == 2, "one node to wait for is enough where there is one other queue");
size_t index_of(QueueId queue) { return static_cast<size_t>(queue); }
size_t other(size_t queue) { return 1 - queue; }

// The last nodes of one queue that read and wrote a memory.
struct Touches {
  int read = -1, write = -1;
};

// A reshape writes nothing, although its output has an address.
bool writes(const Graph& graph, const Node& node, ValueId output) {
  return !graph.value(output).alias_of.valid() || is_update(node.op);
}

}  // namespace

QueueOrder::QueueOrder(const Graph& graph, std::span<const size_t> memory) {
  find_waits(graph, memory);
  find_overlaps(graph);
}

void QueueOrder::find_waits(const Graph& graph, std::span<const size_t> memory) {
  std::vector<std::array<Touches, kQueues>> touched(memory.size());
  const auto touches_of = [&](ValueId value, size_t queue) -> Touches& {
    return touched[memory[static_cast<size_t>(value.index)]][queue];
  };
  for (const Node& node : graph.nodes()) {
    const int i = static_cast<int>(after_.size());
    const size_t queue = index_of(node.queue);
    int after = -1;
    for (const ValueId input : node.inputs) {
      after = std::max(after, touches_of(input, other(queue)).write);
      touches_of(input, queue).read = i;
    }
    for (const ValueId output : node.outputs) {
      if (!writes(graph, node, output)) continue;
      const Touches& beside = touches_of(output, other(queue));
      after = std::max({after, beside.read, beside.write});
      touches_of(output, queue).write = i;
    }
    after_.push_back(after);
  }
}

void QueueOrder::find_overlaps(const Graph& graph) {
  const int n = static_cast<int>(graph.nodes().size());
  for (int i = 0; i < n; ++i) first_.push_back(i);
  last_ = first_;
  std::vector<int> open;  // nodes of the second queue that the first has not waited for yet
  int behind = -1;        // the node of the first queue that the second is behind
  for (int i = 0; i < n; ++i) {
    const int after = after_[static_cast<size_t>(i)];
    if (graph.nodes()[static_cast<size_t>(i)].queue != QueueId::kCompute) {
      behind = std::max(behind, after);
      first_[static_cast<size_t>(i)] = behind + 1;
      open.push_back(i);
      continue;
    }
    const auto end = std::upper_bound(open.begin(), open.end(), after);
    for (auto node = open.begin(); node != end; ++node) last_[static_cast<size_t>(*node)] = i - 1;
    open.erase(open.begin(), end);
  }
  for (const int i : open) last_[static_cast<size_t>(i)] = n;  // until the end of the run
}

int Schedule::last_launch(size_t queue, int node) const {
  const auto& listed = listed_[queue];
  const auto next = std::upper_bound(listed.begin(), listed.end(), node,
                                     [](int wanted, const Listed& l) { return wanted < l.node; });
  return next == listed.begin() ? -1 : std::prev(next)->launch;
}

void Schedule::pass(int node, QueueId queue) {
  int& wanted = wanted_[index_of(queue)];
  wanted = std::max(wanted, order_.after(node));
}

void Schedule::add(int node, QueueId queue, Launch launch) {
  pass(node, queue);
  const size_t q = index_of(queue);
  const int behind = last_launch(other(q), wanted_[q]);
  const bool waits = behind > waited_[q];  // else the queue has waited for it already
  if (waits) waited_[q] = behind;
  listed_[q].push_back({node, static_cast<int>(launches_.size())});
  launches_.emplace_back(std::move(launch), queue, waits ? behind : -1);
}

}  // namespace assay
