// The line of text behind a checkpoint that says where its manifest lies and what its bytes sum to.
#include "sdk/train/checkpoint/seal.h"

#include <charconv>

#include "sdk/base/crc32c.h"
#include "sdk/base/error.h"
#include "sdk/base/hex.h"

namespace assay::checkpoint {
namespace {

constexpr std::string_view kMagic = "\nassay checkpoint ";

// Takes a field and the separator behind it off the front of `text`; 0 where there is no number,
// which the comparison in parse_seal then notices.
uint64_t take(std::string_view& text, size_t digits) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + digits, value, 16);
  text.remove_prefix(digits + 1);
  return value;
}

}  // namespace

std::string seal_text(const Seal& seal) {
  std::string text =
      cat(kMagic, hex_number(seal.format_version, 8), " size ", hex_number(seal.file_bytes, 16),
          " manifest ", hex_number(seal.manifest_offset, 16), "+",
          hex_number(seal.manifest_bytes, 16), " sums ", hex_number(seal.manifest_crc32c, 8), " ",
          hex_number(seal.structure_crc32c, 8), " ");
  text += hex_number(crc32c(text), 8);
  text += '\n';
  return text;
}

Seal parse_seal(std::string_view text, std::string_view file) {
  const bool plausible = text.size() == kSealBytes && text.starts_with(kMagic);
  require(plausible, Code::kFormat, file,
          ": it was cut short, or is not a checkpoint of this library (no seal at its end); "
          "use another copy or an earlier checkpoint");
  Seal seal;
  std::string_view rest = text.substr(kMagic.size());
  seal.format_version = static_cast<uint32_t>(take(rest, 8));
  rest.remove_prefix(5);  // "size "
  seal.file_bytes = take(rest, 16);
  rest.remove_prefix(9);  // "manifest "
  seal.manifest_offset = take(rest, 16);
  seal.manifest_bytes = take(rest, 16);
  rest.remove_prefix(5);  // "sums "
  seal.manifest_crc32c = static_cast<uint32_t>(take(rest, 8));
  seal.structure_crc32c = static_cast<uint32_t>(take(rest, 8));
  // One text per seal: writing it again must give these bytes, their sum included.
  require(seal_text(seal) == text, Code::kFormat, file,
          ": the seal at its end is damaged; use another copy or an earlier checkpoint");
  return seal;
}

}  // namespace assay::checkpoint
