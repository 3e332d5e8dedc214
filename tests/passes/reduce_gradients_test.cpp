// Buckets of gradients: where they are cut, and how early their sums begin.
#include "sdk/passes/reduce_gradients.h"

#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/text.h"
#include "sdk/graph/verify.h"

namespace assay {
namespace {

constexpr int64_t kElements = 100;  // 400 bytes each

// A backward pass of `n` variables: the last one's gradient comes first, and each needs the one
// before it. All are stored at the end.
struct Backward {
  Graph graph;
  std::vector<ValueId> stored;

  explicit Backward(int n) : stored(static_cast<size_t>(n)) {
    ValueId x = graph.emit1(Input{"x", DType::kF32, {kElements}}, {});
    std::vector<ValueId> gradients(stored.size());
    for (size_t i = stored.size(); i-- > 0;) gradients[i] = x = add(graph, x, x);
    for (size_t i = 0; i < stored.size(); ++i) {
      const Parameter target{cat("p", i), Role::kGradient, DType::kF32, {kElements}};
      stored[i] = graph.emit1(Store{}, {graph.emit1(target, {}), gradients[i]});
    }
  }
};

// By sum, in the order of the graph: how many gradients, and how many additions stand before it.
std::vector<std::pair<size_t, int>> sums_of(const Graph& graph) {
  std::vector<std::pair<size_t, int>> sums;
  int additions = 0;
  for (const Node& node : graph.nodes()) {
    additions += is_add(node.op) ? 1 : 0;
    if (!std::holds_alternative<AllReduce>(node.op)) continue;
    EXPECT_EQ(node.queue, QueueId::kCommunication);
    sums.emplace_back(node.inputs.size(), additions);
  }
  return sums;
}

using Sums = std::vector<std::pair<size_t, int>>;

TEST(ReduceGradients, InBucketsThatBeginAsSoonAsTheyAreFull) {
  Backward b(7);
  const std::vector<ValueId> sums = append_all_reduce(b.graph, b.stored, {}, 3 * kElements * 4);
  ASSERT_EQ(sums.size(), 7u);
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(b.graph.value(sums[i]).alias_of, b.stored[i]) << i;
  EXPECT_EQ(sums_of(b.graph), (Sums{{3, 7}, {3, 7}, {1, 7}}));
  begin_reductions_early(b.graph);
  verify(b.graph);
  EXPECT_EQ(sums_of(b.graph), (Sums{{3, 3}, {3, 6}, {1, 7}}));
}

TEST(ReduceGradients, OfOneVariableEachOrAllAtOnce) {
  Backward single(3), whole(3);
  append_all_reduce(single.graph, single.stored, {}, 1);
  begin_reductions_early(single.graph);
  EXPECT_EQ(sums_of(single.graph), (Sums{{1, 1}, {1, 2}, {1, 3}}));
  append_all_reduce(whole.graph, whole.stored);
  begin_reductions_early(whole.graph);
  EXPECT_EQ(sums_of(whole.graph), (Sums{{3, 3}}));
}

// What is summed was stored by another program.
TEST(ReduceGradients, OfGradientsThatAreThereAlready) {
  Graph graph;
  std::vector<ValueId> stored;
  for (const char* name : {"a", "b"})
    stored.push_back(graph.emit1(Parameter{name, Role::kGradient, DType::kF32, {kElements}}, {}));
  append_all_reduce(graph, stored);
  begin_reductions_early(graph);
  verify(graph);
  EXPECT_EQ(sums_of(graph), (Sums{{2, 0}}));
}

}  // namespace
}  // namespace assay
