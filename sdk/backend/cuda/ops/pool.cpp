// MaxPool, AvgPool and their gradients.
#include "sdk/backend/cuda/ops/pool.h"

namespace assay::cuda {

kernels::PoolShape pool_shape(const PoolGeometry& g, const Dims& x, const Dims& y) {
  require(x.numel() / x[0] <= INT32_MAX && y.numel() / y[0] <= INT32_MAX, Code::kUnsupported,
          "pooling: an image of ", x, " has more than 2^31 elements, the most on a GPU");
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .p = y[1],
          .q = y[2],
          .window = {g.window[0], g.window[1]},
          .stride = {g.stride[0], g.stride[1]},
          .pad = {g.pad_begin[0], g.pad_begin[1]}};
}

namespace {

// All but the address.
kernels::JoinedGradient joined_of(const MaxPoolGrad& p, const Planner& c) {
  kernels::JoinedGradient joined{};
  joined.kind = static_cast<int>(p.activation);
  if (!p.has_addend) return joined;
  const Layout& addend = c.x_layout(2);
  const Dims& dx = c.y().dims;
  const Layout::Border box = addend.border.value_or(Layout::Border{{0, 0, 0, 0}, dx});
  for (int axis = 0; axis < 3; ++axis)
    joined.begin[axis] = box.begin[axis], joined.size[axis] = box.dims[axis];
  joined.pitch = c.x_pitch(2);
  return joined;
}

}  // namespace

// x [N,H,W,C], y [N,P,Q,C].
NodePlan plan(const MaxPool& p, const Planner& c) {
  NodePlan plan = own_plan("max_window");
  plan.bind = [s = pool_shape(p.geometry, c.x(0).dims, c.y().dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::max_pool(stream_of(q), element, s, x, y);
    };
  };
  return plan;
}

// x [N,H,W,C], y [N,P,Q,C].
NodePlan plan(const AvgPool& p, const Planner& c) {
  NodePlan plan = own_plan("avg_window");
  plan.bind = [s = pool_shape(p.geometry, c.x(0).dims, c.y().dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::avg_pool(stream_of(q), element, s, x, y);
    };
  };
  return plan;
}

// x, dx, addend [N,H,W,C], dy [N,P,Q,C]; scratch [N,P,Q,C] u16. Where the maximum stands is looked
// up in x.
NodePlan plan(const MaxPoolGrad& p, const Planner& c) {
  const kernels::PoolShape s = pool_shape(p.geometry, c.x(0).dims, c.x(1).dims);
  require(s.window[0] * s.window[1] <= 65536, Code::kUnsupported, "max_pool_grad at ", c.scope(),
          ": windows of more than 65536 elements have no kernel, got ", s.window[0], "x",
          s.window[1]);
  const bool tiles = kernels::tiles_2x2(s);
  NodePlan plan = own_plan(tiles ? "max_2x2" : "max_gather");
  const kernels::JoinedGradient planned = joined_of(p, c);
  if (!tiles) plan.scratch_bytes = static_cast<size_t>(c.x(1).numel()) * sizeof(uint16_t);
  plan.in_place = {{0, 0}};  // an element of x is not read any more when it is written
  plan.bind = [=, has_addend = p.has_addend,
               element = element_of(c.y())](const Binding& b) -> Launch {
    kernels::JoinedGradient joined = planned;
    if (has_addend) joined.addend = b.x<void>(2);
    return [=, x = b.x<void>(0), dy = b.x<void>(1), dx = b.y<void>(),
            which = static_cast<uint16_t*>(b.scratch)](Queue& q) {
      kernels::max_pool_grad(stream_of(q), element, s, x, dy, joined, which, dx);
    };
  };
  return plan;
}

// dy [N,P,Q,C], dx [N,H,W,C].
NodePlan plan(const AvgPoolGrad& p, const Planner& c) {
  NodePlan plan = own_plan("avg_gather");
  plan.bind = [s = pool_shape(p.geometry, p.x_dims, c.x(0).dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()](Queue& q) {
      kernels::avg_pool_grad(stream_of(q), element, s, dy, dx);
    };
  };
  return plan;
}

}  // namespace assay::cuda
