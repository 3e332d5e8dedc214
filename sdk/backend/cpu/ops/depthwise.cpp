// A task sums over some rows of one image for one vector of channels; the sums of a channel's tasks
// are added in f64, in their order, which depends on sizes only.
#include "sdk/backend/cpu/ops/depthwise.h"

#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {
namespace {

// How the gradient of w [C,K,K,1] is cut: [images][parts of the rows][vectors of channels].
struct Cut {
  DepthwiseShape s;
  int64_t images, blocks;
  Chunks rows;  // of an image of results

  int64_t tasks() const { return images * rows.count() * blocks; }
  int64_t sums_of_task() const { return s.window * s.window * kernels().depthwise->lanes; }
};

Cut cut_of(const Conv2dGradWeight& p, const Dims& x, const Dims& dy) {
  // A row is summed in f32, and so are a part's rows; every part fills the ring anew.
  constexpr int64_t kRowsOfPart = 32;
  const int64_t lanes = kernels().depthwise->lanes;
  return {{x[1],
           x[2],
           x[3],
           dy[1],
           dy[2],
           p.w_dims[1],
           {p.geometry.stride[0], p.geometry.stride[1]},
           {p.geometry.pad_begin[0], p.geometry.pad_begin[1]}},
          x[0],
          quotient_up(x[3], lanes),
          {dy[1], kRowsOfPart}};
}

// partial [tasks][window][window][lanes], work of each thread.
struct Scratch {
  float *partial, *work;
  size_t bytes;
};
Scratch scratch_of(const Cut& cut, int64_t workers, void* base) {
  ScratchLayout scratch(base);
  Scratch s{};
  s.partial = scratch.take<float>(static_cast<size_t>(cut.tasks() * cut.sums_of_task()));
  s.work = scratch.take<float>(
      static_cast<size_t>(workers * kernels().depthwise->weight_gradient_work(cut.s)));
  s.bytes = scratch.bytes();
  return s;
}

void add_up(const Cut& cut, const float* partial, float* dw) {
  const int64_t lanes = kernels().depthwise->lanes, size = cut.sums_of_task();
  const int64_t taps = cut.s.window * cut.s.window;
  for (int64_t channel = 0; channel < cut.s.c; ++channel) {
    const float* first = partial + channel / lanes * size + channel % lanes;
    for (int64_t tap = 0; tap < taps; ++tap) {
      double sum = 0;
      for (int64_t part = 0; part < cut.images * cut.rows.count(); ++part)
        sum += static_cast<double>(first[part * cut.blocks * size + tap * lanes]);
      dw[channel * taps + tap] = static_cast<float>(sum);
    }
  }
}

}  // namespace

bool prefers_depthwise(const Conv2dGradWeight& p, const Planner& c) {
  constexpr std::array<int64_t, 2> kDense{1, 1};
  const Dims& w = p.w_dims;
  return c.x(0).dims[3] == p.geometry.groups && w[0] == p.geometry.groups && w[1] == w[2] &&
         (w[1] == 3 || w[1] == 5) && p.geometry.dilation == kDense && !p.has_bias &&
         p.dtype == DType::kF32 && c.y().numel() > 0;
}

// x [N,H,W,C], dy [N,P,Q,C] of one type, dw [C,K,K,1] f32.
NodePlan plan_depthwise(const Conv2dGradWeight& p, const Planner& c) {
  const Dims &x = c.x(0).dims, &dy = c.x(1).dims;
  const Cut cut = cut_of(p, x, dy);
  const int64_t workers = std::min<int64_t>(c.threads(), cut.tasks());
  NodePlan plan = own_plan("depthwise_grad_weight");
  plan.scratch_bytes = scratch_of(cut, workers, nullptr).bytes;
  plan.bind = [=, kernel = kernels().depthwise->weight_gradient[element_of(c.x(0))],
               lanes = kernels().depthwise->lanes, size = dtype_size(c.x(0).dtype),
               image = x.numel() / x[0], result = dy.numel() / x[0]](const Binding& b) -> Launch {
    const Scratch s = scratch_of(cut, workers, b.scratch);
    return [=, work_size = kernels().depthwise->weight_gradient_work(cut.s), x = b.x<void>(0),
            dy = b.x<void>(1), dw = b.y<float>()](Queue&) {
      parallel_for(static_cast<int>(workers), workers, [&](int64_t worker) {
        for (int64_t task = worker; task < cut.tasks(); task += workers) {
          const int64_t block = task % cut.blocks, part = task / cut.blocks;
          const int64_t n = part / cut.rows.count(), rows = part % cut.rows.count();
          kernel(cut.s, at(x, n * image, size), at(dy, n * result, size), block * lanes,
                 cut.rows.begin(rows), cut.rows.end(rows), s.work + worker * work_size,
                 s.partial + task * cut.sums_of_task());
        }
      });
      add_up(cut, s.partial, dw);
    };
  };
  return plan;
}

}  // namespace assay::cpu
