// Dropout: each element with its word of the Philox sequence.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/philox_words.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// x, y [n]; y may be x.
template <class T>
void apply(const DropoutRange& range, const void* x, void* y, int64_t n) {
  const T* in = static_cast<const T*>(x);
  T* out = static_cast<T*>(y);
  const uint32_t drop_below = range.drop_below;
  const float scale = range.scale;
  alignas(64) uint32_t words[kPhiloxBlock];
  for (int64_t begin = 0; begin < n; begin += kPhiloxBlock) {
    draw(range, range.first / 4 + static_cast<uint64_t>(begin / 4), words);
    const int64_t width = n - begin < kPhiloxBlock ? n - begin : kPhiloxBlock;
    const T* from = in + begin;
    T* to = out + begin;
    for_elements(
        width,
        [&](int64_t i) { store(to[i], words[i] >= drop_below ? load(from[i]) * scale : 0.0f); },
        from, to);
  }
}

}  // namespace

extern const DropoutKernels kDropout;
const DropoutKernels kDropout = {{apply<float>, apply<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
