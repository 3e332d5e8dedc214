// Matmul on a library. What its epilogue cannot take along, a second pass adds.
#include "sdk/backend/cuda/ops/epilogue.h"
#include "sdk/backend/cuda/ops/pointwise.h"

namespace assay::cuda {
namespace {

MatrixProduct product_of(const Matmul& p, const Planner& c) {
  const Dims &a = c.x(0).dims, &y = c.y().dims;
  MatrixProduct product;
  product.m = y[0];
  product.n = y[1];
  product.k = p.transpose_a ? a[0] : a[1];
  product.a_pitch = c.x_pitch(0);
  product.b_pitch = c.x_pitch(1);
  product.transpose_a = p.transpose_a;
  product.transpose_b = p.transpose_b;
  product.in = c.x(0).dtype;
  product.out = p.dtype;
  product.tf32 = c.tf32() && product.in == DType::kF32;
  return product;
}

// What a pass of our own does behind the product.
struct Rest {
  bool bias = false;
  ActivationKind activation = ActivationKind::kNone;
  bool any() const { return bias || activation != ActivationKind::kNone; }
};

NodePlan plan_of(const Planner& c, const MatrixProduct& product, const LibraryCall& call,
                 const Rest& rest, bool keeps_pre) {
  const size_t product_bytes = product_bytes_of(c.y(), product.out);
  NodePlan plan;
  plan.kernel = cat(call.kernel, rest.any() ? " own:epilogue" : "");
  plan.scratch_bytes = product_scratch(call, product_bytes, nullptr).bytes;
  plan.bind = [=, element = element_of(c.y()), wide = element_of(product.out),
               bias_is_like_y =
                   rest.bias && c.x(2).dtype == c.y().dtype](const Binding& b) -> Launch {
    const ProductScratch s = product_scratch(call, product_bytes, b.scratch);
    void* const y = product_bytes > 0 ? s.product : b.outputs[0];
    std::vector<void*> operands{b.inputs[0], b.inputs[1]};
    if (product.has_bias) operands.push_back(b.inputs[2]);
    if (product.gelu_tanh) operands.push_back(b.outputs[1]);
    operands.push_back(y);
    const kernels::EpilogueArgs epilogue{.x = y,
                                         .bias = rest.bias ? b.x<void>(2) : nullptr,
                                         .bias_is_like_y = bias_is_like_y,
                                         .residual = nullptr,
                                         .y = b.outputs[0],
                                         .rows = product.m,
                                         .channels = product.n,
                                         .y_pitch = product.n,
                                         .kind = static_cast<int>(rest.activation),
                                         .pre = keeps_pre ? b.outputs[1] : nullptr};
    return [=, run = call.run](Queue& q) {
      run(stream_of(q), operands, s.call);
      if (rest.any()) kernels::epilogue(stream_of(q), wide, element, epilogue);
    };
  };
  return plan;
}

// cuBLASLt adds biases of the result's type only (lower_biases makes them so). Its only exact
// activations are relu and, where what it is applied to is kept, the tanh form of GELU, which is
// 4e-6 off: too much where operands are not rounded.
void take_along(MatrixProduct& product, const Matmul& p, const Planner& c) {
  product.has_bias = p.has_bias && c.x(2).dtype == p.dtype;
  const bool all = product.has_bias == p.has_bias;
  product.relu = all && p.activation == ActivationKind::kRelu && !p.keep_pre;
  product.gelu_tanh = all && p.activation == ActivationKind::kGeluTanh && p.keep_pre &&
                      (product.in != DType::kF32 || product.tf32);
}

// The product with what it takes along, and the rest behind it; nothing if the library has none.
std::optional<NodePlan> plan_product(const Matmul& p, const Planner& c, MatrixProduct product) {
  const bool activates = product.relu || product.gelu_tanh;
  const Rest rest{.bias = p.has_bias && !product.has_bias,
                  .activation = activates ? ActivationKind::kNone : p.activation};
  // A bias of 16 bits comes with a product of 16 bits, which an activation is then applied to.
  if (rest.any() && !product.has_bias) product.out = DType::kF32;
  const auto call = c.libraries().matrix_product(product);
  if (!call) return std::nullopt;
  return plan_of(c, product, *call, rest, p.keep_pre && rest.any());
}

}  // namespace

// op(a) [M,K], op(b) [K,N], bias [N], y and pre [M,N].
NodePlan plan(const Matmul& p, const Planner& c) {
  MatrixProduct product = product_of(p, c);
  take_along(product, p, c);
  if (product.gelu_tanh) {
    if (auto plan = plan_product(p, c, product)) return *plan;
    product.gelu_tanh = false;
  }
  // All that is left is an activation of what is kept: it reads that (see decisions/0013).
  if (p.keep_pre && product.has_bias == p.has_bias) {
    Matmul before = p;
    before.keep_pre = false, before.activation = ActivationKind::kNone;
    return with_activation_behind(plan(before, c), p.activation, c);
  }
  if (auto plan = plan_product(p, c, product)) return *plan;
  // Without what it takes along, in case it has no kernel with it.
  product.has_bias = product.relu = false;
  if (auto plan = plan_product(p, c, product)) return *plan;
  fail(Code::kUnsupported, cat("matmul at ", c.scope(), ": cuBLASLt has no kernel for ", c.x(0),
                               " by ", c.x(1), " to ", c.y()));
}

}  // namespace assay::cuda
