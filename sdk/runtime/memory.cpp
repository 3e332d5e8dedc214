// Where buffers lie in an arena: the largest first, each in the lowest gap that those alive at the
// same time leave it.
#include "sdk/runtime/memory.h"

#include <algorithm>
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

}  // namespace

// Ties keep the order of the buffers, so that the plan depends on nothing else. Buffers of no bytes
// get an offset too and disturb nobody.
ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  ArenaPlan plan;
  plan.offsets.resize(buffers.size());
  plan.floor_bytes = largest_live_sum(buffers);
  std::vector<size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  std::vector<size_t> placed;  // ordered by offset
  for (const size_t i : by_size) {
    const size_t bytes = align_up(buffers[i].bytes);
    plan.sum_bytes += bytes;
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
  return plan;
}

}  // namespace assay
