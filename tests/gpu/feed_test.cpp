// Batches on their way to a device: the order of transfers, deliveries and programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sdk/base/error.h"
#include "tests/gpu/device_hooks.h"
#include "tests/harness/backend_under_test.h"

namespace assay {
namespace {

using test::make_backend_under_test;

// Many batches through two stages, the host's memory reused at once, and a reader between.
void keep_the_order() {
  const auto backend = make_backend_under_test(1);
  constexpr size_t kInts = 1500;
  const auto feed = backend->make_feed({{kInts * sizeof(int), sizeof(int)}}, *backend);
  const auto target = backend->allocate(kInts * sizeof(int)), second = backend->allocate(4);
  std::vector<int> host(kInts), got(kInts);
  const auto stage = [&](int value) {
    std::fill(host.begin(), host.end(), value);
    const int small = -value;
    const void* const arrays[] = {host.data(), &small};
    feed->stage(arrays);
    std::fill(host.begin(), host.end(), 999);
  };
  void* const targets[] = {target->data(), second->data()};
  stage(0);
  for (int i = 0; i < 7; ++i) {
    if (i < 6) stage(i + 1);
    feed->deliver(targets);
    if (i % 2 == 1) continue;  // sometimes nobody waits in between
    int small = 0;
    backend->read(got.data(), target->data(), kInts * sizeof(int));
    backend->read(&small, second->data(), sizeof small);
    EXPECT_EQ(got, std::vector<int>(kInts, i));
    EXPECT_EQ(small, -i);
  }
  EXPECT_EQ(feed->staged(), 0u);
}

TEST(Feed, KeepsTheOrder) { test::under_every_schedule(keep_the_order); }

TEST(Feed, HoldsTwoBatches) {
  const auto backend = make_backend_under_test(1);
  const auto feed = backend->make_feed({{4}}, *backend);
  const int value = 1;
  const void* const arrays[] = {&value};
  EXPECT_THROW(feed->deliver({}), Error);
  feed->stage(arrays);
  feed->stage(arrays);
  EXPECT_THROW(feed->stage(arrays), Error);
  feed->clear();
  feed->stage(arrays);
  EXPECT_EQ(feed->staged(), 1u);
}

}  // namespace
}  // namespace assay
