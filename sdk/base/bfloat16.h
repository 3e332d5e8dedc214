// bfloat16: the upper half of an IEEE float, 8 bits of exponent and 7 of fraction.
#pragma once

#include <bit>
#include <cstdint>

namespace assay {

struct Bfloat16 {
  uint16_t bits = 0;

  Bfloat16() = default;
  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  explicit Bfloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>(is_nan ? (u >> 16) | 0x40u : rounded);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(Bfloat16) == 2);

}  // namespace assay
