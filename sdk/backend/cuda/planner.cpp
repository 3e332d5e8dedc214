#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

thread_local Stream stream_of_thread = nullptr;

class PlanningLibraries : public Libraries {
 public:
  std::optional<LibraryCall> matrix_product(const MatrixProduct& p) override {
    return named(cat("cublaslt:", p.tf32 ? "tf32" : to_text(p.in), p.has_bias ? "+bias" : "",
                     p.relu ? "+relu" : ""));
  }
  std::optional<LibraryCall> convolution(const Convolution& c) override {
    const std::string_view kind = c.kind == ConvolutionKind::kForward    ? "forward"
                                  : c.kind == ConvolutionKind::kGradData ? "grad_data"
                                                                         : "grad_weight";
    return named(cat("cudnn:", kind, ":", c.tf32 ? "tf32" : to_text(c.data),
                     c.has_bias ? "+bias" : "", c.has_residual ? "+residual" : "",
                     c.relu ? "+relu" : ""));
  }

 private:
  static LibraryCall named(std::string kernel) {
    return {std::move(kernel), 0, [](Stream, std::span<void* const>, void*) {
              fail(Code::kInternal, "a plan made without a device was run");
            }};
  }
};

}  // namespace

Stream current_stream() { return stream_of_thread; }

StreamScope::StreamScope(Stream stream) : before_(stream_of_thread) { stream_of_thread = stream; }
StreamScope::~StreamScope() { stream_of_thread = before_; }

std::unique_ptr<Libraries> make_planning_libraries() {
  return std::make_unique<PlanningLibraries>();
}

}  // namespace assay::cuda
