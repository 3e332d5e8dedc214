// Memory, errors that break it, cancelling.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "tests/gpu/device_hooks.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/error_of.h"
#include "tests/harness/run_node.h"
#include "tests/runtime/two_queues.h"

namespace assay {
namespace {

using test::break_device;
using test::Bytes;
using test::decode;
using test::error_of;
using test::make_backend_under_test;
using test::run_node;
using test::Tensor;
using testing::HasSubstr;

TEST(Device, MemoryStartsAsZeroAndKeepsWhatIsWritten) {
  const auto backend = make_backend_under_test(1);
  for (const size_t bytes : {size_t{1}, size_t{256}, size_t{257}, size_t{1} << 20}) {
    const auto memory = backend->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
    std::vector<std::byte> got(bytes, std::byte{1});
    backend->read(got.data(), memory->data(), bytes);
    EXPECT_TRUE(got == std::vector<std::byte>(bytes));
    const std::vector<std::byte> written(bytes, std::byte{7});
    backend->write(memory->data(), written.data(), bytes);
    backend->read(got.data(), memory->data(), bytes);
    EXPECT_TRUE(got == written);
  }
}

// More small writes than there are pieces, without a read between them.
TEST(Device, ManySmallWritesArriveInOrder) {
  const auto backend = make_backend_under_test(1);
  const auto memory = backend->allocate(1000 * sizeof(int));
  for (int i = 0; i < 1000; ++i) {
    backend->write(static_cast<int*>(memory->data()) + i, &i, sizeof i);
  }
  std::vector<int> got(1000);
  backend->read(got.data(), memory->data(), got.size() * sizeof(int));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(got[i], i);
}

TEST(Device, SaysHowMuchMemoryWasAskedFor) {
  const auto backend = make_backend_under_test(1);
  const size_t too_much = size_t{1} << 50;
  const Error error = error_of([&] { backend->allocate(too_much); });
  EXPECT_EQ(error.code(), Code::kOutOfDeviceMemory);
  EXPECT_THAT(error.what(), HasSubstr(std::to_string(too_much)));
  EXPECT_EQ(error.detail().domain, Domain::kCuda);
  EXPECT_NE(error.detail().native_code, 0);
  EXPECT_NE(backend->allocate(1024), nullptr);  // the device is as before
}

// The context is lost and the process lives. A new context works, convolutions included, or says
// that this process cannot have one any more.
TEST(Device, AnIllegalAccessPoisonsTheContextOnly) {
  {
    const auto backend = make_backend_under_test(1);
    const auto good = backend->allocate(4096);
    float value = 0;
    const Error first = error_of([&] { break_device(*backend); });
    EXPECT_EQ(first.code(), Code::kDevice);
    EXPECT_EQ(first.detail().domain, Domain::kCuda);
    const Error later = error_of([&] { backend->read(&value, good->data(), sizeof value); });
    EXPECT_EQ(later.code(), Code::kPoisoned);
  }
  const Error revived = error_of([] { make_backend_under_test(1); });
  if (revived.code() != Code::kOk) {
    EXPECT_EQ(revived.code(), Code::kPoisoned);
    EXPECT_THAT(revived.what(), HasSubstr("restart the process"));
    GTEST_SKIP() << revived.what();
  }
  const Tensor x{{1, 4, 4, 8}, std::vector<double>(128, 1.0)};
  const Tensor w{{8, 1, 1, 8}, std::vector<double>(64, 1.0)};
  const Bytes got = run_node(Conv2d{}, {x, w}, {DType::kF32, DType::kF32}).outputs[0];
  EXPECT_EQ(decode(got, {DType::kF32, {1, 4, 4, 8}}).values, std::vector<double>(128, 8.0));
}

TEST(Device, ReadsManyAtOnce) {
  const auto backend = make_backend_under_test(1);
  const std::vector<size_t> sizes{4, 0, 8, 4096, 5000, 12};
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::vector<std::byte>> got;
  std::vector<HostRead> reads;
  for (int repeat = 0; repeat < 15; ++repeat) {  // more than there are pieces for
    for (const size_t bytes : sizes) {
      memory.push_back(backend->allocate(bytes));
      const std::vector<std::byte> content(bytes, static_cast<std::byte>(memory.size()));
      backend->write(memory.back()->data(), content.data(), bytes);
      got.emplace_back(bytes);
    }
  }
  for (size_t i = 0; i < memory.size(); ++i)
    reads.push_back({got[i].data(), memory[i]->data(), got[i].size()});
  backend->read_all(reads);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], std::vector<std::byte>(got[i].size(), static_cast<std::byte>(i + 1)));
}

TEST(Device, CancellingStopsBeforeTheFirstLaunch) {
  const auto backend = make_backend_under_test(1);
  Graph graph;
  const ValueId x = graph.emit1(Input{"x", DType::kF32, {16}}, {});
  const ValueId y = activation(graph, x, ActivationKind::kRelu);
  const NodePlan plan = backend->plan(graph, graph.value(y).producer);
  const auto in = backend->allocate(64), out = backend->allocate(64);
  void* const inputs[] = {in->data()};
  void* const outputs[] = {out->data()};
  const auto program =
      backend->make_executable({plan.bind({.inputs = inputs, .outputs = outputs})}, 1);
  std::atomic<bool> cancel{true};
  for (int run = 0; run < 3; ++run) {  // launch by launch, captured, replayed
    EXPECT_EQ(error_of([&] { program->run(&cancel); }).code(), Code::kCancelled);
    program->run(nullptr);
  }
}

// Branches of one graph, and streams without one.
TEST(Device, TwoQueuesComputeWhatOneComputesUnderEverySchedule) {
  test::under_every_schedule([] {
    const auto backend = make_backend_under_test(1);
    for (uint32_t seed = 0; seed < 20; ++seed) test::expect_the_same_on_two_queues(*backend, seed);
  });
}

}  // namespace
}  // namespace assay
