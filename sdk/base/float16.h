// IEEE half precision: 5 bits of exponent and 10 of fraction.
#pragma once

#include <bit>
#include <cstdint>

namespace assay {

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  // Rounds to nearest, ties to even; 65520 and above become infinity; a NaN stays a (quiet) NaN.
  explicit Float16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
    bits = sign | of_magnitude(u & 0x7FFFFFFFu);
  }
  explicit operator float() const {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1Fu;
    const uint32_t fraction = bits & 0x3FFu;
    if (exponent == 0) {  // zero and subnormals: fraction times 2^-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
  }

 private:
  static uint16_t of_magnitude(uint32_t magnitude) {
    if (magnitude > 0x7F800000u) return 0x7E00u;   // NaN
    if (magnitude >= 0x477FF000u) return 0x7C00u;  // 65520 and above
    if (magnitude < 0x38800000u) {
      // Below 2^-14 halves are multiples of 2^-24; the addition of 0.5 makes the hardware round
      // there (one unit in the last place of a float in [0.5, 1) is 2^-24).
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) - 0x3F000000u);
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>((magnitude - 0x38000000u + 0xFFFu + odd) >> 13);
  }
};
static_assert(sizeof(Float16) == 2);

}  // namespace assay
