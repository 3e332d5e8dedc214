// SHA-256 (FIPS 180-4), which names source files and contents of data sets. Computed by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace assay {

class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256& other) : Sha256() { *this = other; }  // what was added so far as well
  Sha256& operator=(const Sha256& other);
  void update(const void* data, size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  // 64 lower-case hexadecimal digits of everything added. The object is used up.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

inline std::string sha256_hex(std::string_view text) {
  Sha256 sum;
  sum.update(text);
  return sum.hex();
}

}  // namespace assay
