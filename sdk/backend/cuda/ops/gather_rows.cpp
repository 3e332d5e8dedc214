// GatherRows and its gradient.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// tables [rows,C], lists [P], y [P,C].
NodePlan plan(const GatherRows&, const Planner& c) {
  kernels::GatherArgs planned{};
  planned.places = c.y().dims[0];
  planned.size = c.y().dims[1];
  planned.tables = c.n_inputs() / 2;
  for (int i = 0; i < planned.tables; ++i) planned.rows[i] = c.x(i).dims[0];
  NodePlan plan = own_plan("gather_rows");
  plan.bind = [=, from = element_of(c.x(0)), to = element_of(c.y())](const Binding& b) -> Launch {
    kernels::GatherArgs args = planned;
    for (int i = 0; i < args.tables; ++i) {
      args.table[i] = b.x<void>(i);
      args.index[i] = b.x<int32_t>(args.tables + i);
    }
    return
        [=, y = b.y<void>()](Queue& q) { kernels::gather_rows(stream_of(q), from, to, args, y); };
  };
  return plan;
}

namespace {

struct Scratch {
  kernels::CollectScratch parts;
  size_t bytes;
};
Scratch scratch_of(int64_t rows, int64_t places, int64_t size, void* base) {
  ScratchLayout layout(base);
  const auto take = [&](int64_t n) { return layout.take<int32_t>(static_cast<size_t>(n)); };
  Scratch scratch{};
  for (kernels::Places& list : scratch.parts.places) list = {take(places), take(places)};
  scratch.parts.counts = take(kernels::digit_counts(places));
  scratch.parts.bounds = take(2 * rows);
  scratch.parts.partial =
      layout.take<float>(static_cast<size_t>(kernels::chunk_sums(places, size)));
  scratch.bytes = layout.bytes();
  return scratch;
}

}  // namespace

// list [P], dy [P,C], addend and y [rows,C].
NodePlan plan(const GatherRowsGrad& p, const Planner& c) {
  const int64_t places = c.x(1).dims[0], size = c.x(1).dims[1];
  NodePlan plan = own_plan("gather_rows");
  plan.scratch_bytes = scratch_of(p.rows, places, size, nullptr).bytes;
  plan.bind = [=, from = element_of(c.x(1)), to = element_of(c.y())](const Binding& b) -> Launch {
    const kernels::CollectArgs args{
        p.rows, places, size, b.x<int32_t>(0), b.x<void>(1), p.has_addend ? b.x<void>(2) : nullptr};
    return [=, scratch = scratch_of(p.rows, places, size, b.scratch).parts, y = b.y<void>()](
               Queue& q) { kernels::collect_rows(stream_of(q), from, to, args, scratch, y); };
  };
  return plan;
}

}  // namespace assay::cuda
