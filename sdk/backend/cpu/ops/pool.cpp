// MaxPool, AvgPool and their gradients: partitions over rows of the image.
#include "sdk/backend/cpu/ops/pointwise.h"
#include "sdk/graph/elementwise.h"

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

// A row of output costs what it reads.
Chunks output_rows(const PoolShape& s) {
  return chunks_of(s.n * s.p, s.q * s.c * s.window[0] * s.window[1]);
}
Chunks input_rows(const PoolShape& s) { return chunks_of(s.n * s.h, s.w * s.c); }

bool tiles_2x2(const PoolGeometry& g) {
  constexpr std::array<int64_t, 2> kTwo{2, 2}, kZero{0, 0};
  return g.window == kTwo && g.stride == kTwo && g.pad_begin == kZero && g.pad_end == kZero;
}

// x [N,H,W,C], y [N,P,Q,C].
template <class Run>
NodePlan pool_forward(const Planner& c, std::string_view name, const PoolGeometry& g, Run run) {
  const PoolShape s = shape_of(g, c.x(0).dims, c.y().dims);
  NodePlan plan = own_plan(name);
  plan.bind = [=, rows = output_rows(s), threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue&) {
      parallel_for(threads, rows.count(),
                   [&](int64_t i) { run(s, x, y, rows.begin(i), rows.end(i)); });
    };
  };
  return plan;
}

// What is joined to a maximum's gradient, on rows of dx that have just been written.
class Joined {
 public:
  Joined(const MaxPoolGrad& p, const Planner& c)
      : has_addend_(p.has_addend),
        kind_(p.activation),
        x_(c.x(0).dims),
        size_(dtype_size(c.y().dtype)),
        element_(element_of(c.y())),
        differentiate_(activation_grad_code(p.activation), {c.x(0), c.y()}, c.y(), c.scope()) {
    if (!has_addend_) return;
    const Layout& addend = c.x_layout(2);
    if (addend.border) box_ = *addend.border;
    pitch_ = c.x_pitch(2);
  }

  // x is read after dx is written.
  bool reads_input() const { return kind_ != ActivationKind::kNone; }
  const void* addend(const Binding& b) const { return has_addend_ ? b.x<void>(2) : nullptr; }

  // Rows [begin, end) of all images.
  void run(const void* x, const void* addend, void* dx, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * x_[2] * x_[3], n = x_[2] * x_[3];
      if (addend != nullptr) add_row(addend, row, at(dx, first, size_));
      const void* const operands[] = {x, dx};
      if (reads_input()) differentiate_.run_part(operands, dx, first, first + n);
    }
  }

 private:
  void add_row(const void* addend, int64_t row, void* dx) const {
    const int64_t image = row / x_[1] - box_.begin[0], line = row % x_[1] - box_.begin[1];
    if (image < 0 || image >= box_.dims[0] || line < 0 || line >= box_.dims[1]) return;
    const int64_t first = (image * box_.dims[1] + line) * box_.dims[2];
    for (int64_t column = 0; column < box_.dims[2]; ++column) {
      void* pixel = at(dx, (box_.begin[2] + column) * x_[3], size_);
      add(pixel, at(addend, (first + column) * pitch_, size_), pixel, element_, x_[3]);
    }
  }

  bool has_addend_;
  ActivationKind kind_;
  Dims x_;
  Layout::Border box_{{0, 0, 0, 0}, x_};  // of dx, to which the addend [box, C] belongs
  int64_t pitch_ = 0;                     // elements between its pixels
  size_t size_;
  Element element_;
  PointwiseFunction differentiate_;
};

// One pass: a window's rows of dx are written by the thread that has the window.
NodePlan max_grad_2x2(const MaxPoolGrad& p, const Planner& c, const PoolShape& s) {
  NodePlan plan = own_plan("max_2x2");
  const Joined joined(p, c);
  if (!joined.reads_input()) plan.in_place = {{0, 0}};
  const auto run = kernels().pool->max_grad_2x2[element_of(c.y())];
  // The first row of dx that output row `row` of all images writes.
  const auto first_row = [=](int64_t row) { return row / s.p * s.h + 2 * (row % s.p); };
  plan.bind = [=, rows = output_rows(s), threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), dy = b.x<void>(1), addend = joined.addend(b),
            dx = b.y<void>()](Queue&) {
      parallel_for(threads, rows.count(), [&](int64_t i) {
        run(s, x, dy, dx, rows.begin(i), rows.end(i));
        joined.run(x, addend, dx, first_row(rows.begin(i)), first_row(rows.end(i)));
      });
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

// x, dx, addend [N,H,W,C], dy [N,P,Q,C]; scratch [N,P,Q,C] u16. Where the maximum stands is looked
// up in x.
NodePlan plan(const MaxPoolGrad& p, const Planner& c) {
  const PoolShape s = shape_of(p.geometry, c.x(0).dims, c.x(1).dims);
  if (tiles_2x2(p.geometry)) return max_grad_2x2(p, c, s);
  require(s.window[0] * s.window[1] <= 65536, Code::kUnsupported, "max_pool_grad at ", c.scope(),
          ": windows of more than 65536 elements have no kernel, got ", s.window[0], "x",
          s.window[1]);
  NodePlan plan = own_plan("max_gather");
  const Joined joined(p, c);
  plan.scratch_bytes = static_cast<size_t>(c.x(1).numel()) * sizeof(uint16_t);
  if (!joined.reads_input()) plan.in_place = {{0, 0}};
  const auto find = kernels().pool->max_position[element_of(c.y())];
  const auto gather = kernels().pool->max_grad[element_of(c.y())];
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    const Chunks out = output_rows(s), in = input_rows(s);
    return [=, x = b.x<void>(0), dy = b.x<void>(1), addend = joined.addend(b), dx = b.y<void>(),
            which = static_cast<uint16_t*>(b.scratch)](Queue&) {
      parallel_for(threads, out.count(),
                   [&](int64_t i) { find(s, x, which, out.begin(i), out.end(i)); });
      parallel_for(threads, in.count(), [&](int64_t i) {
        gather(s, which, dy, dx, in.begin(i), in.end(i));
        joined.run(x, addend, dx, in.begin(i), in.end(i));
      });
    };
  };
  return plan;
}

// dy [N,P,Q,C], dx [N,H,W,C].
NodePlan plan(const AvgPoolGrad& p, const Planner& c) {
  const PoolShape s = shape_of(p.geometry, p.x_dims, c.x(0).dims);
  NodePlan plan = own_plan("avg_gather");
  const auto run = kernels().pool->avg_grad[element_of(c.y())];
  plan.bind = [=, rows = input_rows(s), threads = c.threads()](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()](Queue&) {
      parallel_for(threads, rows.count(),
                   [&](int64_t i) { run(s, dy, dx, rows.begin(i), rows.end(i)); });
    };
  };
  return plan;
}

NodePlan plan(const BatchNormMaxPool& p, const Planner& c) { fail_gpu_only(c, p.kName); }
NodePlan plan(const BatchNormMaxPoolGrad& p, const Planner& c) { fail_gpu_only(c, p.kName); }

}  // namespace assay::cpu
