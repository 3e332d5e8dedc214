// The code of what elementwise.h names.
#include "sdk/graph/elementwise.h"

#include <algorithm>
#include <array>

#include "sdk/graph/text.h"

namespace assay {
namespace {

using Fn = PointwiseFn;
using Operand = PointwiseOperand;

Operand x(int i) { return Operand::input(i); }

constexpr std::array kKinds{ActivationKind::kRelu,    ActivationKind::kElu,  ActivationKind::kTanh,
                            ActivationKind::kSigmoid, ActivationKind::kGelu, ActivationKind::kSwish,
                            ActivationKind::kGeluTanh};

using CodeOf = PointwiseCode (*)(ActivationKind);

std::vector<PointwiseCode> codes_of_kinds(CodeOf code_of) {
  std::vector<PointwiseCode> codes(kKinds.size());
  std::transform(kKinds.begin(), kKinds.end(), codes.begin(), code_of);
  return codes;
}

// The kind that has the code of the op, which gives what it takes: no other type.
ActivationKind kind_with(const Op& op, const std::vector<PointwiseCode>& codes) {
  const auto* pointwise = std::get_if<Pointwise>(&op);
  if (pointwise == nullptr || pointwise->dtype) return ActivationKind::kNone;
  const auto found = std::find(codes.begin(), codes.end(), pointwise->code);
  return found == codes.end() ? ActivationKind::kNone
                              : kKinds[static_cast<size_t>(found - codes.begin())];
}

bool has_code(const Op& op, const PointwiseCode& code) {
  const auto* pointwise = std::get_if<Pointwise>(&op);
  return pointwise != nullptr && pointwise->code == code;
}

}  // namespace

PointwiseCode add_code() { return {Fn::kAdd, {x(0), x(1)}}; }
PointwiseCode cast_code() { return {Fn::kMul, {x(0), 1.0f}}; }

const std::vector<NamedCode>& named_codes() {
  static const std::vector<NamedCode> kAll = [] {
    std::vector<NamedCode> codes{{"add", add_code()}, {"cast", cast_code()}};
    for (const ActivationKind kind : kKinds) {
      codes.push_back({std::string(to_text(kind)), activation_code(kind)});
      codes.push_back({cat(to_text(kind), "_grad"), activation_grad_code(kind)});
    }
    return codes;
  }();
  return kAll;
}

bool is_add(const Op& op) { return has_code(op, add_code()) && !std::get<Pointwise>(op).dtype; }
bool is_cast(const Op& op) { return has_code(op, cast_code()); }
bool is_product(const Op& op) {
  static const PointwiseCode kProduct(Fn::kMul, {x(0), x(1)}), kTurned(Fn::kMul, {x(1), x(0)});
  return has_code(op, kProduct) || has_code(op, kTurned);
}

ActivationKind activation_of(const Op& op) {
  static const auto kCodes = codes_of_kinds(activation_code);
  return kind_with(op, kCodes);
}
ActivationKind activation_grad_of(const Op& op) {
  static const auto kCodes = codes_of_kinds(activation_grad_code);
  return kind_with(op, kCodes);
}

namespace {

// tanh(scale * (v + cubic * v^3)) of GeluTanh.
Operand append_inner_tanh(PointwiseCode& code, Operand v) {
  const Operand square = code.append(Fn::kMul, {v, v});
  const Operand cubic = code.append(Fn::kMul, {kGeluTanhCubic, square});
  const Operand inner = code.append(Fn::kMulAdd, {cubic, v, v});
  return code.append(Fn::kTanh, {code.append(Fn::kMul, {kGeluTanhScale, inner})});
}

}  // namespace

PointwiseCode activation_code(ActivationKind kind) {
  PointwiseCode code;
  switch (kind) {
    case ActivationKind::kNone:
      return cast_code();
    case ActivationKind::kRelu:
      code.append(Fn::kMax, {0.0f, x(0)});
      break;
    case ActivationKind::kElu: {
      const Operand below = code.append(Fn::kSelect, {x(0), 0.0f, x(0), 0.0f});
      const Operand negative = code.append(Fn::kExpm1, {below});
      code.append(Fn::kSelect, {x(0), 0.0f, negative, x(0)});
      break;
    }
    case ActivationKind::kTanh:
      code.append(Fn::kTanh, {x(0)});
      break;
    case ActivationKind::kSigmoid:
      code.append(Fn::kSigmoid, {x(0)});
      break;
    // x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2
    case ActivationKind::kGelu: {
      const Operand erf = code.append(Fn::kErf, {code.append(Fn::kMul, {x(0), 0.70710678f})});
      const Operand cdf = code.append(Fn::kMul, {0.5f, code.append(Fn::kAdd, {1.0f, erf})});
      code.append(Fn::kMul, {x(0), cdf});
      break;
    }
    case ActivationKind::kSwish:
      code.append(Fn::kMul, {x(0), code.append(Fn::kSigmoid, {x(0)})});
      break;
    case ActivationKind::kGeluTanh: {
      const Operand tanh = append_inner_tanh(code, x(0));
      const Operand half = code.append(Fn::kMul, {0.5f, code.append(Fn::kAdd, {1.0f, tanh})});
      code.append(Fn::kMul, {x(0), half});
      break;
    }
  }
  return code;
}

// x0 is the saved tensor (y, or x for Gelu and Swish), x1 is dy.
PointwiseCode activation_grad_code(ActivationKind kind) {
  PointwiseCode code;
  const Operand saved = x(0), dy = x(1);
  const auto append = [&](Fn fn, std::initializer_list<Operand> operands) {
    return code.append(fn, operands);
  };
  switch (kind) {
    case ActivationKind::kNone:
      append(Fn::kMul, {dy, 1.0f});
      break;
    case ActivationKind::kRelu:
      append(Fn::kSelect, {saved, 0.0f, 0.0f, dy});
      break;
    case ActivationKind::kElu:
      // Where y <= 0 it is e^x - 1, whose derivative is y + 1.
      append(Fn::kSelect,
             {saved, 0.0f, append(Fn::kMul, {dy, append(Fn::kAdd, {saved, 1.0f})}), dy});
      break;
    case ActivationKind::kTanh: {
      const Operand negative = append(Fn::kMul, {saved, -1.0f});
      append(Fn::kMul, {dy, append(Fn::kMulAdd, {negative, saved, 1.0f})});
      break;
    }
    case ActivationKind::kSigmoid:
      append(Fn::kMul, {append(Fn::kMul, {dy, saved}), append(Fn::kSub, {1.0f, saved})});
      break;
    // Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
    case ActivationKind::kGelu: {
      const Operand erf = append(Fn::kErf, {append(Fn::kMul, {saved, 0.70710678f})});
      const Operand cdf = append(Fn::kMul, {0.5f, append(Fn::kAdd, {1.0f, erf})});
      const Operand square = append(Fn::kMul, {append(Fn::kMul, {-0.5f, saved}), saved});
      const Operand pdf = append(Fn::kMul, {0.39894228f, append(Fn::kExp, {square})});
      append(Fn::kMul, {dy, append(Fn::kMulAdd, {saved, pdf, cdf})});
      break;
    }
    // s (1 + x (1 - s)), s = sigmoid(x)
    case ActivationKind::kSwish: {
      const Operand s = append(Fn::kSigmoid, {saved});
      const Operand slope = append(Fn::kMulAdd, {saved, append(Fn::kSub, {1.0f, s}), 1.0f});
      append(Fn::kMul, {append(Fn::kMul, {dy, s}), slope});
      break;
    }
    case ActivationKind::kGeluTanh: {  // h + x/2 (1 - tanh^2) inner', h = (1 + tanh) / 2
      const Operand tanh = append_inner_tanh(code, saved);
      const Operand half = append(Fn::kMul, {0.5f, append(Fn::kAdd, {1.0f, tanh})});
      const Operand square = append(Fn::kMul, {saved, saved});
      const Operand slope = append(Fn::kMulAdd, {square, 3.0f * kGeluTanhCubic, 1.0f});
      const Operand scaled = append(Fn::kMul, {kGeluTanhScale, slope});
      const Operand negative = append(Fn::kMul, {tanh, -1.0f});
      const Operand bell = append(Fn::kMulAdd, {negative, tanh, 1.0f});
      const Operand side = append(Fn::kMul, {append(Fn::kMul, {0.5f, saved}), bell});
      append(Fn::kMul, {dy, append(Fn::kMulAdd, {side, scaled, half})});
      break;
    }
  }
  return code;
}

}  // namespace assay
