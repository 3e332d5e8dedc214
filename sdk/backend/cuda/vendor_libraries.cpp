#include "sdk/backend/cuda/vendor_libraries.h"

#include "sdk/backend/cuda/cublaslt.h"
#include "sdk/backend/cuda/cudnn.h"

namespace assay::cuda {
namespace {

class VendorLibraries : public Libraries {
 public:
  VendorLibraries(const std::string& machine, const DeviceState& device)
      : tuning_(machine), matrices_(tuning_, device), cudnn_(tuning_, device) {}
  std::optional<LibraryCall> matrix_product(const MatrixProduct& product) override {
    return matrices_.plan(product);
  }
  std::optional<LibraryCall> convolution(const Convolution& convolution) override {
    return cudnn_.plan(convolution);
  }
  std::optional<LibraryCall> attention(const FusedAttention& attention) override {
    return cudnn_.plan(attention);
  }

 private:
  Tuning tuning_;
  MatrixLibrary matrices_;
  CudnnLibrary cudnn_;
};

class PlanningLibraries : public Libraries {
 public:
  explicit PlanningLibraries(const Target& target)
      : cudnn_(described_device(target.name), target.deterministic) {}
  std::optional<LibraryCall> matrix_product(const MatrixProduct& p) override {
    return LibraryCall{cat("cublaslt:", p.tf32 ? "tf32" : to_text(p.in), p.has_bias ? "+bias" : "",
                           p.relu ? "+relu" : "", p.gelu_tanh ? "+gelu_tanh" : ""),
                       0, [](Stream, std::span<void* const>, void*) {
                         fail(Code::kInternal, "a plan made without a device was run");
                       }};
  }
  std::optional<LibraryCall> convolution(const Convolution& convolution) override {
    const std::lock_guard lock(mutex_);
    return cudnn_.plan(convolution);
  }
  std::optional<LibraryCall> attention(const FusedAttention& attention) override {
    const std::lock_guard lock(mutex_);
    return cudnn_.plan(attention);
  }

 private:
  std::mutex mutex_;
  CudnnLibrary cudnn_;
};

}  // namespace

std::unique_ptr<Libraries> make_vendor_libraries(const std::string& machine,
                                                 const DeviceState& device) {
  return std::make_unique<VendorLibraries>(machine, device);
}

std::unique_ptr<Libraries> make_planning_libraries(const Target& target) {
  return std::make_unique<PlanningLibraries>(target);
}

}  // namespace assay::cuda
