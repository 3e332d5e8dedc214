#include "sdk/backend/cpu/ops/panel_product.h"

#include "sdk/backend/cpu/ops/panels.h"

namespace assay::cpu {
namespace {

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

// As f32, where oneDNN has no layout of its own for weights, and brings them into another form at
// every call (decisions/0030). Few rows do not make up for doing so here, and panels of a whole
// vocabulary take much memory.
Pays pays_in_f32(const Matmul& p, const Planner& c) {
  constexpr int64_t kManyRows = 384, kFewest = 64, kMostWeights = 8 << 20;
  const int64_t rows = c.y().dims[0], columns = c.y().dims[1];
  const int64_t steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const bool is_large = std::min(columns, steps) >= kFewest;
  if (p.transpose_a || !is_large) return Pays::kNever;
  return rows >= kManyRows && columns * steps <= kMostWeights ? Pays::kAlways : Pays::kPrepared;
}

// Few rows are shared out by columns, so that each thread reads its own part of the weights once.
NodePlan plan_in_panels(const PanelProductKernels* k, const Matmul& p, const Planner& c,
                        std::string_view kernel) {
  const int64_t rows = c.y().dims[0], columns = c.y().dims[1];
  const int64_t steps = c.x(0).dims[p.transpose_a ? 0 : 1];
  const Panels left(k, false,
                    {nullptr, rows, steps, c.x_pitch(0), !p.transpose_a, element_of(c.x(0))});
  const Panels right(k, true,
                     {nullptr, columns, steps, c.x_pitch(1), p.transpose_b, element_of(c.x(1))});
  PanelProduct product{};
  product.activation = p.activation;
  product.image_pitch = columns;
  product.element = element_of(c.y());
  const bool by_rows = k->element == kElementF32 && rows > columns;
  return plan_parts(kernel, {{left, right, product, c.threads(), by_rows}},
                    {.bias = p.has_bias ? 2 : -1}, c);
}

}  // namespace

NodePlan plan_in_panels_or(const Matmul& p, const Planner& c,
                           const std::function<NodePlan()>& other) {
  const bool is_bf16 = c.x(0).dtype == DType::kBf16;
  const bool in_tiles = is_bf16 && tile_products() != nullptr;
  if (is_bf16 && !in_tiles && !has_avx2_alone()) return other();
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

}  // namespace assay::cpu
