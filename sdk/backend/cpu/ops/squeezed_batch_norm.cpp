// SqueezedBatchNorm and its gradient: as BatchNorm, in tasks that lie within an image each, so that
// forward sums what it has just written, and backward has one gate for a whole task.
#include "sdk/backend/cpu/ops/batch_norm.h"

namespace assay::cpu {
namespace {

// The tasks of one image after those of the other.
struct ImageTasks {
  Lanes image;
  int64_t images;

  explicit ImageTasks(const Dims& x) : image(lanes_of({x[1], x[2], x[3]})), images(x[0]) {}

  int64_t of_image() const { return image.tasks.count(); }
  int64_t count() const { return images * of_image(); }
  int64_t image_of(int64_t i) const { return i / of_image(); }
  int64_t begin(int64_t i) const {
    return image_of(i) * image.n + image.tasks.begin(i % of_image());
  }
  int64_t length(int64_t i) const { return image.tasks.length(i % of_image()); }
  // For sums over all images: tasks of one unit each.
  Lanes all() const { return {images * image.n, image.channels, image.lanes, {count(), 1}, {}}; }
};

// Sums of y, with those that normalisation needs: partial [task][lanes], total [channels], of an
// image in f32 its means.
struct SqueezeScratch {
  ForwardScratch norm;
  double *partial, *total;
  float* means;
  size_t bytes;
};
SqueezeScratch squeeze_scratch(const ImageTasks& t, void* base) {
  SqueezeScratch s{.norm = forward_scratch(t.all(), base)};
  ScratchLayout scratch(base);
  scratch.take<char>(s.norm.bytes);
  s.partial = scratch.take<double>(partial_sums_elems(t.all(), 1));
  s.total = scratch.take<double>(static_cast<size_t>(t.image.channels));
  s.means = scratch.take<float>(static_cast<size_t>(t.image.channels));
  s.bytes = scratch.bytes();
  return s;
}

// gate and shift [image][lanes], of dproduct * gate + shift.
struct GateScratch {
  BackwardScratch norm;
  float *gate, *shift;
  size_t bytes;
};
GateScratch gate_scratch(const ImageTasks& t, void* base) {
  GateScratch s{.norm = backward_scratch(t.all(), base)};
  ScratchLayout scratch(base);
  scratch.take<char>(s.norm.bytes);
  for (float** table : {&s.gate, &s.shift})
    *table = scratch.take<float>(static_cast<size_t>(t.images * t.image.lanes));
  s.bytes = scratch.bytes();
  return s;
}

}  // namespace

// x, y [N,H,W,C]; squeezed [N,1,1,C]; gamma, beta, mean, var [C].
NodePlan plan(const SqueezedBatchNorm& p, const Planner& c) {
  const ImageTasks t(c.x(0).dims);
  NodePlan plan = own_plan("squeezed_norm");
  plan.scratch_bytes = squeeze_scratch(t, nullptr).bytes;
  const int element = element_of(c.x(0));
  const auto moments = kernels().channel->moments[element];
  const auto affine = kernels().channel->affine[element];
  const auto sums = kernels().channel->sums[element];
  const auto round = kernels().elementwise->cast[kElementF32][element];
  plan.bind = [=, size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    const SqueezeScratch s = squeeze_scratch(t, b.scratch);
    const ChannelInputs in{b.x<float>(1), b.x<float>(2), b.y<float>(2), b.y<float>(3)};
    return [=, x = b.x<void>(0), squeezed = b.y<void>(0), y = b.y<void>(1), mean = b.y<float>(2),
            var = b.y<float>(3)](Queue&) {
      const Lanes all = t.all();
      parallel_for(threads, t.count(), [&](int64_t i) {
        double* partial = s.norm.partial + 2 * i * all.lanes;
        moments(at(x, t.begin(i), size), t.length(i), all.lanes, partial, partial + all.lanes);
      });
      fold_partial_sums(all, 2, s.norm.partial, s.norm.total);
      finish_statistics(all, s.norm.total, mean, var);
      fill_affine(all, in, p.epsilon, s.norm.scale, s.norm.shift);
      parallel_for(threads, t.count(), [&](int64_t i) {
        void* part = at(y, t.begin(i), size);
        affine(at(x, t.begin(i), size), s.norm.scale, s.norm.shift, nullptr, ActivationKind::kSwish,
               part, t.length(i), all.lanes);
        sums(part, nullptr, t.length(i), all.lanes, s.partial + i * all.lanes);
      });
      for (int64_t image = 0; image < t.images; ++image) {
        fold_partial_sums(t.image, 1, s.partial + image * t.of_image() * all.lanes, s.total);
        for (int64_t k = 0; k < all.channels; ++k)
          s.means[k] = static_cast<float>(s.total[k] / static_cast<double>(t.image.rows()));
        round(s.means, at(squeezed, image * all.channels, size), all.channels);
      }
    };
  };
  return plan;
}

// x, dproduct, dx [N,H,W,C]; gate, dsqueezed [N,1,1,C]; gamma, beta, mean, var, dgamma, dbeta [C].
NodePlan plan(const SqueezedBatchNormGrad& p, const Planner& c) {
  const ImageTasks t(c.x(0).dims);
  NodePlan plan = own_plan("squeezed_norm_grad");
  plan.scratch_bytes = gate_scratch(t, nullptr).bytes;
  const int element = element_of(c.x(0));
  const auto sums = kernels().channel->grad_sums[element];
  const auto apply = kernels().channel->grad_apply[element];
  const auto widen = kernels().elementwise->cast[element][kElementF32];
  plan.bind = [=, size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    const GateScratch s = gate_scratch(t, b.scratch);
    const ChannelInputs in{b.x<float>(1), b.x<float>(2), b.x<float>(3), b.x<float>(4)};
    return [=, x = b.x<void>(0), dproduct = b.x<void>(5), gate = b.x<void>(6),
            dsqueezed = b.x<void>(7), dx = b.y<void>(0), dgamma = b.y<float>(1),
            dbeta = b.y<float>(2)](Queue&) {
      const Lanes all = t.all();
      const BackwardScratch& norm = s.norm;
      begin_gradient(all, norm, in, p.epsilon);
      const float share = 1.0f / static_cast<float>(t.image.rows());
      for (int64_t image = 0; image < t.images; ++image) {
        float *gates = s.gate + image * all.lanes, *shifts = s.shift + image * all.lanes;
        widen(at(gate, image * all.channels, size), gates, all.channels);
        widen(at(dsqueezed, image * all.channels, size), shifts, all.channels);
        for (int64_t k = 0; k < all.channels; ++k) shifts[k] *= share;
        repeat_over_lanes(all, gates);
        repeat_over_lanes(all, shifts);
      }
      const auto args_of = [&](int64_t i) -> NormGradArgs {
        const int64_t table = t.image_of(i) * all.lanes;
        return {.x = at(x, t.begin(i), size),
                .dy = at(dproduct, t.begin(i), size),
                .y = nullptr,
                .activation = ActivationKind::kSwish,
                .scale = norm.scale,
                .shift = norm.shift,
                .mean = norm.mean,
                .gate = s.gate + table,
                .gate_shift = s.shift + table};
      };
      parallel_for(threads, t.count(), [&](int64_t i) {
        double* g = norm.partial + 2 * i * all.lanes;
        sums(args_of(i), nullptr, t.length(i), all.lanes, g, g + all.lanes);
      });
      fold_partial_sums(all, 2, norm.partial, norm.total);
      finish_gradient(all, norm, in.var, p.epsilon, dgamma, dbeta);
      parallel_for(threads, t.count(), [&](int64_t i) {
        apply(args_of(i), norm.b, norm.c, at(dx, t.begin(i), size), t.length(i), all.lanes);
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
