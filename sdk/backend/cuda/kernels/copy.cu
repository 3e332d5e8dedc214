// Copies between tensors that lie in memory in different ways, in the widest units that all steps
// allow.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

// Neighbouring threads write neighbouring units of a run.
template <class Unit>
__global__ void copy_units(StridedCopy copy, const Unit* source, Unit* target) {
  constexpr int64_t kBytes = sizeof(Unit);
  const int64_t units = copy.run_bytes / kBytes;
  for (int64_t i = global_thread(); i < copy.runs * units; i += total_threads()) {
    int64_t rest = i / units, from = i % units, to = i % units;
    for (int axis = 0; axis < copy.axes; ++axis) {
      const int64_t index = rest % copy.size[axis];
      rest /= copy.size[axis];
      from += index * (copy.source_step[axis] / kBytes);
      to += index * (copy.target_step[axis] / kBytes);
    }
    target[to] = source == nullptr ? Unit{} : source[from];
  }
}

__global__ void fill_of_pixels(const uint16_t* source, int halves, int64_t pixels, uint4* target) {
  for (int64_t i = global_thread(); i < pixels; i += total_threads()) {
    uint32_t word[4] = {};
    ASSAY_UNROLLED
    for (int k = 0; k < 8; ++k) {
      if (k < halves) word[k / 2] |= static_cast<uint32_t>(source[i * halves + k]) << (k % 2 * 16);
    }
    target[i] = uint4{word[0], word[1], word[2], word[3]};
  }
}

bool divides(const StridedCopy& copy, const void* source, const void* target, int64_t unit) {
  const auto fits = [unit](int64_t bytes) { return bytes % unit == 0; };
  bool all = fits(copy.run_bytes) &&
             fits(static_cast<int64_t>(reinterpret_cast<uintptr_t>(source) % 16)) &&
             fits(static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) % 16));
  for (int axis = 0; axis < copy.axes; ++axis) {
    all = all && fits(copy.source_step[axis]) && fits(copy.target_step[axis]);
  }
  return all;
}

template <class Unit>
bool try_copy(Stream stream, const StridedCopy& copy, const void* source, void* target) {
  constexpr int64_t kBytes = sizeof(Unit);
  if (!divides(copy, source, target, kBytes)) return false;
  launch(stream, blocks_for(copy.runs * (copy.run_bytes / kBytes)), kThreads, copy_units<Unit>,
         copy, static_cast<const Unit*>(source), static_cast<Unit*>(target));
  return true;
}

}  // namespace

void copy_strided(Stream stream, const StridedCopy& copy, const void* source, void* target) {
  if (copy.runs * copy.run_bytes == 0) return;
  [[maybe_unused]] const bool done = try_copy<uint4>(stream, copy, source, target) ||
                                     try_copy<uint64_t>(stream, copy, source, target) ||
                                     try_copy<uint32_t>(stream, copy, source, target) ||
                                     try_copy<uint16_t>(stream, copy, source, target) ||
                                     try_copy<uint8_t>(stream, copy, source, target);
}

void fill_pixels(Stream stream, const void* source, int64_t bytes, int64_t pixels, void* target) {
  launch(stream, blocks_for(pixels), kThreads, fill_of_pixels, static_cast<const uint16_t*>(source),
         static_cast<int>(bytes / 2), pixels, static_cast<uint4*>(target));
}

}  // namespace assay::cuda::kernels
