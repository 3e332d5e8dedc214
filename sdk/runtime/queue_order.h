// What a graph with nodes on two queues may run at the same time: who waits for whom, and for how
// long the memory of a node is in use. In a graph that uses one queue nobody waits.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/graph/graph.h"

namespace assay {

// Each queue takes its nodes in the graph's order. A node waits for one of the other queue where it
// reads what that writes, or writes what that touches.
class QueueOrder {
 public:
  QueueOrder() = default;
  // `memory` by value index: equal numbers are one memory.
  QueueOrder(const Graph& graph, std::span<const size_t> memory);

  // The latest node of the other queue that must be over before node i begins, -1 if there is none.
  int after(int i) const { return after_[static_cast<size_t>(i)]; }
  // Node i may run at the same time as any node of the other queue from `first` to `last`, itself
  // between them: what it touches must be whole from one to the other.
  int first(int i) const { return first_[static_cast<size_t>(i)]; }
  int last(int i) const { return last_[static_cast<size_t>(i)]; }

 private:
  void find_waits(const Graph& graph, std::span<const size_t> memory);
  void find_overlaps(const Graph& graph);

  std::vector<int> after_, first_, last_;  // by node
};

// Nodes' launches, listed with what each waits for. Nodes come in the graph's order.
class Schedule {
 public:
  explicit Schedule(const QueueOrder& order) : order_(order) {}

  // A node without a launch: what it waits for, the next launch of its queue waits for.
  void pass(int node, QueueId queue);
  void add(int node, QueueId queue, Launch launch);

  size_t size() const { return launches_.size(); }
  std::vector<ScheduledLaunch> take() { return std::move(launches_); }

 private:
  struct Listed {
    int node, launch;
  };
  // The last launch of the queue that belongs to this node or one before it, -1 if there is none.
  int last_launch(size_t queue, int node) const;

  const QueueOrder& order_;
  std::vector<ScheduledLaunch> launches_;
  std::array<std::vector<Listed>, kQueues> listed_;
  std::array<int, kQueues> wanted_{-1, -1};  // a node of the other queue to wait for
  std::array<int, kQueues> waited_{-1, -1};  // a launch of the other queue that was waited for
};

}  // namespace assay
