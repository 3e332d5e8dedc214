// Elementwise functions by their names: how each is written with Pointwise, and how the passes know
// it again.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// x0 + x1, and x0 as it is: of another type, a cast.
PointwiseCode add_code();
PointwiseCode cast_code();
// f(x0). Elu has alpha 1, Gelu is the exact x*Phi(x), GeluTanh its approximation
// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), Swish is x*sigmoid(x).
PointwiseCode activation_code(ActivationKind kind);
// x1 * f' from one saved tensor x0: y of Relu, Elu, Tanh and Sigmoid, x of Gelu, GeluTanh and Swish
// (see gradient_reads_output).
PointwiseCode activation_grad_code(ActivationKind kind);

// As nodes; `at` is a Graph or a GradCtx. Operands of `add` and of `activation_grad` have one type.
template <class At>
ValueId add(At& at, ValueId a, ValueId b) {
  return at.emit1(Pointwise{add_code(), {}}, {a, b});
}
template <class At>
ValueId cast(At& at, ValueId x, DType dtype) {
  return at.emit1(Pointwise{cast_code(), dtype}, {x});
}
template <class At>
ValueId activation(At& at, ValueId x, ActivationKind kind) {
  return at.emit1(Pointwise{activation_code(kind), {}}, {x});
}
template <class At>
ValueId activation_grad(At& at, ValueId saved, ValueId dy, ActivationKind kind) {
  return at.emit1(Pointwise{activation_grad_code(kind), {}}, {saved, dy});
}

bool is_add(const Op& op);
bool is_cast(const Op& op);
// x0 * x1, in either order.
bool is_product(const Op& op);
// kNone if it is none.
ActivationKind activation_of(const Op& op);
ActivationKind activation_grad_of(const Op& op);

// All of the above by their names in text: "add", "cast", "relu", "relu_grad", ...
struct NamedCode {
  std::string name;
  PointwiseCode code;
};
const std::vector<NamedCode>& named_codes();

}  // namespace assay
