#include "sdk/runtime/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace assay {
namespace {

bool alive_together(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(PlanArena, BuffersAliveTogetherNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferLifetime> buffers(60);
    for (BufferLifetime& b : buffers) {
      b.bytes = random() % 5000;
      b.first = static_cast<int>(random() % 40);
      b.last = b.first + static_cast<int>(random() % 10);
    }
    const ArenaPlan plan = plan_arena(buffers);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0u);
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.peak_bytes);
      for (size_t j = 0; j < i; ++j) {
        if (!alive_together(buffers[i], buffers[j])) continue;
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart) << i << " and " << j;
      }
    }
    EXPECT_GE(plan.peak_bytes, plan.floor_bytes);
    EXPECT_LE(plan.peak_bytes, plan.sum_bytes);
  }
}

TEST(PlanArena, AChainNeedsTwoBuffers) {
  std::vector<BufferLifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({1024, i, i + 1});
  EXPECT_EQ(plan_arena(chain).peak_bytes, 2048u);
  EXPECT_EQ(plan_arena({}).peak_bytes, 0u);
}

TEST(PlanArena, OneBufferBeginsTheArena) {
  const std::vector<BufferLifetime> one{{1 << 20, 0, 1}};
  EXPECT_EQ(plan_arena(one).peak_bytes, 1u << 20);
  EXPECT_EQ(plan_arena(one).offsets, std::vector<size_t>{0});
}

// What a training step holds: activations until their layer's gradient, gradients until the next,
// scratch at each node.
TEST(PlanArena, LeavesHardlyAnyGaps) {
  std::mt19937 random(5);
  constexpr int kLayers = 30;
  for (int round = 0; round < 20; ++round) {
    std::vector<BufferLifetime> buffers;
    for (int i = 0; i < kLayers; ++i) {
      const auto size = [&] { return size_t{1} << (10 + random() % 8); };
      const int back = 2 * kLayers - i;
      buffers.push_back({size(), i, back});
      buffers.push_back({size(), back, back + 1});
      buffers.push_back({size(), i, i});
    }
    const ArenaPlan plan = plan_arena(buffers);
    EXPECT_LE(static_cast<double>(plan.peak_bytes), 1.005 * static_cast<double>(plan.floor_bytes));
  }
}

}  // namespace
}  // namespace assay
