// Cast, Activation, ActivationGrad, Add, Dropout: one pass over memory.
#include <algorithm>
#include <cmath>

#include "sdk/backend/cuda/ops/own_kernel.h"
#include "sdk/base/philox.h"

namespace assay::cuda {
namespace {

// Rough cost of one element, for the profile's GFLOP/s only.
double activation_flops(ActivationKind kind) { return kind == ActivationKind::kRelu ? 1 : 25; }

}  // namespace

NodePlan plan(const Cast&, const Planner& c) {
  NodePlan plan = own_plan(c, "cast", 0);
  if (dtype_size(c.x(0).dtype) == dtype_size(c.y().dtype)) plan.in_place = {{0, 0}};
  plan.bind = [from = element_of(c.x(0)), to = element_of(c.y()),
               n = c.y().numel()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::cast(stream_of(q), from, to, x, y, n);
    };
  };
  return plan;
}

NodePlan plan(const Activation& p, const Planner& c) {
  NodePlan plan = own_plan(c, "activation", activation_flops(p.kind) * count_of(c.y()));
  plan.in_place = {{0, 0}};
  plan.bind = [element = element_of(c.y()), kind = static_cast<int>(p.kind),
               n = c.y().numel()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::activation(stream_of(q), element, kind, x, y, n);
    };
  };
  return plan;
}

// saved, dy: rows of the last axis may have a pitch.
NodePlan plan(const ActivationGrad& p, const Planner& c) {
  NodePlan plan = own_plan(c, "activation_grad", activation_flops(p.kind) * count_of(c.y()));
  plan.in_place = {{0, 1}, {0, 0}};
  const bool flat = is_dense(c.x_layout(0), c.x(0).dims) && is_dense(c.x_layout(1), c.x(1).dims);
  const int64_t n = c.y().numel(), channels = c.y().dims.rank() == 0 ? 1 : c.y().dims.back();
  plan.bind = [=, element = element_of(c.y()), kind = static_cast<int>(p.kind),
               at = kernels::RowsAt{n / channels, channels, c.x_pitch(0), c.x_pitch(1)}](
                  const Binding& b) -> Launch {
    return [=, saved = b.x<void>(0), dy = b.x<void>(1), dx = b.y<void>()](Queue& q) {
      if (flat) {
        kernels::activation_grad(stream_of(q), element, kind, saved, dy, dx, n);
      } else {
        kernels::activation_grad_of_rows(stream_of(q), element, kind, saved, dy, dx, at);
      }
    };
  };
  return plan;
}

NodePlan plan(const Add&, const Planner& c) {
  NodePlan plan = own_plan(c, "add", count_of(c.y()));
  plan.in_place = {{0, 0}, {0, 1}};
  plan.bind = [element = element_of(c.y()), n = c.y().numel()](const Binding& bound) -> Launch {
    return [=, a = bound.x<void>(0), b = bound.x<void>(1), y = bound.y<void>()](Queue& q) {
      kernels::add(stream_of(q), element, a, b, y, n);
    };
  };
  return plan;
}

NodePlan plan(const Dropout& p, const Planner& c) {
  NodePlan plan = own_plan(c, "philox", count_of(c.y()));
  plan.in_place = {{0, 0}};
  const PhiloxKey key = philox_key(p.seed, p.stream);
  const double rate = p.rate;
  const kernels::DropoutArgs args{
      .key = {key[0], key[1]},
      .drop_below = static_cast<uint32_t>(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1)),
      .scale = static_cast<float>(1.0 / (1.0 - rate))};
  plan.bind = [=, element = element_of(c.y()), n = c.y().numel()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), step = b.x<int64_t>(1), y = b.y<void>()](Queue& q) {
      kernels::dropout(stream_of(q), element, args, step, x, y, n);
    };
  };
  return plan;
}

}  // namespace assay::cuda
