// Any bytes as a checkpoint, and as the manifest of one whose sums are right: without the second,
// the sums would keep the fuzzer from everything behind them.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sdk/base/crc32c.h"
#include "sdk/base/error.h"
#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/checkpoint/seal.h"

namespace {

using namespace assay::checkpoint;

void open_and_verify(std::string bytes) {
  try {
    CheckpointReader::open(std::make_unique<MemorySource>(std::move(bytes))).verify_all();
  } catch (const assay::Error&) {
  }
}

std::string sealed(const std::string& manifest) {
  const std::string body = manifest + std::string(256, '\0');
  Seal seal;
  seal.format_version = kFormatVersion;
  seal.file_bytes = body.size() + kSealBytes;
  seal.manifest_bytes = manifest.size();
  seal.manifest_crc32c = assay::crc32c(manifest);
  return body + seal_text(seal);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  open_and_verify(bytes);
  open_and_verify(sealed(bytes));
  return 0;
}
