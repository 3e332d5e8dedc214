#include "capi/src/planning_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace assay::capi {
namespace {

class AddressSpace : public Memory {
 public:
  explicit AddressSpace(size_t bytes) : bytes_(bytes), mapped_(std::max<size_t>(bytes, 1)) {
    data_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      fail(Code::kOutOfHostMemory, cat("no address space for ", bytes, " bytes"),
           {.domain = Domain::kErrno, .native_code = errno});
    }
  }
  ~AddressSpace() override { munmap(data_, mapped_); }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  void* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_, mapped_;
  void* data_ = nullptr;
};

class NothingToRun : public Executable {
 public:
  void run(const std::atomic<bool>*) override {}
  std::vector<NodeTime> run_timed() override { return {}; }
};

}  // namespace

std::unique_ptr<Memory> PlanningBackend::allocate(size_t bytes) {
  return std::make_unique<AddressSpace>(bytes);
}

std::unique_ptr<Executable> PlanningBackend::make_executable(std::vector<ScheduledLaunch>, size_t) {
  return std::make_unique<NothingToRun>();
}

}  // namespace assay::capi
