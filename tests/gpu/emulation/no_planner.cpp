// In place of plan_only.cpp, which asks cuDNN.
#include "sdk/backend/cuda/plan_only.h"

namespace assay::cuda {

std::unique_ptr<Backend> make_plan_only_backend(const Target& target) {
  fail(Code::kUnsupported, cat("the emulated backend makes no plans for ", target.name));
}

}  // namespace assay::cuda
