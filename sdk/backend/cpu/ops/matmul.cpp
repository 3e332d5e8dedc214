// Matmul on oneDNN, and in panels by our own kernels; transposed operands are read through
// their strides.
#include "sdk/backend/cpu/onednn.h"
#include "sdk/backend/cpu/ops/panel_product.h"
#include "sdk/backend/cpu/ops/pointwise.h"

namespace assay::cpu {
namespace {

using Desc = dnnl::memory::desc;

// op(matrix) as oneDNN sees it: the sizes and strides of the transposed matrix, the same memory.
// Rows with a pitch go to its other kernel (gemm:jit instead of brg), which takes 0.9 to 1.04 of
// the time.
Desc matrix_desc(const Dims& d, int64_t pitch, bool transpose, DType dtype) {
  if (transpose) return {{d[1], d[0]}, dnnl_type(dtype), {1, pitch}};
  return {{d[0], d[1]}, dnnl_type(dtype), {pitch, 1}};
}

// How b is given to oneDNN: as it stands, which its kernels copy on the fly, or in their own
// layout.
enum class Operand { kAsIs, kPacked };

// op(a) [M,K], op(b) [K,N], bias [N], y [M,N].
NodePlan plan_product(const Matmul& p, const Planner& c, DType compute, Operand layout) {
  const DType out_type = compute == DType::kF32 ? DType::kF32 : p.dtype;
  const auto operand_desc = [&](int i, bool transpose, DType dtype) {
    return matrix_desc(c.x(i).dims, c.x_pitch(i), transpose, dtype);
  };
  const Desc a = operand_desc(0, p.transpose_a, compute);
  const Desc b = operand_desc(1, p.transpose_b, compute);
  const Desc y = matrix_desc(c.y().dims, c.y().dims[1], false, out_type);
  const Desc bias({1, c.y().dims[1]}, dnnl_type(DType::kF32), dnnl::memory::format_tag::ab);
  const Desc given =
      layout == Operand::kPacked ? Desc(b.dims(), b.data_type(), dnnl::memory::format_tag::any) : b;
  dnnl::post_ops ops;
  append_activation(ops, p.activation);
  dnnl::primitive_attr attributes = dnnl_attributes();
  attributes.set_post_ops(ops);
  using Descriptor = dnnl::matmul::desc;
  const dnnl::matmul::primitive_desc desc(
      p.has_bias ? Descriptor(a, given, bias, y) : Descriptor(a, given, y), attributes,
      dnnl_engine());

  DnnlChain chain(c, Matmul::kName);
  chain.allow_preparing(1);
  const auto result = chain.output(0, matrix_desc(c.y().dims, c.y().dims[1], false, p.dtype));
  const auto work = chain.before(result, y);
  const auto operand = [&](int i, bool transpose, const Desc& wanted) {
    return chain.as(chain.input(i, operand_desc(i, transpose, c.x(i).dtype)), wanted);
  };
  DnnlChain::Arguments arguments{{DNNL_ARG_SRC, operand(0, p.transpose_a, a)},
                                 {DNNL_ARG_WEIGHTS, operand(1, p.transpose_b, desc.weights_desc())},
                                 {DNNL_ARG_DST, work}};
  if (p.has_bias) arguments.push_back({DNNL_ARG_BIAS, chain.input(2, bias)});
  chain.add<dnnl::matmul>(desc, arguments);
  chain.copy(work, result);
  return chain.finish(desc.impl_info_str());
}

// Rows of b at a distance of whole pages fall on the same few lines of the first-level cache, and
// its kernel, which copies rows of 2048 and 4096 floats, reads those of 3072 where they stand: at
// 1024 rows packing took 4 ms and spared 40 of 80.
bool reads_same_lines(const Matmul& p, const Planner& c) {
  constexpr int64_t kPage = 4096, kManyRows = 128;
  const int64_t pitch = c.x_pitch(1) * static_cast<int64_t>(sizeof(float));
  return !p.transpose_b && pitch % kPage == 0 && c.y().dims[0] >= kManyRows;
}

// Packing pays only if it is done once: with 2 threads and 128 rows the kernel then gains 5-10 %
// and with one row it takes half the time, but packing costs as much as a product of 30 rows or
// more. The kernel of processors without AVX-512 knows no layout of its own, and reads transposed
// weights faster than others.
NodePlan plan_matmul(const Matmul& p, const Planner& c, DType compute) {
  if (compute == DType::kF32 && reads_same_lines(p, c))
    return plan_product(p, c, compute, Operand::kPacked);
  NodePlan plan = plan_product(p, c, compute, Operand::kAsIs);
  NodePlan packed = plan_product(p, c, compute, Operand::kPacked);
  if (packed.prepare.bytes == 0 || packed.kernel.starts_with("dnnl:gemm")) return plan;
  plan.prepare = packed.prepare;
  plan.bind = [as_is = plan.bind, packed = packed.bind](const Binding& b) {
    return b.prepared != nullptr ? packed(b) : as_is(b);
  };
  return plan;
}

}  // namespace

NodePlan plan(const Matmul& p, const Planner& c) {
  if (p.has_bias && c.x(2).dtype != DType::kF32)
    fail(Code::kInternal, cat("matmul at ", c.scope(), ": a bias of ", c.x(2).dtype));
  if (p.keep_pre) {
    Matmul product = p;
    product.keep_pre = false, product.activation = ActivationKind::kNone;
    return with_activation_behind(plan(product, c), p.activation, c);
  }
  return plan_in_panels_or(p, c, [&] {
    return plan_with_dnnl(c, Matmul::kName,
                          [&](DType compute) { return plan_matmul(p, c, compute); });
  });
}

}  // namespace assay::cpu
