// Operands are brought into panels, a task for each, and multiplied by rectangles of panels, one
// for each thread: every element of y is one sum, in the order of its steps. A convolution is such
// a product of windows, which stand in the image, and filters.
#include "sdk/backend/cpu/ops/panel_product.h"

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// Panels of an operand, one after the other: of rows of a, which is the left one, or columns of b.
struct Panels {
  const PanelProductKernels* kernels;
  bool right, along;
  int64_t lines, steps, pitch;  // as in PanelOperand
  int64_t count, bytes_of_one;

  Panels(const PanelProductKernels* k, bool is_right, bool steps_along, int64_t n, int64_t k_steps,
         int64_t elements)
      : kernels(k),
        right(is_right),
        along(steps_along),
        lines(n),
        steps(k_steps),
        pitch(elements),
        count(quotient_up(lines, right ? k->columns : k->rows)),
        bytes_of_one(k->panel_bytes(steps)) {}

  // Of the left operand.
  int64_t standing() const { return along ? kernels->standing(lines, steps) : 0; }
  size_t bytes() const { return static_cast<size_t>(count * bytes_of_one); }
  void* at_panel(void* all, int64_t panel) const { return at(all, panel * bytes_of_one, 1); }
  void fill(const void* from, int64_t panel, void* to) const {
    kernels->fill_panel({from, lines, steps, pitch, along}, right, panel, to);
  }
  std::string form() const {
    return cat("panels ", kernels->columns, " ", lines, "x", steps, " ", pitch, along);
  }
};

enum class Pays { kNever, kPrepared, kAlways };

// Of bf16 in tiles, measured on two threads of a Sapphire Rapids (decisions/0027). Long sums of
// many elements spare more than it takes to bring operands into panels. Few rows are soon
// multiplied by weights in panels, which pass by but once; with more of them oneDNN is as fast, and
// faster with an activation, for which products wait here. Still longer sums would have to be cut.
Pays pays_in_tiles(const Matmul& p, const Planner& c) {
  constexpr int64_t kFewest = 32, kMany = 512, kFewestBlocks = 16;
  constexpr int64_t kManySteps = 1024, kMostSteps = 8192;
  const int64_t steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const int64_t rows = c.y().dims[0], columns = c.y().dims[1];
  const int64_t blocks =
      quotient_up(rows, tile_products()->rows) * quotient_up(columns, tile_products()->columns);
  if (std::min({rows, columns, steps}) < kFewest || steps > kMostSteps || blocks < kFewestBlocks)
    return Pays::kNever;
  const bool is_large = std::min(rows, columns) >= kMany && steps >= kManySteps;
  if (is_large && p.activation == ActivationKind::kNone) return Pays::kAlways;
  return rows <= kMany ? Pays::kPrepared : Pays::kNever;
}

// Of f32, where oneDNN has no layout of its own for weights, and brings them into another form at
// every call (decisions/0030). Few rows do not make up for doing so here, and panels of a whole
// vocabulary take much memory.
Pays pays_in_f32(const Matmul& p, const Planner& c) {
  constexpr int64_t kManyRows = 384, kFewest = 64, kMostWeights = 8 << 20;
  const int64_t rows = c.y().dims[0], columns = c.y().dims[1];
  const int64_t steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const bool is_large = std::min(columns, steps) >= kFewest;
  if (p.transpose_a || c.y().dtype != DType::kF32 || !is_large) return Pays::kNever;
  return rows >= kManyRows && columns * steps <= kMostWeights ? Pays::kAlways : Pays::kPrepared;
}

// Rectangles of panels: few rows are shared out by columns, so that each thread reads its own part
// of the weights once.
struct Rectangles {
  int64_t rows, columns, down, across;  // panels of the left and right operand, rectangles
  Rectangles(const Panels& left, const Panels& right, int64_t threads, bool by_rows)
      : rows(left.count),
        columns(right.count),
        down(by_rows ? std::min(threads, rows) : 0),
        across(std::min(by_rows ? threads / down : threads, columns)) {
    if (!by_rows) down = std::min(threads / across, rows);
  }
  int64_t count() const { return down * across; }
  void run(const PanelProduct& product, const PanelProductKernels& k, int64_t i) const {
    const int64_t row = i / across, column = i % across;
    k.run(product, rows * row / down, rows * (row + 1) / down, columns * column / across,
          columns * (column + 1) / across);
  }
};

// Inputs: the left operand, the right one, and those of bias and residual, if there are any. The
// addresses of `product` come with a binding.
struct Inputs {
  int bias = -1, residual = -1;
};
NodePlan plan_in_panels(std::string_view name, const Panels& left, const Panels& right,
                        const PanelProduct& product, const Inputs& inputs,
                        const Rectangles& rectangles, int threads) {
  const int64_t standing = left.standing(), filled = left.count - standing;
  const auto left_bytes = static_cast<size_t>(filled * left.bytes_of_one);
  NodePlan plan;
  plan.kernel = name;
  plan.scratch_bytes = left_bytes + right.bytes();
  plan.bind = [=](const Binding& b) -> Launch {
    auto* const left_panels = static_cast<std::byte*>(b.scratch);
    const bool prepared = b.prepared != nullptr;
    void* const right_panels = prepared ? b.prepared : left_panels + left_bytes;
    PanelProduct bound = product;
    bound.left = b.x<void>(0);
    bound.left_pitch = standing > 0 ? left.pitch : 0;
    bound.left_panels = left_panels;
    bound.right_panels = right_panels;
    bound.bias = inputs.bias < 0 ? nullptr : b.x<float>(inputs.bias);
    bound.residual = inputs.residual < 0 ? nullptr : b.x<void>(inputs.residual);
    bound.y = b.y<void>();
    return [=, a = b.x<void>(0), w = b.x<void>(1)](Queue&) {
      parallel_for(threads, filled + (prepared ? 0 : right.count), [&](int64_t i) {
        i < filled ? left.fill(a, standing + i, left_panels + i * left.bytes_of_one)
                   : right.fill(w, i - filled, right.at_panel(right_panels, i - filled));
      });
      parallel_for(threads, rectangles.count(),
                   [&](int64_t i) { rectangles.run(bound, *left.kernels, i); });
    };
  };
  plan.prepare.input = 1;
  plan.prepare.bytes = right.bytes();
  plan.prepare.scratch_bytes = left_bytes;
  plan.prepare.form = right.form();
  plan.prepare.bind = [=](const Binding& b) -> Launch {
    return [=, w = b.x<void>(1), to = b.prepared](Queue&) {
      parallel_for(threads, right.count,
                   [&](int64_t i) { right.fill(w, i, right.at_panel(to, i)); });
    };
  };
  return plan;
}

NodePlan plan_in_panels(const PanelProductKernels* k, const Matmul& p, const Planner& c,
                        std::string_view name) {
  const int64_t steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const Panels left(k, false, !p.transpose_a, c.y().dims[0], steps, c.x_pitch(0));
  const Panels right(k, true, p.transpose_b, c.y().dims[1], steps, c.x_pitch(1));
  PanelProduct product{};
  product.rows = left.lines, product.columns = right.lines, product.steps = steps;
  product.activation = p.activation;
  product.element = static_cast<Element>(element_of(c.y()));
  const bool by_rows = c.x(0).dtype == DType::kF32 && left.lines > right.lines;
  return plan_in_panels(name, left, right, product, {.bias = p.has_bias ? 2 : -1},
                        {left, right, c.threads(), by_rows}, c.threads());
}

}  // namespace

NodePlan plan_in_panels_or(const Matmul& p, const Planner& c,
                           const std::function<NodePlan()>& other) {
  const bool in_tiles = c.x(0).dtype == DType::kBf16;
  if (in_tiles && tile_products() == nullptr) return other();
  const Pays when = in_tiles ? pays_in_tiles(p, c) : pays_in_f32(p, c);
  if (when == Pays::kNever) return other();
  NodePlan in_panels = in_tiles
                           ? plan_in_panels(tile_products(), p, c, "own:product:amx")
                           : plan_in_panels(kernels().product, p, c, own_plan("product").kernel);
  if (in_tiles && when == Pays::kAlways) return in_panels;
  NodePlan plan = other();
  if (!in_tiles && !plan.kernel.starts_with("dnnl:gemm")) return plan;
  if (when == Pays::kAlways) {
    in_panels.prepare = {};  // many rows: 3 % of the time, and weights would be kept twice
    return in_panels;
  }
  plan.kernel += " or " + in_panels.kernel;
  plan.prepare = in_panels.prepare;
  plan.bind = [each_time = plan.bind, prepared = in_panels.bind](const Binding& b) {
    return b.prepared != nullptr ? prepared(b) : each_time(b);
  };
  return plan;
}

// Where oneDNN has but its kernel for AVX2, which many channels and strides slow down, while few
// make short sums of each pixel here (decisions/0031). For windows of one pixel it has another, as
// fast as this.
bool prefers_panels(const Conv2d& p, const Planner& c) {
  constexpr int64_t kFewestFilters = 16, kManyChannels = 64, kManyOfStride = 32;
  const ConvGeometry& g = p.geometry;
  const Dims& w = c.x(1).dims;
  const int64_t taps = w[1] * w[2];
  const bool fits = taps > 1 && taps <= kMostWindowTaps && w[3] <= kMostWindowChannels;
  const bool has_stride = std::max(g.stride[0], g.stride[1]) > 1;
  return std::string_view(kernels().isa) == "avx2" && c.x(0).dtype == DType::kF32 &&
         g.groups == 1 && fits && w[0] >= kFewestFilters &&
         w[3] >= (has_stride ? kManyOfStride : kManyChannels);
}

// x [N,H,W,C], w [K,R,S,C], y and residual [N,P,Q,K], bias [K].
NodePlan plan_in_panels(const Conv2d& p, const Planner& c) {
  const PanelProductKernels* k = kernels().product;
  const ConvGeometry& g = p.geometry;
  const Dims &x = c.x(0).dims, &w = c.x(1).dims, &y = c.y().dims;
  const int64_t steps = w[1] * w[2] * w[3];
  const Panels left(k, false, true, y[0] * y[1] * y[2], steps, x[3]);
  const Panels right(k, true, true, w[0], steps, steps);
  PanelProduct product{};
  product.windows = {.h = x[1],
                     .w = x[2],
                     .p = y[1],
                     .q = y[2],
                     .r = w[1],
                     .s = w[2],
                     .stride = {g.stride[0], g.stride[1]},
                     .dilation = {g.dilation[0], g.dilation[1]},
                     .pad = {g.pad_begin[0], g.pad_begin[1]}};
  product.rows = left.lines, product.columns = right.lines, product.steps = steps;
  product.activation = p.activation;
  const Inputs inputs{.bias = p.has_bias ? 2 : -1,
                      .residual = p.has_residual ? p.residual_input() : -1};
  const bool by_rows = x.numel() > w.numel();
  NodePlan plan = plan_in_panels(own_plan("product").kernel, left, right, product, inputs,
                                 {left, right, c.threads(), by_rows}, c.threads());
  if (p.has_residual) plan.in_place = {{0, p.residual_input()}};
  return plan;
}

}  // namespace assay::cpu
