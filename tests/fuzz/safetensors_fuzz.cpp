// Any bytes as a safetensors file, and as the header of one with the right length field.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/train/checkpoint/safetensors.h"

namespace {

void open_and_read(std::string bytes) {
  try {
    const auto reader = assay::safetensors::Reader::open(
        std::make_unique<assay::checkpoint::MemorySource>(std::move(bytes), "input"));
    for (const assay::safetensors::Tensor& tensor : reader.tensors()) {
      std::vector<std::byte> data(tensor.bytes);
      reader.read(tensor, data);
    }
  } catch (const assay::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  open_and_read(bytes);
  const uint64_t length = size;
  open_and_read(std::string(reinterpret_cast<const char*>(&length), sizeof length) + bytes +
                std::string(64, '\1'));
  return 0;
}
