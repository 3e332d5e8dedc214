// What persists between runs: variables and the roles of their memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"

namespace assay {

// One variable owns up to one tensor per role, all of its dims. Written into checkpoints: frozen,
// never renumbered.
enum class Role : int32_t {
  kValue = 1,         // the parameter, f32 (the master, under mixed precision)
  kGradient = 2,      // f32, of the last backward
  kMoment1 = 3,       // momentum, its sign as in SgdUpdate, or Adam's m
  kMoment2 = 4,       // Adam's v
  kEma = 5,           // moving average of the value
  kStatistic = 6,     // batch-norm running mean or variance: not trained
  kState = 7,         // the trainer's own scalars: step count, loss scale
  kStatisticEma = 8,  // moving average of the statistic
};

// The moving average of what is declared with that role.
constexpr Role average_of(Role declared) {
  return declared == Role::kStatistic ? Role::kStatisticEma : Role::kEma;
}

constexpr std::string_view to_text(Role role) {
  switch (role) {
    case Role::kValue:
      return "value";
    case Role::kGradient:
      return "gradient";
    case Role::kMoment1:
      return "moment1";
    case Role::kMoment2:
      return "moment2";
    case Role::kEma:
      return "ema";
    case Role::kStatistic:
      return "statistic";
    case Role::kState:
      return "state";
    case Role::kStatisticEma:
      return "statistic_ema";
  }
  return "unknown";
}

// How a variable gets its first numbers. All draws are Philox(seed, hash of the name; element):
// independent of order.
struct Initializer {
  enum class Kind : int32_t {
    kConstant,         // a everywhere
    kUniform,          // in [-a, a)
    kNormal,           // mean 0, standard deviation a
    kTruncatedNormal,  // as kNormal, redrawn outside two standard deviations
  };
  Kind kind = Kind::kConstant;
  double a = 0;
  bool operator==(const Initializer&) const = default;
};
std::string to_text(const Initializer& initializer);  // "normal(0.02)"

// What a variable is to the layer that has it: optimizers treat kinds differently.
enum class VariableKind : int32_t {
  kKernel,     // of a product or a convolution
  kBias,       // added behind one
  kBatchNorm,  // scale, shift or statistic
  kLayerNorm,  // scale or shift
  kEmbedding,  // a table of rows
  kScalar,     // one number
};
constexpr std::array<std::string_view, 6> kVariableKinds{"kernel",     "bias",      "batch_norm",
                                                         "layer_norm", "embedding", "scalar"};
constexpr std::string_view to_text(VariableKind kind) {
  return kVariableKinds[static_cast<size_t>(kind)];
}

struct Variable {
  std::string name;  // "layer1.0.conv1.weight"
  Dims dims;
  DType dtype = DType::kF32;
  Role role = Role::kValue;  // kValue (trained), kStatistic or kState
  Initializer initializer;
  VariableKind kind = VariableKind::kKernel;
  bool operator==(const Variable&) const = default;
};

}  // namespace assay
