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
  PhiloxWords words;
  for (int64_t begin = 0; begin < n; begin += kPhiloxBlock) {
    draw(range, range.first / 4 + static_cast<uint64_t>(begin / 4), words.word);
    for_vectors(least(n - begin, kPhiloxBlock), [&](int64_t i, int64_t count) {
      const Vec kept = drop(range, words.word + i, stream_lanes(in + begin + i, count));
      stream_lanes(out + begin + i, kept, count);
    });
  }
}

}  // namespace

extern const DropoutKernels kDropout;
const DropoutKernels kDropout = {{apply<float>, apply<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
