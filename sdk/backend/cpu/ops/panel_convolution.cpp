#include "sdk/backend/cpu/ops/panel_convolution.h"

#include "sdk/backend/cpu/ops/panels.h"
#include "sdk/backend/cpu/ops/parity_taps.h"
#include "sdk/backend/cpu/ops/windows.h"

namespace assay::cpu {
namespace {

bool is_for_panels(const Planner& c, const Dims& w) {
  return has_avx2_alone() && w[1] * w[2] <= kMostWindowTaps;
}

// Of images y whose pixels lie `pixel_pitch` apart, every row and column, or every other one.
void set_pitches(PanelProduct& product, const Dims& y, int64_t pixel_pitch, int64_t every) {
  product.image_pitch = y[1] * y[2] * pixel_pitch;
  product.row_pitch = every * y[2] * pixel_pitch;
  product.pixel_pitch = every * pixel_pitch;
}

// ---- Transposed ----

// Where it was measured (decisions/0033), down to channels that fill a panel.
bool prefers_transposed(const ConvGeometry& g, const Dims& y, const Planner& c) {
  constexpr int64_t kFewest = 16, kManyChannels = 64;
  const Dims& w = c.x(1).dims;
  return is_for_panels(c, w) && has_four_parts(g, y, w) && w[0] >= kManyChannels &&
         w[0] <= kMostWindowChannels && w[3] >= kFewest;
}

// x [N,H,W,K], w [K,R,S,C], y [N,P,Q,C] of pixels with a pitch.
PanelPart part_of(const ConvGeometry& g, const Dims& y, int64_t pitch, const Planner& c,
                  int64_t row_parity, int64_t column_parity) {
  const PanelProductKernels* k = kernels().product;
  const Dims &x = c.x(0).dims, &w = c.x(1).dims;
  const Taps rows(g, y, w, 0, row_parity), columns(g, y, w, 1, column_parity);
  std::vector<int64_t> taps;
  for (int64_t r = 0; r < rows.count; ++r)
    for (int64_t s = 0; s < columns.count; ++s)
      taps.push_back((rows.tap(r) * w[2] + columns.tap(s)) * w[3]);

  PanelProduct product{};
  product.windows = {.h = x[1],
                     .w = x[2],
                     .p = rows.size,
                     .q = columns.size,
                     .r = rows.count,
                     .s = columns.count,
                     .pad = {rows.pad_begin, columns.pad_begin}};
  product.element = element_of(c.y());
  set_pitches(product, y, pitch, 2);
  const int64_t steps = static_cast<int64_t>(taps.size()) * w[0];
  const Panels left(
      k, false, {nullptr, x[0] * rows.size * columns.size, steps, x[3], true, element_of(c.x(0))});
  const Panels right(k, true, {nullptr, w[3], w[0], w[1] * w[2] * w[3], false, element_of(c.x(1))},
                     taps);
  return {left,
          right,
          product,
          c.threads(),
          x.numel() > w.numel(),
          (row_parity * y[2] + column_parity) * pitch};
}

NodePlan plan_transposed(const ConvGeometry& g, const Dims& y, int64_t pitch,
                         ActivationKind activation, const PanelInputs& inputs, const Planner& c) {
  PanelParts parts;
  for (const int64_t row_parity : {0, 1})
    for (const int64_t column_parity : {0, 1})
      parts.push_back(part_of(g, y, pitch, c, row_parity, column_parity));
  for (PanelPart& part : parts) part.product.activation = activation;
  return plan_parts(own_plan("product").kernel, std::move(parts), inputs, c);
}

}  // namespace

bool prefers_panels(const Conv2dGradData& p, const Planner& c) {
  return prefers_transposed(p.geometry, p.x_dims, c);
}
bool prefers_panels(const Conv2dTranspose& p, const Planner& c) {
  return prefers_transposed(p.geometry, p.y_dims, c);
}

NodePlan plan_in_panels(const Conv2dGradData& p, const Planner& c) {
  return plan_transposed(p.geometry, p.x_dims, p.x_dims[3], ActivationKind::kNone, {}, c);
}
NodePlan plan_in_panels(const Conv2dTranspose& p, const Planner& c) {
  return plan_transposed(p.geometry, p.y_dims, c.y_pitch(), p.activation,
                         {.bias = p.has_bias ? 2 : -1}, c);
}

// ---- Forwards ----

// oneDNN's kernel for AVX2 is slowed down by many channels and by strides, while few channels make
// short sums of each pixel here (decisions/0031). For windows of one pixel it has another, as fast
// as this. But around it y and a residual of bf16 are converted, which counts if they leave the
// cache (decisions/0034).
bool prefers_panels(const Conv2d& p, const Planner& c) {
  constexpr int64_t kFewestFilters = 16, kManyChannels = 64, kManyOfStride = 32;
  constexpr int64_t kCached = 1 << 20;
  const Dims& w = c.x(1).dims;
  const bool has_stride = std::max(p.geometry.stride[0], p.geometry.stride[1]) > 1;
  if (!is_for_panels(c, w) || p.geometry.groups != 1 || w[0] < kFewestFilters ||
      w[3] > kMostWindowChannels)
    return false;
  if (w[3] < (has_stride ? kManyOfStride : kManyChannels)) return false;
  return w[1] * w[2] > 1 ||
         (c.y().dtype == DType::kBf16 && p.has_residual && c.y().dims.numel() > kCached);
}

// x [N,H,W,C], w [K,R,S,C], y and residual [N,P,Q,K], bias [K].
NodePlan plan_in_panels(const Conv2d& p, const Planner& c) {
  const PanelProductKernels* k = kernels().product;
  const Dims &x = c.x(0).dims, &w = c.x(1).dims, &y = c.y().dims;
  const int64_t steps = w[1] * w[2] * w[3];
  PanelProduct product{};
  product.windows = windows_of(p.geometry, x, w, y);
  product.activation = p.activation;
  product.element = element_of(c.y());
  set_pitches(product, y, y[3], 1);
  const Panels left(k, false, {nullptr, y[0] * y[1] * y[2], steps, x[3], true, element_of(c.x(0))});
  const Panels right(k, true, {nullptr, w[0], steps, steps, true, element_of(c.x(1))});
  const PanelInputs inputs{.bias = p.has_bias ? 2 : -1,
                           .residual = p.has_residual ? p.residual_input() : -1};
  NodePlan plan =
      plan_parts(own_plan("product").kernel,
                 {{left, right, product, c.threads(), x.numel() > w.numel()}}, inputs, c);
  if (p.has_residual) plan.in_place = {{0, p.residual_input()}};
  return plan;
}

}  // namespace assay::cpu
