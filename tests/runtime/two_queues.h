// A random graph with some of its nodes on the second queue, against itself on one queue.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "sdk/graph/elementwise.h"
#include "sdk/runtime/program.h"

namespace assay::test {

// Sums, activations and accumulations into gradients of [64], so that values are read late, memory
// is used again and again, and updates follow readers, on both queues.
inline Graph random_graph(uint32_t seed) {
  constexpr int kNodes = 60;
  const Dims dims{64};
  std::mt19937 random(seed);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  Graph graph;
  std::vector<ValueId> values;
  for (int i = 0; i < 3; ++i)
    values.push_back(graph.emit1(Input{cat("x", i), DType::kF32, dims}, {}));
  std::vector<size_t> gradients;  // places of them in `values`: the last update of each
  for (int i = 0; i < 2; ++i) {
    gradients.push_back(values.size());
    values.push_back(graph.emit1(Parameter{cat("w", i), Role::kGradient, DType::kF32, dims}, {}));
  }
  for (int i = 0; i < kNodes; ++i) {
    // Near ones rather than old ones: lifetimes end.
    const ValueId a = values[values.size() - 1 - below(6) % values.size()];
    const ValueId b = values[below(values.size())];
    const size_t choice = below(8);
    if (choice == 0) {
      ValueId& gradient = values[gradients[below(gradients.size())]];
      if (gradient != a) gradient = graph.emit1(Store{.accumulate = true}, {gradient, a});
    } else if (choice < 4) {
      values.push_back(activation(graph, a, ActivationKind::kTanh));
    } else {
      values.push_back(add(graph, a, b));
    }
    if (below(3) == 0) {
      const auto last = static_cast<int32_t>(graph.nodes().size()) - 1;
      if (!graph.node({last}).inputs.empty()) graph.node({last}).queue = QueueId::kCommunication;
    }
  }
  for (size_t i = 0; i < values.size(); i += 7) graph.outputs().push_back({cat("y", i), values[i]});
  return graph;
}

// What the graph's outputs hold after each of four runs.
inline std::vector<float> outputs_of(Backend& backend, Graph graph) {
  constexpr size_t kElems = 64;
  VariableTable variables;
  for (int i = 0; i < 2; ++i) variables.add({cat("w", i), {kElems}, DType::kF32, Role::kValue, {}});
  Segments segments(backend, variables);
  segments.ensure(Role::kValue);
  segments.ensure(Role::kGradient);
  const auto program = compile(std::move(graph), segments);
  for (size_t i = 0; i < program->inputs().size(); ++i) {
    std::vector<float> x(kElems);
    for (size_t k = 0; k < kElems; ++k) x[k] = 0.01f * static_cast<float>(k * (i + 1) % 97) - 0.4f;
    backend.write(program->inputs()[i].data, x.data(), kElems * sizeof(float));
  }
  std::vector<float> all;
  for (int run = 0; run < 4; ++run) {  // launch by launch, captured, replayed
    program->run();
    for (const auto& output : program->outputs()) {
      all.resize(all.size() + kElems);
      backend.read(&all[all.size() - kElems], output.data, kElems * sizeof(float));
    }
  }
  return all;
}

inline void expect_the_same_on_two_queues(Backend& backend, uint32_t seed) {
  const Graph graph = random_graph(seed);
  Graph one_queue = graph;
  for (size_t i = 0; i < one_queue.nodes().size(); ++i)
    one_queue.node({static_cast<int32_t>(i)}).queue = QueueId::kCompute;
  const std::vector<float> got = outputs_of(backend, graph);
  const std::vector<float> expected = outputs_of(backend, one_queue);
  ASSERT_EQ(got.size(), expected.size());
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
      << "seed " << seed;
}

}  // namespace assay::test
