// Conv2dTranspose: oneDNN's backward-data convolution used forwards, then bias and activation in
// place. (oneDNN 2.6 has a deconvolution, which does the same with a reference loop for what
// follows it.)
#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {
namespace {

struct Tables {
  float *scale, *shift;  // [lanes]
  size_t bytes;
};
Tables tables_of(const Lanes& l, void* base) {
  ScratchLayout scratch(base);
  float* scale = scratch.take<float>(static_cast<size_t>(l.lanes));
  float* shift = scratch.take<float>(static_cast<size_t>(l.lanes));
  return {scale, shift, scratch.bytes()};
}

void fill_tables(const Lanes& l, const Tables& tables, const float* bias) {
  std::fill_n(tables.scale, l.lanes, 1.0f);
  if (bias == nullptr) {
    std::fill_n(tables.shift, l.lanes, 0.0f);
  } else {
    std::copy_n(bias, l.channels, tables.shift);
    repeat_over_lanes(l, tables.shift);
  }
}

}  // namespace

NodePlan plan(const Conv2dTranspose& p, const Planner& c) {
  const bool relu = p.activation == ActivationKind::kRelu;
  const bool activates = p.activation != ActivationKind::kNone && !relu;
  NodePlan plan = cpu::plan(Conv2dGradData{p.geometry, p.y_dims}, c);
  if (!p.has_bias && p.activation == ActivationKind::kNone) return plan;
  const Lanes l = lanes_of(c.y().dims);
  // The tables stand behind the scratch of the convolution, prepared or not.
  const size_t table_bytes = tables_of(l, nullptr).bytes;
  const size_t unprepared = (plan.scratch_bytes + 63) / 64 * 64;
  const size_t prepared = (plan.prepare.scratch_bytes + 63) / 64 * 64;
  plan.scratch_bytes = unprepared + table_bytes;
  plan.prepare.scratch_bytes = prepared + table_bytes;
  const auto affine = kernels().channel->affine[element_of(c.y())];
  const auto activate = kernels().elementwise->activation[element_of(c.y())];
  plan.bind = [=, convolve = plan.bind, has_bias = p.has_bias,
               kind = static_cast<int>(p.activation), size = dtype_size(c.y().dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    const size_t before = b.prepared != nullptr ? prepared : unprepared;
    const Tables tables = tables_of(l, static_cast<std::byte*>(b.scratch) + before);
    return [=, run = convolve(b), bias = has_bias ? b.x<float>(2) : nullptr, y = b.y<void>()] {
      run();
      fill_tables(l, tables, bias);
      parallel_for(threads, l.pieces.count(), [&](int64_t i) {
        void* part = at(y, l.pieces.begin(i), size);
        const int64_t n = l.pieces.length(i);
        affine(part, tables.scale, tables.shift, nullptr, relu, part, n, l.lanes);
        if (activates) activate(kind, part, part, n);
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
