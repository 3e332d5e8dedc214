// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected), the checksum of record files and
// checkpoints.
//
// Uses the SSE4.2 instruction where the processor has it, tables elsewhere; both give the same
// value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace assay {

// The checksum of the bytes already summed in `crc` (0 for none) followed by data[0, bytes).
uint32_t crc32c_extend(uint32_t crc, const void* data, size_t bytes);

// crc32c("123456789") == 0xE3069283.
inline uint32_t crc32c(const void* data, size_t bytes) { return crc32c_extend(0, data, bytes); }
inline uint32_t crc32c(std::string_view text) { return crc32c(text.data(), text.size()); }

namespace detail {
// The table version, callable on every processor so that tests can compare the two.
uint32_t crc32c_extend_portable(uint32_t crc, const void* data, size_t bytes);
}  // namespace detail

}  // namespace assay
