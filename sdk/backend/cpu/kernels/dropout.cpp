// Dropout with Philox4x32-10, kLanes counters at a time so that the rounds become vector code. A
// test compares it with sdk/base/philox.h, which this folder may not include (see kernels.h).
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int kLanes = 32;

// words[4 * i + k] = word k of counter first_counter + i.
void draw(const DropoutRange& range, uint64_t first_counter, uint32_t* __restrict words) {
  alignas(64) uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t counter = first_counter + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(counter);
    c1[i] = static_cast<uint32_t>(counter >> 32);
    c2[i] = static_cast<uint32_t>(range.step);
    c3[i] = static_cast<uint32_t>(range.step >> 32);
  }
  uint32_t key0 = range.key[0], key1 = range.key[1];
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = static_cast<uint64_t>(kPhiloxMultiplier0) * c0[i];
      const uint64_t b = static_cast<uint64_t>(kPhiloxMultiplier1) * c2[i];
      c0[i] = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<uint32_t>(b);
      c2[i] = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<uint32_t>(a);
    }
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  for (int i = 0; i < kLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

// x, y [n]; y may be x.
template <class T>
void apply(const DropoutRange& range, const void* x, void* y, int64_t n) {
  constexpr int64_t kBlock = 4 * kLanes;
  const T* in = static_cast<const T*>(x);
  T* out = static_cast<T*>(y);
  const uint32_t drop_below = range.drop_below;
  const float scale = range.scale;
  alignas(64) uint32_t words[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    draw(range, range.first / 4 + static_cast<uint64_t>(begin / 4), words);
    const int64_t width = n - begin < kBlock ? n - begin : kBlock;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      store(out[begin + i], words[i] >= drop_below ? load(in[begin + i]) * scale : 0.0f);
    }
  }
}

}  // namespace

extern const DropoutKernels kDropout;
const DropoutKernels kDropout = {{apply<float>, apply<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
