// BatchNormMaxPool and its gradient. The sums of the gradient are over the maxima alone: elsewhere
// it is 0.
#include "sdk/backend/cuda/ops/batch_norm.h"
#include "sdk/backend/cuda/ops/pool.h"

namespace assay::cuda {

// x [N,H,W,C]; y, peaks, winners [N,P,Q,C]; gamma, beta, mean, var [C].
NodePlan plan(const BatchNormMaxPool& p, const Planner& c) {
  const kernels::PoolShape shape = pool_shape(p.geometry, c.x(0).dims, c.y(0).dims);
  const Element element = element_of(c.x(0));
  const int64_t rows = shape.n * shape.h * shape.w;
  const size_t sums = kernels::partial_sums_bytes(element, rows, shape.c, 2);
  NodePlan plan = own_plan("norm_max_window");
  plan.scratch_bytes = norm_scratch(sums, shape.c, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const NormScratch s = norm_scratch(sums, shape.c, b.scratch);
    const kernels::NormInputs in{b.x<float>(1), b.x<float>(2), nullptr, nullptr, p.epsilon};
    return [=, x = b.x<void>(0), y = b.y<void>(0), mean = b.y<float>(1), var = b.y<float>(2),
            peaks = b.y<void>(3), winners = b.y<uint8_t>(4)](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::norm_statistics(stream, element, x, rows, shape.c, {s.partial, arrivals_of(q)}, in,
                               mean, var, s.affine);
      kernels::norm_max_pool(stream, element, shape, x, s.affine, y, peaks, winners);
    };
  };
  return plan;
}

// x, dx [N,H,W,C]; dy, peaks, winners [N,P,Q,C]; gamma, beta, mean, var, dgamma, dbeta [C].
NodePlan plan(const BatchNormMaxPoolGrad& p, const Planner& c) {
  const kernels::PoolShape shape = pool_shape(p.geometry, c.x(0).dims, c.x(5).dims);
  const Element element = element_of(c.x(0));
  const int64_t rows = shape.n * shape.h * shape.w, maxima = shape.n * shape.p * shape.q;
  const size_t sums = kernels::partial_sums_bytes(element, maxima, shape.c, 2);
  NodePlan plan = own_plan("norm_max_gather");
  plan.scratch_bytes = norm_scratch(sums, shape.c, nullptr).bytes;
  plan.in_place = {{0, 0}};  // an element of x is not read any more when it is written
  plan.bind = [=](const Binding& b) -> Launch {
    const NormScratch s = norm_scratch(sums, shape.c, b.scratch);
    const kernels::NormInputs in = inputs_of(b, p.epsilon);
    const kernels::NormGradArgs of_x{.x = b.x<void>(0),
                                     .dy = b.x<void>(5),
                                     .activation = ActivationKind::kRelu,
                                     .affine = s.affine,
                                     .b = s.b,
                                     .c = s.c};
    kernels::NormGradArgs of_peaks = of_x;
    of_peaks.x = b.x<void>(6);
    return [=, winners = b.x<uint8_t>(7), dx = b.y<void>(0), dgamma = b.y<float>(1),
            dbeta = b.y<float>(2)](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::norm_grad_sums(stream, element, of_peaks, in, rows, maxima, shape.c,
                              {s.partial, arrivals_of(q)}, dgamma, dbeta);
      kernels::norm_max_pool_grad(stream, element, shape, of_x, winners, dx);
    };
  };
  return plan;
}

}  // namespace assay::cuda
