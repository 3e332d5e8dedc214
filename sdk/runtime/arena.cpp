#include "sdk/runtime/arena.h"

#include <algorithm>

namespace assay {

void Arena::reserve(size_t bytes) { reserved_ = std::max(reserved_, bytes); }

void Arena::take_block() {
  block_.reset();
  block_ = backend_.allocate(reserved_);
}

void* Arena::input(const std::string& name, const ValueType& type) {
  auto& memory = inputs_[cat(name, " ", type)];
  if (memory == nullptr) {
    memory = backend_.allocate(type.bytes());
    input_bytes_ += type.bytes();
  }
  return memory->data();
}

}  // namespace assay
