// Operands are brought into panels, a task for each, and multiplied by rectangles of panels, one
// for each thread: every element of y is one sum, in the order of its steps.
#include "sdk/backend/cpu/ops/tile_product.h"

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// Panels of an operand, one after the other: of rows of a, which is the left one, or columns of b.
struct Panels {
  bool right, along;
  int64_t lines, steps, pitch;  // as in TileOperand
  int64_t count, bytes_of_one;

  Panels(const Matmul& p, const Planner& c, bool is_right)
      : right(is_right),
        along(right ? p.transpose_b : !p.transpose_a),
        lines(c.y().dims[right ? 1 : 0]),
        steps(c.x(0).dims[p.transpose_a ? 0 : 1]),
        pitch(c.x_pitch(right ? 1 : 0)),
        count(quotient_up(lines, tile_products()->lines)),
        bytes_of_one(tile_products()->panel_bytes(steps)) {}

  size_t bytes() const { return static_cast<size_t>(count * bytes_of_one); }
  void* at_panel(void* all, int64_t panel) const { return at(all, panel * bytes_of_one, 1); }
  void fill(const void* from, int64_t panel, void* to) const {
    tile_products()->fill_panel({from, lines, steps, pitch, along}, right, panel, to);
  }
  std::string form() const { return cat("tiles ", lines, "x", steps, " ", pitch, along); }
};

// Measured on two threads of a Sapphire Rapids (decisions/0027). Long sums of many elements spare
// more than it takes to bring operands into panels. Few rows are soon multiplied by weights in
// panels, which pass by but once; with more of them oneDNN is as fast, and faster with an
// activation, for which products wait here. Still longer sums would have to be cut.
enum class Pays { kNever, kPrepared, kAlways };
Pays pays(const Matmul& p, const Planner& c) {
  constexpr int64_t kFewest = 32, kMany = 512, kFewestBlocks = 16;
  constexpr int64_t kManySteps = 1024, kMostSteps = 8192;
  const int64_t panel = tile_products()->lines, steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const int64_t rows = c.y().dims[0], columns = c.y().dims[1];
  const int64_t blocks = quotient_up(rows, panel) * quotient_up(columns, panel);
  if (std::min({rows, columns, steps}) < kFewest || steps > kMostSteps || blocks < kFewestBlocks)
    return Pays::kNever;
  const bool is_large = std::min(rows, columns) >= kMany && steps >= kManySteps;
  if (is_large && p.activation == ActivationKind::kNone) return Pays::kAlways;
  return rows <= kMany ? Pays::kPrepared : Pays::kNever;
}

NodePlan plan_in_tiles(const Matmul& p, const Planner& c) {
  const Panels left(p, c, false), right(p, c, true);
  // Rows are read where they stand, but for those of a last panel that is not whole.
  const int64_t lines = tile_products()->lines;
  const bool stands = left.along && left.steps % lines == 0;
  const int64_t first_filled = stands ? left.lines / lines : 0, filled = left.count - first_filled;
  const auto left_bytes = static_cast<size_t>(filled * left.bytes_of_one);
  NodePlan plan;
  plan.kernel = "own:product:amx";
  plan.scratch_bytes = left_bytes + right.bytes();
  plan.bind = [=, has_bias = p.has_bias, activation = p.activation, threads = c.threads(),
               element = static_cast<Element>(element_of(c.y()))](const Binding& b) -> Launch {
    auto* const left_panels = static_cast<std::byte*>(b.scratch);
    const bool prepared = b.prepared != nullptr;
    void* const right_panels = prepared ? b.prepared : left_panels + left_bytes;
    const TileProduct product{.left = b.x<void>(0),
                              .left_pitch = stands ? left.pitch : 0,
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
        i < filled ? left.fill(a, first_filled + i, left_panels + i * left.bytes_of_one)
                   : right.fill(w, i - filled, right.at_panel(right_panels, i - filled));
      });
      parallel_for(threads, down * across, [&](int64_t i) {
        const int64_t row = i / across, column = i % across;
        tile_products()->run(product, left.count * row / down, left.count * (row + 1) / down,
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

NodePlan plan_in_tiles_or(const Matmul& p, const Planner& c,
                          const std::function<NodePlan()>& other) {
  if (tile_products() == nullptr || c.x(0).dtype != DType::kBf16) return other();
  const Pays when = pays(p, c);
  if (when == Pays::kNever) return other();
  NodePlan in_tiles = plan_in_tiles(p, c);
  if (when == Pays::kAlways) return in_tiles;
  NodePlan plan = other();
  plan.kernel += " or " + in_tiles.kernel;
  plan.prepare = in_tiles.prepare;
  plan.bind = [each_time = plan.bind, prepared = in_tiles.bind](const Binding& b) {
    return b.prepared != nullptr ? prepared(b) : each_time(b);
  };
  return plan;
}

}  // namespace assay::cpu
