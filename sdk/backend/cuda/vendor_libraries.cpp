#include "sdk/backend/cuda/vendor_libraries.h"

#include "sdk/backend/cuda/cublaslt.h"
#include "sdk/backend/cuda/cudnn.h"
#include "sdk/backend/cuda/ops/depthwise.h"

namespace assay::cuda {
namespace {

class VendorLibraries : public Libraries {
 public:
  VendorLibraries(const std::string& machine, const DeviceState& device)
      : tuning_(machine),
        stream_(device.stream()),
        own_depthwise_(device.options().own_depthwise),
        matrices_(tuning_, device),
        cudnn_(tuning_, device) {}
  std::optional<LibraryCall> matrix_product(const MatrixProduct& product) override {
    return matrices_.plan(product);
  }
  // Of depthwise ones cuDNN's, unless our own were faster here.
  std::optional<LibraryCall> convolution(const Convolution& convolution) override {
    std::optional<LibraryCall> own = depthwise_convolution(convolution);
    if (own && own_depthwise_) return own;
    std::optional<LibraryCall> library = cudnn_.plan(convolution);
    if (library && !tuning_.enabled()) return library;
    if (!library || !own) return library ? library : own;
    return faster_of(tuning_, stream_, convolution, *library, *own);
  }
  std::optional<LibraryCall> attention(const FusedAttention& attention) override {
    return cudnn_.plan(attention);
  }

 private:
  Tuning tuning_;
  cudaStream_t stream_;
  bool own_depthwise_;
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
