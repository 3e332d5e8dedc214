// Conversions between element types.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// x, y [n]
template <class From, class To>
void cast(const void* x, void* y, int64_t n) {
  const From* in = static_cast<const From*>(x);
  To* out = static_cast<To*>(y);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(in[i]));
}

}  // namespace

extern const ElementwiseKernels kElementwise;
const ElementwiseKernels kElementwise = {
    {{cast<float, float>, cast<float, Bf16>}, {cast<Bf16, float>, cast<Bf16, Bf16>}},
};

}  // namespace assay::cpu::ASSAY_ISA
