#include "sdk/base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <new>

#include "sdk/base/error.h"
#include "sdk/base/hex.h"

namespace assay {
namespace {

void expect_done(int answer) {
  require(answer == 1, Code::kInternal, "OpenSSL cannot compute SHA-256 on this machine");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() {
  // A library leaves its host's exit alone: OpenSSL registers no handler if we are the first to
  // call it.
  expect_done(OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, nullptr));
  context_.reset(EVP_MD_CTX_new());
  if (context_ == nullptr) throw std::bad_alloc();
  expect_done(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

Sha256& Sha256::operator=(const Sha256& other) {
  expect_done(EVP_MD_CTX_copy_ex(context_.get(), other.context_.get()));
  return *this;
}

void Sha256::update(const void* data, size_t bytes) {
  expect_done(EVP_DigestUpdate(context_.get(), data, bytes));
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  expect_done(EVP_DigestFinal_ex(context_.get(), digest, &size));
  return hex_text({digest, size});
}

}  // namespace assay
