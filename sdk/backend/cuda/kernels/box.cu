// Copies of boxes between dense tensors, in the widest units that all offsets allow.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

template <class Unit>
__global__ void copy_units(BoxCopy box, const Unit* source, Unit* target) {
  constexpr int64_t kBytes = sizeof(Unit);
  const int64_t units = box.run_bytes / kBytes;
  for (int64_t i = global_thread(); i < box.runs * units; i += total_threads()) {
    int64_t rest = i / units;
    int64_t from = box.source_offset / kBytes + i % units;
    int64_t to = box.target_offset / kBytes + i % units;
    for (int axis = 0; axis < box.axes; ++axis) {
      const int64_t index = rest % box.size[axis];
      rest /= box.size[axis];
      from += index * (box.source_step[axis] / kBytes);
      to += index * (box.target_step[axis] / kBytes);
    }
    target[to] = source[from];
  }
}

__global__ void clear_bytes(uint8_t* y, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) y[i] = 0;
}
__global__ void clear_packs(uint4* y, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) y[i] = uint4{0, 0, 0, 0};
}

bool divides(const BoxCopy& box, const void* source, const void* target, int64_t unit) {
  const auto fits = [unit](int64_t bytes) { return bytes % unit == 0; };
  bool all = fits(box.run_bytes) && fits(box.source_offset) && fits(box.target_offset) &&
             fits(static_cast<int64_t>(reinterpret_cast<uintptr_t>(source) % 16)) &&
             fits(static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) % 16));
  for (int axis = 0; axis < box.axes; ++axis) {
    all = all && fits(box.source_step[axis]) && fits(box.target_step[axis]);
  }
  return all;
}

template <class Unit>
bool try_copy(Stream stream, const BoxCopy& box, const void* source, void* target) {
  constexpr int64_t kBytes = sizeof(Unit);
  if (!divides(box, source, target, kBytes)) return false;
  launch(stream, blocks_for(box.runs * (box.run_bytes / kBytes)), kThreads, copy_units<Unit>, box,
         static_cast<const Unit*>(source), static_cast<Unit*>(target));
  return true;
}

}  // namespace

void copy_box(Stream stream, const BoxCopy& box, const void* source, void* target) {
  if (box.runs * box.run_bytes == 0) return;
  [[maybe_unused]] const bool done = try_copy<uint4>(stream, box, source, target) ||
                                     try_copy<uint64_t>(stream, box, source, target) ||
                                     try_copy<uint32_t>(stream, box, source, target) ||
                                     try_copy<uint16_t>(stream, box, source, target) ||
                                     try_copy<uint8_t>(stream, box, source, target);
}

void clear(Stream stream, void* y, int64_t bytes) {
  if (bytes == 0) return;
  if (bytes % 16 == 0 && on_16_bytes(y)) {
    launch(stream, blocks_for(bytes / 16), kThreads, clear_packs, static_cast<uint4*>(y),
           bytes / 16);
  } else {
    launch(stream, blocks_for(bytes), kThreads, clear_bytes, static_cast<uint8_t*>(y), bytes);
  }
}

}  // namespace assay::cuda::kernels
