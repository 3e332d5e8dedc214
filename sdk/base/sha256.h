// SHA-256 (FIPS 180-4), which names source files and contents of data sets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

class Sha256 {
 public:
  void update(const void* data, size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  // 64 lower-case hexadecimal digits of everything added. The object is used up.
  std::string hex();

 private:
  void add_block(const unsigned char* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  uint64_t bytes_ = 0;
};

inline std::string sha256_hex(std::string_view text) {
  Sha256 sum;
  sum.update(text);
  return sum.hex();
}

}  // namespace assay
