// SoftTargetCrossEntropy, SoftDiceLoss and their gradients.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

kernels::PixelShape shape_of(const Planner& c) {
  const ValueType& x = c.x(0);
  const int64_t images = x.dims[0], classes = x.dims.back();
  require(images <= 65535, Code::kUnsupported, "losses over pixels at ", c.scope(),
          ": batches of more than 65535 images have no kernel, got ", images);
  return {images, x.numel() / images / classes, classes};
}

// Of the sum over all pixels: each image counts with the mean over its pixels.
double pixel_factor(const kernels::PixelShape& s, bool mean) {
  return 1.0 / static_cast<double>(s.pixels) / (mean ? static_cast<double>(s.images) : 1.0);
}

}  // namespace

// x, target [N,...,C], loss [].
NodePlan plan(const SoftTargetCrossEntropy& p, const Planner& c) {
  const kernels::PixelShape s = shape_of(c);
  NodePlan plan = own_plan("soft_target_xent");
  plan.scratch_bytes = kernels::pixel_sums_bytes(s);
  plan.bind = [s, factor = pixel_factor(s, p.mean),
               element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<float>(1), loss = b.y<float>(),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::soft_target_cross_entropy(stream_of(q), element, s, x, target, factor, partial,
                                         loss);
    };
  };
  return plan;
}

// x, target, dx [N,...,C], dloss [].
NodePlan plan(const SoftTargetCrossEntropyGrad& p, const Planner& c) {
  const kernels::PixelShape s = shape_of(c);
  NodePlan plan = own_plan("soft_target_xent");
  plan.bind = [s, factor = static_cast<float>(pixel_factor(s, p.mean)),
               element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<float>(1), dloss = b.x<float>(2),
            dx = b.y<void>()](Queue& q) {
      kernels::soft_target_cross_entropy_grad(stream_of(q), element, s, x, target, factor, dloss,
                                              dx);
    };
  };
  return plan;
}

// x, target [N,...,C], loss [], sums [N,3,C].
NodePlan plan(const SoftDiceLoss& p, const Planner& c) {
  const kernels::PixelShape s = shape_of(c);
  NodePlan plan = own_plan("soft_dice");
  plan.scratch_bytes = kernels::overlap_sums_bytes(s);
  const double factor = p.mean ? 1.0 / static_cast<double>(s.images) : 1.0;
  plan.bind = [=, epsilon = static_cast<double>(p.epsilon),
               element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<float>(1), loss = b.y<float>(0), sums = b.y<float>(1),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::soft_dice(stream_of(q), element, s, x, target, epsilon, factor, partial, loss, sums);
    };
  };
  return plan;
}

// x, target, dx [N,...,C], sums [N,3,C], dloss []; scratch [N][2][C].
NodePlan plan(const SoftDiceLossGrad& p, const Planner& c) {
  const kernels::PixelShape s = shape_of(c);
  NodePlan plan = own_plan("soft_dice");
  plan.scratch_bytes = static_cast<size_t>(s.images * 2 * s.classes) * sizeof(float);
  const double factor =
      1.0 / static_cast<double>(s.classes) / (p.mean ? static_cast<double>(s.images) : 1.0);
  plan.bind = [=, epsilon = static_cast<double>(p.epsilon),
               element = element_of(c.x(0))](const Binding& b) -> Launch {
    return
        [=, x = b.x<void>(0), target = b.x<float>(1), sums = b.x<float>(2), dloss = b.x<float>(3),
         dx = b.y<void>(), slopes = static_cast<float*>(b.scratch)](Queue& q) {
          kernels::soft_dice_grad(stream_of(q), element, s, x, target, sums, epsilon, factor, dloss,
                                  slopes, dx);
        };
  };
  return plan;
}

}  // namespace assay::cuda
