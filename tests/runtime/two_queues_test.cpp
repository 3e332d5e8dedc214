// Nodes on the second queue: what the program computes is what it computes on one queue, in
// whatever order the device takes what nothing orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <semaphore>
#include <utility>

#include "sdk/runtime/program.h"
#include "sdk/runtime/queue_order.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/error_of.h"
#include "tests/harness/graph_text.h"
#include "tests/runtime/two_queues.h"

namespace assay {
namespace {

using test::error_of;
using testing::ElementsAre;

std::vector<int> waits_of(const QueueOrder& order, int n) {
  std::vector<int> waits;
  for (int i = 0; i < n; ++i) waits.push_back(order.after(i));
  return waits;
}

// Every value has memory of its own.
QueueOrder order_of(const Graph& graph) {
  std::vector<size_t> memory(graph.values().size());
  for (size_t v = 0; v < memory.size(); ++v) memory[v] = v;
  return {graph, memory};
}

TEST(QueueOrder, ReadersWaitAndOverlapsReachFromOneWaitToTheNext) {
  const Graph graph = parse_graph(
      "%0 = input() {name=\"x\", dtype=f32, dims=[3]} : f32[3]\n"
      "%1 = pointwise(%0) {code=relu, dtype=none} : f32[3]\n"
      "%2 = pointwise(%1) {code=tanh, dtype=none} : f32[3]\n"
      "%3 = pointwise(%1) {code=tanh, dtype=none} : f32[3] on communication  # beside\n"
      "%4 = pointwise(%2) {code=tanh, dtype=none} : f32[3]\n"
      "%5 = pointwise(%4, %3) {code=add, dtype=none} : f32[3]\n"
      "return y=%5\n");
  EXPECT_EQ(graph_text(parse_graph(graph_text(graph))), graph_text(graph));
  const QueueOrder order = order_of(graph);
  EXPECT_THAT(waits_of(order, 6), ElementsAre(-1, -1, -1, 1, -1, 3));
  EXPECT_EQ(order.first(3), 2);
  EXPECT_EQ(order.last(3), 4);
  EXPECT_EQ(order.first(4), 4);
  EXPECT_EQ(order.last(4), 4);
}

TEST(QueueOrder, AnUpdateWaitsForWhoReadTheOldValue) {
  const Graph graph = parse_graph(
      "%0 = parameter() {name=\"w\", role=gradient, dtype=f32, dims=[3]} : f32[3]\n"
      "%1 = input() {name=\"x\", dtype=f32, dims=[3]} : f32[3]\n"
      "%2 = pointwise(%0) {code=tanh, dtype=none} : f32[3] on communication\n"
      "%3 = store(%0, %1) {accumulate=true} : f32[3]\n"
      "%4 = pointwise(%3) {code=tanh, dtype=none} : f32[3] on communication\n"
      "return a=%2, b=%4\n");
  std::vector<size_t> memory{0, 1, 2, 0, 3};  // the store's result is the parameter's memory
  const QueueOrder order(graph, memory);
  EXPECT_THAT(waits_of(order, 5), ElementsAre(-1, -1, 0, 2, 3));
  EXPECT_EQ(order.last(4), 5);  // nobody waits for it before the end
}

TEST(Schedule, WaitsOnceAndForANodeWithoutALaunchToo) {
  const Graph graph = parse_graph(
      "%0 = input() {name=\"x\", dtype=f32, dims=[3]} : f32[3]\n"
      "%1 = pointwise(%0) {code=relu, dtype=none} : f32[3] on communication\n"
      "%2 = pointwise(%1, %0) {code=add, dtype=none} : f32[3]\n"
      "%3 = pointwise(%1, %0) {code=add, dtype=none} : f32[3]\n"
      "%4 = pointwise(%1, %0) {code=add, dtype=none} : f32[3]\n"
      "return y=%4\n");
  const QueueOrder order = order_of(graph);
  Schedule schedule(order);
  const Launch launch = [](Queue&) {};
  schedule.pass(0, QueueId::kCompute);
  schedule.add(1, QueueId::kCommunication, launch);
  schedule.pass(2, QueueId::kCompute);
  schedule.add(3, QueueId::kCompute, launch);
  schedule.add(4, QueueId::kCompute, launch);
  const std::vector<ScheduledLaunch> launches = schedule.take();
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].after, -1);
  EXPECT_EQ(launches[1].after, 0);
  EXPECT_EQ(launches[2].after, -1);
}

TEST(TwoQueues, ComputeWhatOneQueueComputes) {
  for (uint32_t seed = 0; seed < 20; ++seed)
    test::expect_the_same_on_two_queues(*test::make_backend_under_test(1), seed);
}

// ---- The CPU's second queue ----

constexpr auto kLong = std::chrono::seconds(60);

TEST(TwoQueues, OneThatWaitsDoesNotHoldUpTheOther) {
  const auto backend = test::make_backend_under_test(1);
  std::binary_semaphore computed{0};
  bool in_time = false;
  const auto program = backend->make_executable(
      {{[&](Queue&) { in_time = computed.try_acquire_for(kLong); }, QueueId::kCommunication},
       {[&](Queue&) { computed.release(); }, QueueId::kCompute}},
      0);
  for (int run = 0; run < 3; ++run) {
    in_time = false;
    program->run(nullptr);
    EXPECT_TRUE(in_time);
  }
}

TEST(TwoQueues, AFailureOfEitherEndsTheRunAndTheNextRunIsWhole) {
  const auto backend = test::make_backend_under_test(1);
  for (const QueueId failing : {QueueId::kCompute, QueueId::kCommunication}) {
    const QueueId waiting =
        failing == QueueId::kCompute ? QueueId::kCommunication : QueueId::kCompute;
    bool fails = true;
    int later = 0;
    const auto program = backend->make_executable({{[&](Queue&) {
                                                      if (fails)
                                                        fail(Code::kDevice, "the network is gone");
                                                    },
                                                    failing},
                                                   {[&](Queue&) { ++later; }, waiting, 0}},
                                                  0);
    EXPECT_EQ(error_of([&] { program->run(nullptr); }).code(), Code::kDevice);
    EXPECT_EQ(later, 0);
    fails = false;
    program->run(nullptr);
    EXPECT_EQ(later, 1);
  }
}

TEST(TwoQueues, ACancelledRunStopsBoth) {
  const auto backend = test::make_backend_under_test(1);
  int ran = 0;
  const auto program = backend->make_executable({{[&](Queue&) { ++ran; }, QueueId::kCommunication},
                                                 {[&](Queue&) { ++ran; }, QueueId::kCompute, 0}},
                                                2);
  std::atomic<bool> cancel{true};
  EXPECT_EQ(error_of([&] { program->run(&cancel); }).code(), Code::kCancelled);
  EXPECT_EQ(ran, 0);
  program->run(nullptr);
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace assay
