// Words of Philox4x32-10; see sdk/base/philox.h.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

// Ten rounds.
__device__ inline void philox(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = static_cast<uint64_t>(kPhiloxMultiplier0) * c[0];
    const uint64_t b = static_cast<uint64_t>(kPhiloxMultiplier1) * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<uint32_t>(a);
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
}

// The words that elements 4 * counter to 4 * counter + 3 draw in this step.
__device__ inline void draw(const DropoutArgs& args, uint64_t step, int64_t counter,
                            uint32_t (&words)[4]) {
  const auto low = static_cast<uint64_t>(counter);
  words[0] = static_cast<uint32_t>(low);
  words[1] = static_cast<uint32_t>(low >> 32);
  words[2] = static_cast<uint32_t>(step);
  words[3] = static_cast<uint32_t>(step >> 32);
  philox(words, args.key[0], args.key[1]);
}

}  // namespace assay::cuda::kernels
