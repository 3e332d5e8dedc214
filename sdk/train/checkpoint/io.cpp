#include "sdk/train/checkpoint/io.h"

#include <cstring>

#include "sdk/base/error.h"

namespace assay::checkpoint {

void MemorySource::read_at(void* target, size_t bytes, uint64_t offset) const {
  require(offset <= bytes_.size() && bytes <= bytes_.size() - offset, Code::kInternal,
          "reading past the end of ", name_);
  if (bytes > 0) std::memcpy(target, bytes_.data() + offset, bytes);
}

}  // namespace assay::checkpoint
