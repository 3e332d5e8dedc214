// Operands are brought into panels, a task for each, and multiplied by rectangles of panels, one
// for each thread: every element of y is one sum, in the order of its steps.
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

  Panels(const PanelProductKernels* k, const Matmul& p, const Planner& c, bool is_right)
      : kernels(k),
        right(is_right),
        along(right ? p.transpose_b : !p.transpose_a),
        lines(c.y().dims[right ? 1 : 0]),
        steps(c.x(0).dims[p.transpose_a ? 0 : 1]),
        pitch(c.x_pitch(right ? 1 : 0)),
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
// every call (decisions/0030).
Pays pays_in_f32(const Matmul& p, const Planner& c) {
  constexpr int64_t kMostRows = 256, kFewest = 64;
  const int64_t steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const bool is_large = std::min(c.y().dims[1], steps) >= kFewest;
  const bool can = !p.transpose_a && c.y().dtype == DType::kF32 && c.y().dims[0] <= kMostRows;
  return can && is_large ? Pays::kPrepared : Pays::kNever;
}

NodePlan plan_in_panels(const PanelProductKernels* k, const Matmul& p, const Planner& c,
                        std::string_view name) {
  const Panels left(k, p, c, false), right(k, p, c, true);
  const int64_t standing = left.standing(), filled = left.count - standing;
  const auto left_bytes = static_cast<size_t>(filled * left.bytes_of_one);
  NodePlan plan;
  plan.kernel = name;
  plan.scratch_bytes = left_bytes + right.bytes();
  plan.bind = [=, has_bias = p.has_bias, activation = p.activation, threads = c.threads(),
               element = static_cast<Element>(element_of(c.y()))](const Binding& b) -> Launch {
    auto* const left_panels = static_cast<std::byte*>(b.scratch);
    const bool prepared = b.prepared != nullptr;
    void* const right_panels = prepared ? b.prepared : left_panels + left_bytes;
    const PanelProduct product{.left = b.x<void>(0),
                               .left_pitch = standing > 0 ? left.pitch : 0,
                               .left_panels = left_panels,
                               .right_panels = right_panels,
                               .rows = left.lines,
                               .columns = right.lines,
                               .steps = left.steps,
                               .bias = has_bias ? b.x<float>(2) : nullptr,
                               .activation = activation,
                               .y = b.y<void>(),
                               .element = element};
    const int64_t across = std::min<int64_t>(threads, right.count);
    const int64_t down = std::min(threads / across, left.count);
    return [=, a = b.x<void>(0), w = b.x<void>(1)](Queue&) {
      parallel_for(threads, filled + (prepared ? 0 : right.count), [&](int64_t i) {
        i < filled ? left.fill(a, standing + i, left_panels + i * left.bytes_of_one)
                   : right.fill(w, i - filled, right.at_panel(right_panels, i - filled));
      });
      parallel_for(threads, down * across, [&](int64_t i) {
        const int64_t row = i / across, column = i % across;
        k->run(product, left.count * row / down, left.count * (row + 1) / down,
               right.count * column / across, right.count * (column + 1) / across);
      });
    };
  };
  plan.prepare.input = 1;
  plan.prepare.bytes = right.bytes();
  plan.prepare.scratch_bytes = left_bytes;
  plan.prepare.form = right.form();
  plan.prepare.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, w = b.x<void>(1), to = b.prepared](Queue&) {
      parallel_for(threads, right.count,
                   [&](int64_t i) { right.fill(w, i, right.at_panel(to, i)); });
    };
  };
  return plan;
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
  if (when == Pays::kAlways) return in_panels;
  NodePlan plan = other();
  const bool has_own_layout = plan.prepare.bytes > 0 || !plan.kernel.starts_with("dnnl:gemm");
  if (!in_tiles && has_own_layout) return plan;
  plan.kernel += " or " + in_panels.kernel;
  plan.prepare = in_panels.prepare;
  plan.bind = [each_time = plan.bind, prepared = in_panels.bind](const Binding& b) {
    return b.prepared != nullptr ? prepared(b) : each_time(b);
  };
  return plan;
}

}  // namespace assay::cpu
