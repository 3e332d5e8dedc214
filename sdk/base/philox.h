// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
//
// A number is a pure function of its coordinates, so results do not depend on threads, order or
// restarts, and a backward pass recomputes instead of storing. Coordinates and sizes:
//   seed    64 bit   of the run
//   stream  64 bit   who draws: one constant per purpose, e.g. an op, a parameter, the shuffle
//   a       64 bit   for example step or sample index
//   b       32 bit   for example epoch
// Each (seed, stream, a, b) is an independent sequence of 2^34 numbers of 32 bits.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "sdk/base/kernel_constants.h"

namespace assay {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds; 128 random bits for each counter.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kPhiloxWeyl0, key[1] + kPhiloxWeyl1};
  }
  return counter;
}

// The key all draws of (seed, stream) share: the seed encrypts the stream, so that seeds and
// streams may be small consecutive numbers. Frozen: checkpoints and published runs depend on it.
constexpr PhiloxKey philox_key(uint64_t seed, uint64_t stream) {
  const auto mixed = philox4x32(
      {static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32), 0x4B455931u, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {mixed[0], mixed[1]};
}

// The upper 24 bits as a float in [0, 1): every multiple of 2^-24 is equally likely, 1 never
// appears.
constexpr float philox_uniform(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// Two independent standard normals (Box-Muller) from two words, computed in double: the float
// result then does not depend on the rounding of single-precision libm.
inline std::array<float, 2> philox_normal_pair(uint32_t bits0, uint32_t bits1) {
  const double u = (bits0 + 1.0) * 0x1p-32;  // (0, 1]: the logarithm stays finite
  const double angle = 2.0 * std::numbers::pi * (bits1 * 0x1p-32);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

// The sequence of (seed, stream, a, b), drawn from the front. Cheap to create and copy; not for
// sharing among threads. Word n is philox4x32({n / 4, b, low(a), high(a)}, philox_key(seed,
// stream))[n % 4].
class PhiloxStream {
 public:
  constexpr PhiloxStream(uint64_t seed, uint64_t stream, uint64_t a = 0, uint32_t b = 0)
      : PhiloxStream(philox_key(seed, stream), a, b) {}
  constexpr PhiloxStream(PhiloxKey key, uint64_t a, uint32_t b)
      : key_(key), counter_{0, b, static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32)} {}

  constexpr uint32_t bits() {
    if (next_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_[0];
      next_ = 0;
    }
    return block_[next_++];
  }

  // Uniform in [0, 1).
  constexpr float uniform() { return philox_uniform(bits()); }
  // Uniform in [low, high), up to rounding at the upper end.
  constexpr float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // True with this probability; 0 is never, 1 is always.
  constexpr bool bernoulli(float probability) { return uniform() < probability; }

  // Uniform in [0, bound) without modulo bias (Lemire's multiply-and-reject). bound >= 1.
  constexpr uint32_t below(uint32_t bound) {
    uint64_t product = static_cast<uint64_t>(bits()) * bound;
    if (static_cast<uint32_t>(product) < bound) {
      const uint32_t threshold = (0u - bound) % bound;
      while (static_cast<uint32_t>(product) < threshold) {
        product = static_cast<uint64_t>(bits()) * bound;
      }
    }
    return static_cast<uint32_t>(product >> 32);
  }

  // Standard normal; every second call returns the other half of a Box-Muller pair.
  float normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const uint32_t bits0 = bits();
    const auto pair = philox_normal_pair(bits0, bits());
    spare_ = pair[1];
    has_spare_ = true;
    return pair[0];
  }

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  uint32_t next_ = 4;
  bool has_spare_ = false;
  float spare_ = 0;
};

}  // namespace assay
