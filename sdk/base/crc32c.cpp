// CRC-32C by the processor's instruction, or by eight tables that take eight bytes at once
// ("slicing by 8"). Both compute on the inverted remainder, inverted once at either end.
#include "sdk/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace assay {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: what byte b contributes when k further bytes follow it in a group of eight.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    // 0x82F63B78 is the polynomial with its bits reversed: the lowest bit is the highest power.
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little,
              "the eight-byte step reads little-endian");

uint64_t load64(const unsigned char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if defined(__x86_64__)
// Has instructions that the processor may lack: call only after asking it.
__attribute__((target("sse4.2"))) uint32_t extend_sse42(uint32_t crc, const void* data,
                                                        size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) state = _mm_crc32_u64(state, load64(p));
  auto tail = static_cast<uint32_t>(state);
  for (; bytes > 0; --bytes, ++p) tail = _mm_crc32_u8(tail, *p);
  return ~tail;
}
#endif

}  // namespace

uint32_t detail::crc32c_extend_portable(uint32_t crc, const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const uint64_t word = load64(p) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; bytes > 0; --bytes, ++p) state = (state >> 8) ^ kTables[0][(state ^ *p) & 0xFF];
  return ~state;
}

uint32_t crc32c_extend(uint32_t crc, const void* data, size_t bytes) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return extend_sse42(crc, data, bytes);
#endif
  return detail::crc32c_extend_portable(crc, data, bytes);
}

}  // namespace assay
