#include "tools/recipe_run/base/sha256.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "tools/recipe_run/base/error.h"

namespace reciperun {
namespace {

class Sha256 {
 public:
  Sha256() { check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1); }
  void add(std::string_view bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
    static constexpr char kHex[] = "0123456789abcdef";
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      text += kHex[digest[i] >> 4];
      text += kHex[digest[i] & 15];
    }
    return text;
  }

 private:
  static void check(bool done) {
    if (!done) throw Error(Exit::kCrashed, "libcrypto cannot compute SHA-256");
  }
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 sum;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::vector<char> piece(size_t{1} << 20);
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sum.add({piece.data(), static_cast<size_t>(in.gcount())});
  }
  if (!in.eof())
    throw Error(Exit::kUsage, "cannot read '" + path.string() + "': " + std::strerror(errno));
  return sum.hex();
}

}  // namespace reciperun
