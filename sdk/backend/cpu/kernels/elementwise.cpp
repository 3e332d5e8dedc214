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
  for_elements(
      n, [=](int64_t i) { store(out[i], load(in[i])); }, in, out);
}

}  // namespace

extern const ElementwiseKernels kElementwise;
const ElementwiseKernels kElementwise = {
    {{cast<float, float>, cast<float, Bf16>}, {cast<Bf16, float>, cast<Bf16, Bf16>}},
};

}  // namespace assay::cpu::ASSAY_ISA
