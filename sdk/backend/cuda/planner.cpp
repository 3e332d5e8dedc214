#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

// What NVIDIA's documentation of runtime fusion says of compute capability 9.0: what reads images
// with something joined to it wants 4 bytes of channels, data gradients 16 and no stride.
bool has_engine(const Convolution& c) {
  const auto fits = [&](int64_t channels, int64_t bytes) {
    return channels * static_cast<int64_t>(dtype_size(c.data)) % bytes == 0;
  };
  if (c.has_mask) {
    constexpr std::array<int64_t, 2> kOne{1, 1};
    return c.geometry.stride == kOne && fits(c.x[3], 16) && fits(c.y[3], 16);
  }
  if (c.has_bias || c.has_residual || c.relu) return fits(c.x[3], 4);
  return true;
}

class PlanningLibraries : public Libraries {
 public:
  LibraryAnswer matrix_product(const MatrixProduct& p) override {
    return named(cat("cublaslt:", p.tf32 ? "tf32" : to_text(p.in), p.has_bias ? "+bias" : "",
                     p.relu ? "+relu" : "", p.gelu_tanh ? "+gelu_tanh" : ""));
  }
  LibraryAnswer convolution(const Convolution& c) override {
    if (!has_engine(c)) return {};
    const std::string_view kind = c.kind == ConvolutionKind::kForward    ? "forward"
                                  : c.kind == ConvolutionKind::kGradData ? "grad_data"
                                                                         : "grad_weight";
    return named(cat("cudnn:", kind, ":", c.tf32 ? "tf32" : to_text(c.data),
                     c.has_bias ? "+bias" : "", c.has_residual ? "+residual" : "",
                     c.relu ? "+relu" : "", c.has_mask ? "+relu_grad" : ""));
  }

 private:
  static LibraryCall named(std::string kernel) {
    return {std::move(kernel), 0, [](Stream, std::span<void* const>, void*) {
              fail(Code::kInternal, "a plan made without a device was run");
            }};
  }
};

}  // namespace

std::unique_ptr<Libraries> make_planning_libraries() {
  return std::make_unique<PlanningLibraries>();
}

}  // namespace assay::cuda
