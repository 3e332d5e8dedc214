// Where buffers lie in an arena: one after the other, each in the lowest gap that those alive at
// the same time leave it.
#include "sdk/runtime/memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "sdk/base/align.h"

namespace assay {
namespace {

bool overlap(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// A sweep over the nodes: what begins to live at one is added, what ended before it taken away.
size_t largest_live_sum(std::span<const BufferLifetime> buffers) {
  int end = 0;
  for (const BufferLifetime& buffer : buffers) end = std::max(end, buffer.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(end) + 1, 0);
  for (const BufferLifetime& buffer : buffers) {
    change[static_cast<size_t>(buffer.first)] += static_cast<int64_t>(align_up(buffer.bytes));
    change[static_cast<size_t>(buffer.last) + 1] -= static_cast<int64_t>(align_up(buffer.bytes));
  }
  int64_t live = 0, largest = 0;
  for (const int64_t delta : change) largest = std::max(largest, live += delta);
  return static_cast<size_t>(largest);
}

// Each buffer in turn at the lowest offset that is free during its whole lifetime. Buffers of no
// bytes get an offset too and disturb nobody.
void place(std::span<const BufferLifetime> buffers, std::span<const size_t> order,
           ArenaPlan& plan) {
  plan.offsets.resize(buffers.size());
  plan.peak_bytes = 0;
  std::vector<size_t> placed;  // ordered by offset
  for (const size_t i : order) {
    const size_t bytes = align_up(buffers[i].bytes);
    size_t offset = 0;
    for (const size_t j : placed) {
      if (!overlap(buffers[i], buffers[j])) continue;
      if (plan.offsets[j] >= offset + bytes) break;  // the gap before j is large enough
      offset = std::max(offset, plan.offsets[j] + align_up(buffers[j].bytes));
    }
    plan.offsets[i] = offset;
    plan.peak_bytes = std::max(plan.peak_bytes, offset + bytes);
    const auto place =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](size_t value, size_t j) { return value < plan.offsets[j]; });
    placed.insert(place, i);
  }
}

}  // namespace

// The largest buffers first, or the longest lifetimes. While the arena is not close to its floor,
// those that ended up on top are placed first in the next attempt. Ties keep the order of the
// buffers, so that the plan depends on nothing else.
ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  constexpr int kMostAttempts = 32;  // from each beginning
  constexpr double kCloseEnough = 1.005;
  ArenaPlan attempt, best;
  attempt.floor_bytes = largest_live_sum(buffers);
  for (const BufferLifetime& buffer : buffers) attempt.sum_bytes += align_up(buffer.bytes);
  best.peak_bytes = std::numeric_limits<size_t>::max();
  const auto is_close = [&] {
    return static_cast<double>(best.peak_bytes) <=
           kCloseEnough * static_cast<double>(attempt.floor_bytes);
  };
  const auto attempt_from = [&](const auto& weight) {
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return weight(buffers[i]); });
    for (int i = 0; i < kMostAttempts && !is_close(); ++i) {
      place(buffers, order, attempt);
      if (attempt.peak_bytes < best.peak_bytes) best = attempt;
      std::stable_partition(order.begin(), order.end(), [&](size_t k) {
        return attempt.offsets[k] + align_up(buffers[k].bytes) == attempt.peak_bytes;
      });
    }
  };
  attempt_from([](const BufferLifetime& buffer) { return buffer.bytes; });
  attempt_from([](const BufferLifetime& buffer) { return buffer.last - buffer.first; });
  return best;
}

}  // namespace assay
