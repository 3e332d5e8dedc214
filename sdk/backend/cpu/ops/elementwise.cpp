// Cast, Activation, ActivationGrad, Add: one pass over memory.
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// Rough cost of one element, for the profile's GFLOP/s only.
double activation_flops(ActivationKind kind) { return kind == ActivationKind::kRelu ? 1 : 25; }

}  // namespace

NodePlan plan(const Cast&, const Planner& c) {
  NodePlan plan = own_plan(c, "cast", 0);
  const auto run = kernels().elementwise->cast[element_of(c.x(0))][element_of(c.y())];
  const size_t from = dtype_size(c.x(0).dtype), to = dtype_size(c.y().dtype);
  if (from == to) plan.in_place = {{0, 0}};
  plan.bind = [=, chunks = chunks_of(c.y().numel()),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t i) {
        run(at(x, chunks.begin(i), from), at(y, chunks.begin(i), to), chunks.length(i));
      });
    };
  };
  return plan;
}

NodePlan plan(const Activation& p, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan(c, "activation", activation_flops(p.kind) * static_cast<double>(n));
  plan.in_place = {{0, 0}};
  const auto run = kernels().elementwise->activation[element_of(c.y())];
  plan.bind = [=, kind = static_cast<int>(p.kind), size = dtype_size(c.y().dtype),
               chunks = chunks_of(n), threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t i) {
        const int64_t begin = chunks.begin(i);
        run(kind, at(x, begin, size), at(y, begin, size), chunks.length(i));
      });
    };
  };
  return plan;
}

// saved, dy: rows of the last axis may have a pitch.
NodePlan plan(const ActivationGrad& p, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan(c, "activation_grad", activation_flops(p.kind) * static_cast<double>(n));
  plan.in_place = {{0, 1}, {0, 0}};
  const auto run = kernels().elementwise->activation_grad[element_of(c.y())];
  const Pass<3> pass(c.y().dims, {&c.x_layout(0), &c.x_layout(1), &c.y_layout()});
  plan.bind = [=, kind = static_cast<int>(p.kind), size = dtype_size(c.y().dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, saved = b.x<void>(0), dy = b.x<void>(1), dx = b.y<void>()](Queue&) {
      pass.run(threads, [&](const auto& first, int64_t length) {
        run(kind, at(saved, first[0], size), at(dy, first[1], size), at(dx, first[2], size),
            length);
      });
    };
  };
  return plan;
}

NodePlan plan(const Add&, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan(c, "add", static_cast<double>(n));
  plan.in_place = {{0, 0}, {0, 1}};
  const auto run = kernels().elementwise->add[element_of(c.y())];
  plan.bind = [=, size = dtype_size(c.y().dtype), chunks = chunks_of(n),
               threads = c.threads()](const Binding& bound) -> Launch {
    return [=, a = bound.x<void>(0), b = bound.x<void>(1), y = bound.y<void>()](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t i) {
        const int64_t begin = chunks.begin(i);
        run(at(a, begin, size), at(b, begin, size), at(y, begin, size), chunks.length(i));
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
