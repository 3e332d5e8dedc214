// The last bytes of every checkpoint: one line of text, the comment of the zip archive, that says
// where the manifest is and sums everything that is not summed elsewhere. Its own layout is the one
// thing that no later format version may change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace assay::checkpoint {

struct Seal {
  uint32_t format_version = 0;
  uint64_t file_bytes = 0;  // the seal included
  uint64_t manifest_offset = 0;
  uint64_t manifest_bytes = 0;
  uint32_t manifest_crc32c = 0;
  uint32_t structure_crc32c = 0;  // of all bytes in file order but manifest, tensors and seal
};

inline constexpr size_t kSealBytes = 124;

// Exactly kSealBytes of ASCII; `tail -n 1 FILE` shows it.
std::string seal_text(const Seal& seal);
// Accepts nothing but what seal_text gives. kFormat with the name of the file otherwise.
Seal parse_seal(std::string_view text, std::string_view file);

}  // namespace assay::checkpoint
