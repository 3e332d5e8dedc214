// Memory is claimed from the count before it is asked of the device, and given back with the block.
#include "capi/src/counted_backend.h"

namespace assay::capi {
namespace {

// A claim on the count, given back with the object.
class Claim {
 public:
  Claim(std::shared_ptr<MemoryCount> count, size_t bytes, Code over_limit)
      : count_(std::move(count)), bytes_(bytes) {
    uint64_t before = count_->in_use.load();
    do {
      if (count_->limit != 0 && before + bytes > count_->limit) fail_limit(before, over_limit);
    } while (!count_->in_use.compare_exchange_weak(before, before + bytes));
    count_->blocks.fetch_add(1);
    in_use_with_it_ = before + bytes;
  }
  // The block is there: what was never had is no peak.
  void confirm() const {
    uint64_t peak = count_->peak.load();
    while (peak < in_use_with_it_ && !count_->peak.compare_exchange_weak(peak, in_use_with_it_)) {
    }
  }
  ~Claim() {
    count_->in_use.fetch_sub(bytes_);
    count_->blocks.fetch_sub(1);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  [[noreturn]] void fail_limit(uint64_t before, Code code) const {
    fail(code,
         cat("a block of ", bytes_, " bytes goes over the context's mem_limit: ", before, " of ",
             count_->limit, " bytes are in use"),
         {.argument = "mem_limit",
          .expected = cat("at least ", before + bytes_),
          .actual = cat(count_->limit),
          .hint = "free what is not needed, take smaller batches, or make a context with more"});
  }

  std::shared_ptr<MemoryCount> count_;
  size_t bytes_;
  uint64_t in_use_with_it_ = 0;
};

class CountedMemory : public Memory {
 public:
  CountedMemory(std::shared_ptr<MemoryCount> count, size_t bytes, Code over_limit,
                const std::function<std::unique_ptr<Memory>()>& allocate)
      : claim_(std::move(count), bytes, over_limit), memory_(allocate()) {
    claim_.confirm();
  }
  void* data() const override { return memory_->data(); }
  size_t bytes() const override { return memory_->bytes(); }

 private:
  Claim claim_;  // before the block: a limit is kept, not noticed afterwards
  std::unique_ptr<Memory> memory_;
};

}  // namespace

std::unique_ptr<Memory> CountedBackend::allocate(size_t bytes) {
  return std::make_unique<CountedMemory>(count_, bytes, over_limit_,
                                         [&] { return inner().allocate(bytes); });
}

std::unique_ptr<Memory> CountedBackend::allocate_host(size_t bytes) {
  return std::make_unique<CountedMemory>(count_, bytes, over_limit_,
                                         [&] { return inner().allocate_host(bytes); });
}

}  // namespace assay::capi
