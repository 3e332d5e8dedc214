// For asking what a program would take: memory without anything behind it, and programs that do not
// run.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "sdk/backend/backend.h"

namespace assay {

// Hands out blocks of addresses that only count: on 256-byte boundaries, one behind the other,
// never twice. Thread-safe.
class UnbackedMemory {
 public:
  std::unique_ptr<Memory> allocate(size_t bytes) {
    constexpr uintptr_t kFirst = 1 << 20;
    return std::make_unique<Block>(bytes, kFirst + used_.fetch_add((bytes + 255) / 256 * 256));
  }

 private:
  class Block : public Memory {
   public:
    Block(size_t bytes, uintptr_t address) : bytes_(bytes), address_(address) {}
    void* data() const override { return reinterpret_cast<void*>(address_); }
    size_t bytes() const override { return bytes_; }

   private:
    size_t bytes_;
    uintptr_t address_;
  };

  std::atomic<uintptr_t> used_{0};
};

class NothingToRun : public Executable {
 public:
  void run(const std::atomic<bool>*) override {}
  std::vector<NodeTime> run_timed() override { return {}; }
};

}  // namespace assay
