// Conversions between element types.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// x, y [n]
template <class From, class To>
[[gnu::flatten]] void cast(const void* x, void* y, int64_t n) {
  const From* in = static_cast<const From*>(x);
  To* out = static_cast<To*>(y);
  for_vectors(n, [=](int64_t i, int64_t count) {
    stream_lanes(out + i, stream_lanes(in + i, count), count);
  });
}

}  // namespace

extern const ElementwiseKernels kElementwise;
const ElementwiseKernels kElementwise = {
    {{cast<float, float>, cast<float, Bf16>}, {cast<Bf16, float>, cast<Bf16, Bf16>}},
};

}  // namespace assay::cpu::ASSAY_ISA
