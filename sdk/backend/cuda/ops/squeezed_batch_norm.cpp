// SqueezedBatchNorm and its gradient: the launches of BatchNorm, in blocks of one image each.
#include "sdk/backend/cuda/ops/batch_norm.h"

namespace assay::cuda {
namespace {

kernels::ImageRows image_rows(const Planner& c) {
  const Dims& x = c.x(0).dims;
  require(x[0] <= kernels::kMostImages, Code::kUnsupported, "normalisation at ", c.scope(), ": ",
          x[0], " images are more than ", kernels::kMostImages);
  return {x[0], x[1] * x[2], x[3]};
}

size_t sums_bytes(Element element, const kernels::ImageRows& r) {
  return std::max(kernels::partial_sums_bytes(element, r.images * r.rows, r.channels, 2),
                  kernels::image_sums_bytes(element, r));
}

}  // namespace

// x, y [N,H,W,C]; squeezed [N,1,1,C]; gamma, beta, mean, var [C].
NodePlan plan(const SqueezedBatchNorm& p, const Planner& c) {
  const kernels::ImageRows r = image_rows(c);
  const Element element = element_of(c.x(0));
  NodePlan plan = own_plan("squeezed_norm");
  plan.scratch_bytes = norm_scratch(sums_bytes(element, r), r.channels, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const NormScratch s = norm_scratch(sums_bytes(element, r), r.channels, b.scratch);
    const kernels::NormInputs in{b.x<float>(1), b.x<float>(2), nullptr, nullptr, p.epsilon};
    return [=, x = b.x<void>(0), squeezed = b.y<void>(0), y = b.y<void>(1), mean = b.y<float>(2),
            var = b.y<float>(3)](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::norm_statistics(stream, element, x, r.images * r.rows, r.channels,
                               {s.partial, arrivals_of(q)}, in, mean, var, s.affine);
      kernels::squeezed_norm_apply(stream, element, x, s.affine, r, s.partial, y, squeezed);
    };
  };
  return plan;
}

// x, dproduct, dx [N,H,W,C]; gate, dsqueezed [N,1,1,C]; gamma, beta, mean, var, dgamma, dbeta [C].
NodePlan plan(const SqueezedBatchNormGrad& p, const Planner& c) {
  const kernels::ImageRows r = image_rows(c);
  const Element element = element_of(c.x(0));
  NodePlan plan = own_plan("squeezed_norm_grad");
  plan.scratch_bytes = norm_scratch(sums_bytes(element, r), r.channels, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const NormScratch s = norm_scratch(sums_bytes(element, r), r.channels, b.scratch);
    const kernels::NormInputs in = inputs_of(b, p.epsilon);
    const kernels::NormGradArgs args{.x = b.x<void>(0),
                                     .dy = b.x<void>(5),
                                     .activation = ActivationKind::kSwish,
                                     .affine = s.affine,
                                     .b = s.b,
                                     .c = s.c};
    const kernels::Gate gate{b.x<void>(6), b.x<void>(7)};
    return [=, dx = b.y<void>(0), dgamma = b.y<float>(1), dbeta = b.y<float>(2)](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::squeezed_norm_grad_sums(stream, element, args, gate, in, r,
                                       {s.partial, arrivals_of(q)}, dgamma, dbeta);
      kernels::squeezed_norm_grad_apply(stream, element, args, gate, r, dx);
    };
  };
  return plan;
}

}  // namespace assay::cuda
