// WeightedFusion and its gradient: one pass over all images each.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

// Inputs 1 to `count` fused into images of these dims.
template <class Op>
kernels::FusionArgs fusion_args(const Op& p, const Planner& c, int count, const Dims& dims) {
  kernels::FusionArgs args{};
  args.count = count;
  for (int i = 0; i < count; ++i) args.is_half[i] = c.x(1 + i).dims != dims;
  args.rows = dims[0] * dims[1];
  args.columns = dims[2];
  args.channels = dims[3];
  args.epsilon = p.epsilon;
  args.activation = p.activation;
  // Cells are counted in 32 bits: one has four elements at least.
  require(dims.numel() / 4 < int64_t{1} << 32, Code::kUnsupported, "weighted fusion at ", c.scope(),
          ": images of ", dims, " are too large");
  return args;
}

kernels::FusionArgs with_images(kernels::FusionArgs args, const Binding& b) {
  args.w = b.x<float>(0);
  for (int i = 0; i < args.count; ++i) args.x[i] = b.x<void>(1 + i);
  return args;
}

}  // namespace

// w [n], x_i and y images.
NodePlan plan(const WeightedFusion& p, const Planner& c) {
  NodePlan plan = own_plan("weighted_fusion");
  plan.bind = [element = element_of(c.y()),
               fusion =
                   fusion_args(p, c, c.n_inputs() - 1, c.y().dims)](const Binding& b) -> Launch {
    return [=, args = with_images(fusion, b), y = b.y<void>()](Queue& q) {
      kernels::weighted_fusion(stream_of(q), element, args, y);
    };
  };
  return plan;
}

// w, dw [n], x_i, dy and dx_i images.
NodePlan plan(const WeightedFusionGrad& p, const Planner& c) {
  const int count = c.n_inputs() - 2;
  NodePlan plan = own_plan("weighted_fusion");
  plan.scratch_bytes = kernels::weighted_fusion_sums_bytes();
  plan.bind = [=, element = element_of(c.x(1)),
               fusion = fusion_args(p, c, count, c.x(count + 1).dims)](const Binding& b) -> Launch {
    kernels::FusionArgs args = with_images(fusion, b);
    for (int i = 0; i < count; ++i) args.dx[i] = b.y<void>(1 + i);
    return [=, dy = b.x<void>(count + 1), dw = b.y<float>(0),
            sums = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::weighted_fusion_grad(stream_of(q), element, args, dy, {sums, arrivals_of(q)}, dw);
    };
  };
  return plan;
}

}  // namespace assay::cuda
