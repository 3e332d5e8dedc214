// Numbers on which the engine and its kernels must agree to the bit. Kernels are compiled for other
// instruction sets or by other compilers and may include hardly anything: here is nothing but
// <stdint.h>.
#pragma once

#include <stdint.h>

namespace assay {

// The functions of activations (sdk/graph/elementwise.h).
enum class ActivationKind : int32_t {
  kNone = 0,
  kRelu = 1,
  kElu = 2,
  kTanh = 3,
  kSigmoid = 4,
  kGelu = 5,
  kSwish = 6,
  kGeluTanh = 7
};
// Whether the gradient is taken from y, so that x need not be kept.
constexpr bool gradient_reads_output(ActivationKind kind) { return kind < ActivationKind::kGelu; }

// GeluTanh is x * (1 + tanh(scale * (x + cubic * x^3))) / 2.
constexpr float kGeluTanhScale = 0.79788456f, kGeluTanhCubic = 0.044715f;

// One step of Pointwise (sdk/graph/pointwise.h) on operands a, b, c, d in f32.
enum class PointwiseFn : int32_t {
  kAdd = 0,  // a + b
  kSub,      // a - b
  kMul,      // a * b
  kDiv,      // a / b
  kMax,      // a > b ? a : b, so that a NaN in b passes
  kMin,      // a < b ? a : b
  kMulAdd,   // a * b + c, rounded once where the processor can
  kSelect,   // a <= b ? c : d
  kExp,
  kExpm1,
  kTanh,
  kSigmoid,
  kErf,
  kBf16,  // a rounded to bf16
  kF16    // a rounded to f16
};
constexpr int kMostPointwiseSteps = 24;
constexpr int kMostPointwiseInputs = 8;

constexpr int pointwise_operands(PointwiseFn fn) {
  return fn == PointwiseFn::kSelect   ? 4
         : fn == PointwiseFn::kMulAdd ? 3
         : fn < PointwiseFn::kMulAdd  ? 2
                                      : 1;
}

constexpr int kMostTables = 8;  // of GatherRows
// Of DecodeBoxes: shifts of the middle in sizes of the anchor, and logarithms of its growth.
constexpr float kMostBoxShift = 1e6f, kMostBoxGrowth = 20;
constexpr int kMostFusedImages = 3;  // of WeightedFusion

// Philox4x32-10 (sdk/base/philox.h).
constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u, kPhiloxWeyl1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;

}  // namespace assay
