// SoftTargetCrossEntropy, SoftDiceLoss and their gradients: pixels are cut into ranges within an
// image.
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// [N, ..., C] as images of pixels, and the ranges of pixels that one thread takes at a time.
struct Pixels {
  int64_t images, pixels, classes;
  Chunks ranges;  // of one image
  size_t size;    // bytes of a logit

  int64_t tasks() const { return images * ranges.count(); }
  // Index of the first pixel of a task among those of all images.
  int64_t first(int64_t task) const {
    return task / ranges.count() * pixels + ranges.begin(task % ranges.count());
  }
  int64_t length(int64_t task) const { return ranges.length(task % ranges.count()); }
};

Pixels pixels_of(const ValueType& x) {
  const int64_t images = x.dims[0], classes = x.dims.back();
  const int64_t pixels = x.numel() / images / classes;
  // An exponential costs about as much as moving 8 elements.
  return {images, pixels, classes, chunks_of(pixels, 8 * classes), dtype_size(x.dtype)};
}

// Of the sum over all pixels: each image counts with the mean over its pixels.
double loss_factor(const Pixels& p, bool mean) {
  return 1.0 / static_cast<double>(p.pixels) / (mean ? static_cast<double>(p.images) : 1.0);
}

// An image whose target is zero everywhere is padding.
template <class T>
bool is_padding(const T* sums, int64_t classes) {
  const T* t_squares = sums + 2 * classes;
  return std::all_of(t_squares, t_squares + classes, [](T sum) { return sum == 0; });
}

// Mean over the classes of 1 - D, from [3, classes] sums.
double missed_overlap(const double* sums, int64_t classes, double epsilon) {
  if (is_padding(sums, classes)) return 0;
  double missed = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double squares = sums[classes + c] + sums[2 * classes + c];
    missed += 1 - (2 * sums[c] + epsilon) / (squares + epsilon);
  }
  return missed / static_cast<double>(classes);
}

// The gradient of -scale * D in p is slopes[c] * t + slopes[classes + c] * p at every pixel.
void overlap_slopes(const float* sums, int64_t classes, double epsilon, double scale,
                    float* slopes) {
  const bool padding = is_padding(sums, classes);
  for (int64_t c = 0; c < classes; ++c) {
    const double common = static_cast<double>(sums[c]);
    const double squares = static_cast<double>(sums[classes + c]) +
                           static_cast<double>(sums[2 * classes + c]) + epsilon;
    const double by_target = padding ? 0 : -2 * scale / squares;
    slopes[c] = static_cast<float>(by_target);
    slopes[classes + c] = static_cast<float>(-by_target * (2 * common + epsilon) / squares);
  }
}

}  // namespace

// x, target [N,...,C], loss []; scratch [tasks].
NodePlan plan(const SoftTargetCrossEntropy& op, const Planner& c) {
  const Pixels p = pixels_of(c.x(0));
  NodePlan plan = own_plan("soft_target_xent");
  plan.scratch_bytes = static_cast<size_t>(p.tasks()) * sizeof(double);
  const auto run = kernels().soft_target_loss->cross_entropy[element_of(c.x(0))];
  plan.bind = [=, factor = loss_factor(p, op.mean),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<float>(1), loss = b.y<float>(),
            partial = static_cast<double*>(b.scratch)](Queue&) {
      const double sum = sum_in_order(threads, p.tasks(), partial, [&](int64_t i) {
        const int64_t begin = p.first(i) * p.classes;
        return run(at(x, begin, p.size), target + begin, p.length(i), p.classes);
      });
      *loss = static_cast<float>(factor * sum);
    };
  };
  return plan;
}

// x, target, dx [N,...,C], dloss [].
NodePlan plan(const SoftTargetCrossEntropyGrad& op, const Planner& c) {
  const Pixels p = pixels_of(c.x(0));
  NodePlan plan = own_plan("soft_target_xent");
  const auto run = kernels().soft_target_loss->cross_entropy_grad[element_of(c.x(0))];
  plan.bind = [=, factor = static_cast<float>(loss_factor(p, op.mean)),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<float>(1), dloss = b.x<float>(2),
            dx = b.y<void>()](Queue&) {
      parallel_for(threads, p.tasks(), [&](int64_t i) {
        const int64_t begin = p.first(i) * p.classes;
        run(at(x, begin, p.size), target + begin, *dloss * factor, at(dx, begin, p.size),
            p.length(i), p.classes);
      });
    };
  };
  return plan;
}

// x, target [N,...,C], loss [], sums [N,3,C]; scratch [tasks][3][C]. Tasks of an image are added in
// their order.
NodePlan plan(const SoftDiceLoss& op, const Planner& c) {
  const Pixels p = pixels_of(c.x(0));
  NodePlan plan = own_plan("soft_dice");
  plan.scratch_bytes = static_cast<size_t>(p.tasks() * 3 * p.classes) * sizeof(double);
  const auto run = kernels().soft_target_loss->overlap[element_of(c.x(0))];
  plan.bind = [=, epsilon = static_cast<double>(op.epsilon), mean = op.mean,
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<float>(1), loss = b.y<float>(0), sums = b.y<float>(1),
            partial = static_cast<double*>(b.scratch)](Queue&) {
      const int64_t kinds = 3 * p.classes;
      parallel_for(threads, p.tasks(), [&](int64_t i) {
        const int64_t begin = p.first(i) * p.classes;
        run(at(x, begin, p.size), target + begin, p.length(i), p.classes, partial + i * kinds);
      });
      double total = 0;
      for (int64_t n = 0; n < p.images; ++n) {
        double* image = partial + n * p.ranges.count() * kinds;
        for (int64_t i = 1; i < p.ranges.count(); ++i) {
          for (int64_t k = 0; k < kinds; ++k) image[k] += image[i * kinds + k];
        }
        total += missed_overlap(image, p.classes, epsilon);
        for (int64_t k = 0; k < kinds; ++k) sums[n * kinds + k] = static_cast<float>(image[k]);
      }
      *loss = static_cast<float>(mean ? total / static_cast<double>(p.images) : total);
    };
  };
  return plan;
}

// x, target, dx [N,...,C], sums [N,3,C], dloss []; scratch [N][2][C].
NodePlan plan(const SoftDiceLossGrad& op, const Planner& c) {
  const Pixels p = pixels_of(c.x(0));
  NodePlan plan = own_plan("soft_dice");
  plan.scratch_bytes = static_cast<size_t>(p.images * 2 * p.classes) * sizeof(float);
  const auto run = kernels().soft_target_loss->overlap_grad[element_of(c.x(0))];
  plan.bind = [=, epsilon = static_cast<double>(op.epsilon), mean = op.mean,
               threads = c.threads()](const Binding& b) -> Launch {
    return
        [=, x = b.x<void>(0), target = b.x<float>(1), sums = b.x<float>(2), dloss = b.x<float>(3),
         dx = b.y<void>(), slopes = static_cast<float*>(b.scratch)](Queue&) {
          const double scale = static_cast<double>(*dloss) /
                               static_cast<double>(mean ? p.images * p.classes : p.classes);
          for (int64_t n = 0; n < p.images; ++n) {
            overlap_slopes(sums + n * 3 * p.classes, p.classes, epsilon, scale,
                           slopes + n * 2 * p.classes);
          }
          parallel_for(threads, p.tasks(), [&](int64_t i) {
            const int64_t begin = p.first(i) * p.classes;
            const float* slope = slopes + i / p.ranges.count() * 2 * p.classes;
            run(at(x, begin, p.size), target + begin, slope, slope + p.classes,
                at(dx, begin, p.size), p.length(i), p.classes);
          });
        };
  };
  return plan;
}

}  // namespace assay::cpu
