// Precision as a policy of the whole graph.
#pragma once

#include <cstdint>
#include <string_view>

#include "sdk/graph/graph.h"
#include "sdk/graph/target.h"

namespace assay {

// Frozen values: part of the C ABI and of checkpoints.
enum class Precision : int32_t {
  kF32 = 1,
  kTf32 = 2,     // f32 data, matrix units may round their operands to 10 bits of fraction (GPU)
  kAmpF16 = 3,   // f16 data and matrix operands, f32 masters; needs loss scaling (GPU)
  kAmpBf16 = 4,  // bf16 data and matrix operands, f32 masters
};

constexpr std::string_view to_text(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return "fp32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kAmpF16:
      return "amp-fp16";
    case Precision::kAmpBf16:
      return "amp-bf16";
  }
  return "unknown";
}

// Fails with kInvalid, listing the names, for any other text.
Precision parse_precision(std::string_view text);

// Rewrites a forward graph so that convolutions and matrix products take operands of the policy's
// type, and what follows them (normalisation, activations, pooling, additions) carries it. Losses
// and metrics read it directly and compute in f32.
//
//   conv2d(x f32, w f32)   ⇒   conv2d(cast(x), cast(w)) bf16
//
// Casts of the same value are shared. Graph outputs that were f32 stay f32. tf32 changes no type:
// it sets Graph::tf32. Fails with kUnsupported where the target has no kernels for the policy.
void apply_precision(Graph& graph, Precision precision, const Target& target = {});

}  // namespace assay
