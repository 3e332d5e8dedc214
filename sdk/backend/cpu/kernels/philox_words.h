// Words of Philox4x32-10, kPhiloxLanes counters at a time so that the rounds become vector code. A
// test compares them with sdk/base/philox.h, which this folder may not include (see kernels.h).
#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {

constexpr int kPhiloxLanes = 32;
constexpr int64_t kPhiloxBlock = 4 * kPhiloxLanes;

// words[4 * i + k] = word k of counter first_counter + i.
inline void draw(const DropoutRange& range, uint64_t first_counter, uint32_t* __restrict words) {
  alignas(64) uint32_t c0[kPhiloxLanes], c1[kPhiloxLanes], c2[kPhiloxLanes], c3[kPhiloxLanes];
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const uint64_t counter = first_counter + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(counter);
    c1[i] = static_cast<uint32_t>(counter >> 32);
    c2[i] = static_cast<uint32_t>(range.step);
    c3[i] = static_cast<uint32_t>(range.step >> 32);
  }
  uint32_t key0 = range.key[0], key1 = range.key[1];
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kPhiloxLanes; ++i) {
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
  for (int i = 0; i < kPhiloxLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

}  // namespace assay::cpu::ASSAY_ISA
