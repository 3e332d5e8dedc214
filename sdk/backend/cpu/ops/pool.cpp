// MaxPool, AvgPool and their gradients: partitions over rows of the image.
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

PoolShape shape_of(const PoolGeometry& g, const Dims& x, const Dims& y) {
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

// A row of output costs what it reads.
Chunks output_rows(const PoolShape& s) {
  return chunks_of(s.n * s.p, s.q * s.c * s.window[0] * s.window[1]);
}
Chunks input_rows(const PoolShape& s) { return chunks_of(s.n * s.h, s.w * s.c); }

bool tiles_2x2(const PoolGeometry& g) {
  constexpr std::array<int64_t, 2> kTwo{2, 2}, kZero{0, 0};
  return g.window == kTwo && g.stride == kTwo && g.pad_begin == kZero && g.pad_end == kZero;
}

template <class Run>
NodePlan pool_forward(const Planner& c, std::string_view name, const PoolGeometry& g, Run run) {
  const PoolShape s = shape_of(g, c.x(0).dims, c.y().dims);
  NodePlan plan = own_plan(c, name, window_elems(g) * static_cast<double>(c.y().numel()));
  plan.bind = [=, rows = output_rows(s), threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()] {
      parallel_for(threads, rows.count(),
                   [&](int64_t i) { run(s, x, y, rows.begin(i), rows.end(i)); });
    };
  };
  return plan;
}

NodePlan max_grad_2x2(const Planner& c, const PoolShape& s) {
  NodePlan plan = own_plan(c, "max_2x2", 3.0 * static_cast<double>(c.x(1).numel()));
  plan.bytes -= static_cast<double>(c.x(1).bytes());  // y is not read
  plan.in_place = {{0, 0}};
  const auto run = kernels().pool->max_grad_2x2[element_of(c.y())];
  plan.bind = [=, rows = output_rows(s), threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), dy = b.x<void>(2), dx = b.y<void>()] {
      parallel_for(threads, rows.count(),
                   [&](int64_t i) { run(s, x, dy, dx, rows.begin(i), rows.end(i)); });
    };
  };
  return plan;
}

}  // namespace

NodePlan plan(const MaxPool& p, const Planner& c) {
  return pool_forward(c, tiles_2x2(p.geometry) ? "max_2x2" : "max_window", p.geometry,
                      kernels().pool->max[element_of(c.y())]);
}

NodePlan plan(const AvgPool& p, const Planner& c) {
  return pool_forward(c, "avg_window", p.geometry, kernels().pool->avg[element_of(c.y())]);
}

NodePlan plan(const MaxPoolGrad& p, const Planner& c) {
  const PoolShape s = shape_of(p.geometry, c.x(0).dims, c.x(1).dims);
  if (tiles_2x2(p.geometry)) return max_grad_2x2(c, s);
  require(s.window[0] * s.window[1] <= 65536, Code::kUnsupported, "max_pool_grad at ", c.scope(),
          ": windows of more than 65536 elements have no kernel, got ", s.window[0], "x",
          s.window[1]);
  NodePlan plan =
      own_plan(c, "max_gather", 2 * window_elems(p.geometry) * static_cast<double>(c.x(1).numel()));
  plan.bytes -= static_cast<double>(c.x(1).bytes());
  plan.scratch_bytes = static_cast<size_t>(c.x(1).numel()) * sizeof(uint16_t);
  plan.in_place = {{0, 0}};  // x is not read any more when dx is written
  const auto find = kernels().pool->max_position[element_of(c.y())];
  const auto gather = kernels().pool->max_grad[element_of(c.y())];
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    const Chunks out = output_rows(s), in = input_rows(s);
    return [=, x = b.x<void>(0), dy = b.x<void>(2), dx = b.y<void>(),
            which = static_cast<uint16_t*>(b.scratch)] {
      parallel_for(threads, out.count(),
                   [&](int64_t i) { find(s, x, which, out.begin(i), out.end(i)); });
      parallel_for(threads, in.count(),
                   [&](int64_t i) { gather(s, which, dy, dx, in.begin(i), in.end(i)); });
    };
  };
  return plan;
}

NodePlan plan(const AvgPoolGrad& p, const Planner& c) {
  const PoolShape s = shape_of(p.geometry, p.x_dims, c.x(0).dims);
  NodePlan plan =
      own_plan(c, "avg_gather", 2 * window_elems(p.geometry) * static_cast<double>(c.x(0).numel()));
  const auto run = kernels().pool->avg_grad[element_of(c.y())];
  plan.bind = [=, rows = input_rows(s), threads = c.threads()](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()] {
      parallel_for(threads, rows.count(),
                   [&](int64_t i) { run(s, dy, dx, rows.begin(i), rows.end(i)); });
    };
  };
  return plan;
}

}  // namespace assay::cpu
