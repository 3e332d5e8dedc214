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

// All but the address.
kernels::JoinedGradient joined_of(const MaxPoolGrad& p, const Planner& c) {
  kernels::JoinedGradient joined{};
  joined.kind = static_cast<int>(p.activation);
  if (!p.has_other) return joined;
  const Dims& other = c.x(3).dims;
  joined.rows = other[1], joined.columns = other[2], joined.pitch = other[3];
  joined.crop[0] = p.crop[0], joined.crop[1] = p.crop[1];
  return joined;
}

// Of a tensor of which only some channels are read, the rest.
double bytes_beside(const ValueType& x, int64_t channels) {
  return static_cast<double>(x.bytes()) *
         (1 - static_cast<double>(channels) / static_cast<double>(x.dims.back()));
}

double window_elems(const PoolGeometry& g) {
  return static_cast<double>(g.window[0] * g.window[1]);
}

}  // namespace

NodePlan plan(const MaxPool& p, const Planner& c) {
  NodePlan plan = own_plan(c, "max_window", window_elems(p.geometry) * count_of(c.y()));
  plan.bind = [s = shape_of(p.geometry, c.x(0).dims, c.y().dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::max_pool(stream_of(q), element, s, x, y);
    };
  };
  return plan;
}

NodePlan plan(const AvgPool& p, const Planner& c) {
  NodePlan plan = own_plan(c, "avg_window", window_elems(p.geometry) * count_of(c.y()));
  plan.bind = [s = shape_of(p.geometry, c.x(0).dims, c.y().dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::avg_pool(stream_of(q), element, s, x, y);
    };
  };
  return plan;
}

NodePlan plan(const MaxPoolGrad& p, const Planner& c) {
  const kernels::PoolShape s = shape_of(p.geometry, c.x(0).dims, c.x(1).dims);
  require(s.window[0] * s.window[1] <= 65536, Code::kUnsupported, "max_pool_grad at ", c.scope(),
          ": windows of more than 65536 elements have no kernel, got ", s.window[0], "x",
          s.window[1]);
  const bool tiles = kernels::tiles_2x2(s);
  NodePlan plan = own_plan(c, tiles ? "max_2x2" : "max_gather",
                           2 * window_elems(p.geometry) * count_of(c.x(1)));
  plan.bytes -= static_cast<double>(c.x(1).bytes());  // y is not read
  if (p.has_other) plan.bytes -= bytes_beside(c.x(3), c.x(0).dims[3]);
  if (!tiles) plan.scratch_bytes = static_cast<size_t>(c.x(1).numel()) * sizeof(uint16_t);
  plan.in_place = {{0, 0}};  // an element of x is not read any more when it is written
  plan.bind = [=, has_other = p.has_other, planned = joined_of(p, c),
               first = static_cast<size_t>(p.channel) * dtype_size(c.y().dtype),
               element = element_of(c.y())](const Binding& b) -> Launch {
    kernels::JoinedGradient joined = planned;
    if (has_other) joined.other = b.x<char>(3) + first;
    return [=, x = b.x<void>(0), dy = b.x<void>(2), dx = b.y<void>(),
            which = static_cast<uint16_t*>(b.scratch)](Queue& q) {
      kernels::max_pool_grad(stream_of(q), element, s, x, dy, joined, which, dx);
    };
  };
  return plan;
}

NodePlan plan(const AvgPoolGrad& p, const Planner& c) {
  NodePlan plan = own_plan(c, "avg_gather", 2 * window_elems(p.geometry) * count_of(c.x(0)));
  plan.bind = [s = shape_of(p.geometry, p.x_dims, c.x(0).dims),
               element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()](Queue& q) {
      kernels::avg_pool_grad(stream_of(q), element, s, dy, dx);
    };
  };
  return plan;
}

}  // namespace assay::cuda
