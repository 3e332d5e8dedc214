// Memory for programs that never run at once, such as those of one trainer: values in flight,
// scratch and inputs. They share it, so that together they take what the largest of them needs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "sdk/backend/backend.h"

namespace assay {

// What a program leaves in the block, its outputs among it, is gone once another has run. Inputs
// keep what was written. Not thread-safe; outlives the programs that use it.
class Arena {
 public:
  explicit Arena(Backend& backend) : backend_(backend) {}

  // A program needs this much for values and scratch.
  void reserve(size_t bytes);
  // The block: at least what was reserved. Taken at the first call, and anew when more was reserved
  // since: programs look at the address before each run. The old one is given back before.
  void* data() {
    if (block_ == nullptr || block_->bytes() < reserved_) [[unlikely]]
      take_block();
    return block_->data();
  }
  // Where the input `name` of this type is written; one place for all programs that read it.
  void* input(const std::string& name, const ValueType& type);

  uint64_t bytes() const { return reserved_; }
  uint64_t input_bytes() const { return input_bytes_; }

 private:
  void take_block();

  Backend& backend_;
  size_t reserved_ = 0;
  std::unique_ptr<Memory> block_;
  uint64_t input_bytes_ = 0;
  std::map<std::string, std::unique_ptr<Memory>> inputs_;  // by name and type
};

}  // namespace assay
