// LayerNorm and its gradient: rows are independent but for the sums of dgamma and dbeta.
#include "sdk/backend/cuda/ops/dropout.h"
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

template <class Op>
kernels::RowDropout row_dropout(const Op& op, const Binding& b, int step_input) {
  if (op.rate == 0) return {};
  return {dropout_args(op), b.x<int64_t>(step_input)};
}

}  // namespace

// x, residual, y, z [rows, C], gamma, beta [C], mean, rstd [rows], step [].
NodePlan plan(const LayerNorm& p, const Planner& c) {
  const int64_t channels = c.x(0).dims.back(), rows = c.x(0).numel() / channels;
  NodePlan plan = own_plan("layer_norm");
  plan.bind = [=, element = element_of(c.x(0))](const Binding& b) -> Launch {
    kernels::LayerNormArgs args{};
    args.rows = rows;
    args.channels = channels;
    args.epsilon = p.epsilon;
    args.dropout = row_dropout(p, b, p.step_input());
    args.x = b.x<void>(0);
    args.gamma = b.x<float>(1);
    args.beta = b.x<float>(2);
    if (p.has_residual) args.residual = b.x<void>(3);
    args.y = b.y<void>(0);
    args.mean = b.y<float>(1);
    args.rstd = b.y<float>(2);
    if (p.keeps_z()) args.z = b.y<void>(3);
    return [=](Queue& q) { kernels::layer_norm(stream_of(q), element, args); };
  };
  return plan;
}

// z, dy, addend, dz, dx [rows, C], gamma, dgamma, dbeta, sums [C], mean, rstd [rows], step [].
NodePlan plan(const LayerNormGrad& p, const Planner& c) {
  const int64_t channels = c.x(0).dims.back(), rows = c.x(0).numel() / channels;
  NodePlan plan = own_plan(cat("layer_norm", p.has_addend ? "_sum" : ""));
  plan.scratch_bytes = kernels::layer_norm_sums_bytes(rows, channels);
  plan.bind = [=, element = element_of(c.x(0))](const Binding& b) -> Launch {
    kernels::LayerNormGradArgs args{};
    args.rows = rows;
    args.channels = channels;
    args.dropout = row_dropout(p, b, 5);
    args.z = b.x<void>(0);
    args.gamma = b.x<float>(1);
    args.mean = b.x<float>(2);
    args.rstd = b.x<float>(3);
    args.dy = b.x<void>(4);
    if (p.has_addend) args.addend = b.x<void>(p.addend_input());
    args.dz = b.y<void>(0);
    args.dgamma = b.y<float>(1);
    args.dbeta = b.y<float>(2);
    if (p.rate > 0) args.dx = b.y<void>(p.dx_output());
    if (p.keep_sums) args.sums = b.y<float>(p.sums_output());
    return [=, partial = static_cast<float*>(b.scratch)](Queue& q) {
      kernels::layer_norm_grad(stream_of(q), element, args, partial);
    };
  };
  return plan;
}

}  // namespace assay::cuda
