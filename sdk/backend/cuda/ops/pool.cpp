// MaxPool, AvgPool and their gradients.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

kernels::PoolShape shape_of(const PoolGeometry& g, const Dims& x, const Dims& y) {
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

double window_elems(const PoolGeometry& g) {
  return static_cast<double>(g.window[0] * g.window[1]);
}

}  // namespace

NodePlan plan(const MaxPool& p, const Planner& c) {
  NodePlan plan = own_plan(c, "max_window", window_elems(p.geometry) * count_of(c.y()));
  plan.bind = [s = shape_of(p.geometry, c.x(0).dims, c.y().dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()] {
      kernels::max_pool(current_stream(), element, s, x, y);
    };
  };
  return plan;
}

NodePlan plan(const AvgPool& p, const Planner& c) {
  NodePlan plan = own_plan(c, "avg_window", window_elems(p.geometry) * count_of(c.y()));
  plan.bind = [s = shape_of(p.geometry, c.x(0).dims, c.y().dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()] {
      kernels::avg_pool(current_stream(), element, s, x, y);
    };
  };
  return plan;
}

NodePlan plan(const MaxPoolGrad& p, const Planner& c) {
  const kernels::PoolShape s = shape_of(p.geometry, c.x(0).dims, c.x(1).dims);
  require(s.window[0] * s.window[1] <= 65536, Code::kUnsupported, "max_pool_grad at ", c.scope(),
          ": windows of more than 65536 elements have no kernel, got ", s.window[0], "x",
          s.window[1]);
  NodePlan plan = own_plan(c, "max_gather", 2 * window_elems(p.geometry) * count_of(c.x(1)));
  plan.bytes -= static_cast<double>(c.x(1).bytes());  // y is not read
  plan.scratch_bytes = static_cast<size_t>(c.x(1).numel()) * sizeof(uint16_t);
  plan.in_place = {{0, 0}};  // x is not read any more when dx is written
  plan.bind = [s, element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), dy = b.x<void>(2), dx = b.y<void>(),
            which = static_cast<uint16_t*>(b.scratch)] {
      kernels::max_pool_grad(current_stream(), element, s, x, dy, which, dx);
    };
  };
  return plan;
}

NodePlan plan(const AvgPoolGrad& p, const Planner& c) {
  NodePlan plan = own_plan(c, "avg_gather", 2 * window_elems(p.geometry) * count_of(c.x(0)));
  plan.bind = [s = shape_of(p.geometry, p.x_dims, c.x(0).dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()] {
      kernels::avg_pool_grad(current_stream(), element, s, dy, dx);
    };
  };
  return plan;
}

}  // namespace assay::cuda
