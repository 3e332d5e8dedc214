// Matmul on a library. What its epilogue cannot take along, a second pass adds.
#include "sdk/backend/cuda/ops/epilogue.h"

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

NodePlan plan_of(const Planner& c, const MatrixProduct& product, const LibraryCall& call,
                 bool adds_bias, bool has_epilogue, ActivationKind kind) {
  const size_t product_bytes = product_bytes_of(c.y(), product.out);
  NodePlan plan;
  plan.kernel = cat(call.kernel, has_epilogue ? " own:epilogue" : "");
  plan.scratch_bytes = product_scratch(call, product_bytes, nullptr).bytes;
  plan.flops = 2 * count_of(c.y()) * static_cast<double>(product.k);
  plan.bytes = c.traffic_bytes();
  plan.bind = [=, element = element_of(c.y()),
               wide = element_of(product.out)](const Binding& b) -> Launch {
    const ProductScratch s = product_scratch(call, product_bytes, b.scratch);
    void* const y = product_bytes > 0 ? s.product : b.outputs[0];
    std::vector<void*> operands{b.inputs[0], b.inputs[1]};
    if (product.has_bias) operands.push_back(b.inputs[2]);
    operands.push_back(y);
    const kernels::EpilogueArgs epilogue{.x = y,
                                         .bias = adds_bias ? b.x<float>(2) : nullptr,
                                         .residual = nullptr,
                                         .y = b.outputs[0],
                                         .rows = product.m,
                                         .channels = product.n,
                                         .y_pitch = product.n,
                                         .kind = static_cast<int>(kind)};
    return [=, run = call.run](Queue& q) {
      run(stream_of(q), operands, s.call);
      if (has_epilogue) kernels::epilogue(stream_of(q), wide, element, epilogue);
    };
  };
  return plan;
}

}  // namespace

NodePlan plan(const Matmul& p, const Planner& c) {
  MatrixProduct product = product_of(p, c);
  const bool is_relu = p.activation == ActivationKind::kRelu;
  // cuBLASLt adds biases of the result's type only, and ours are f32. Its only other exact
  // activation is relu (its GELU is the tanh approximation).
  product.has_bias = p.has_bias && p.dtype == DType::kF32;
  product.relu = is_relu && product.has_bias == p.has_bias;
  // Without what it takes along, in case it has no kernel with it.
  for (const bool fused : {true, false}) {
    if (!fused) product.has_bias = product.relu = false;
    const bool adds_bias = p.has_bias && !product.has_bias;
    const auto kind = product.relu ? ActivationKind::kNone : p.activation;
    const bool has_epilogue = adds_bias || kind != ActivationKind::kNone;
    const auto call = wide_call(has_epilogue, p.dtype, product.out, [&](DType out) {
      MatrixProduct wanted = product;
      wanted.out = out;
      return c.libraries().matrix_product(wanted);
    });
    if (call) return plan_of(c, product, *call, adds_bias, has_epilogue, kind);
  }
  fail(Code::kUnsupported, cat("matmul at ", c.scope(), ": cuBLASLt has no kernel for ", c.x(0),
                               " by ", c.x(1), " to ", c.y()));
}

}  // namespace assay::cuda
