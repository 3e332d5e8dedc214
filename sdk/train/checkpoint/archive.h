// The zip side of a checkpoint: the bytes around the payloads.
//
// libzip writes the archive into a sink of ours that keeps headers and directory and drops the
// payloads, whose positions are planned beforehand. The file is then the sequence
//   gap[0] payload[0] gap[1] payload[1] ... gap[n]
// which streams to anything that takes bytes in order, in writes as large as the tensors, while the
// memory taken is that of the gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace assay::checkpoint {

inline constexpr uint64_t kAlignment = 64;  // of every payload: a cache line, a zmm register

struct ArchiveEntry {
  std::string name;
  std::span<const std::byte> payload;  // borrowed
};

// Where the payload of each entry starts, in a zip file of stored entries of these names and sizes.
std::vector<uint64_t> plan_offsets(std::span<const std::string> names,
                                   std::span<const uint64_t> sizes);

// The gaps of that file: one before each payload and one, with the central directory and
// `comment_bytes` bytes of comment to be filled in, after the last.
std::vector<std::string> build_gaps(std::span<const ArchiveEntry> entries, size_t comment_bytes);

}  // namespace assay::checkpoint
