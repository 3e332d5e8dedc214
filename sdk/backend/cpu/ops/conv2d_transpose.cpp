// Conv2dTranspose: in panels, or oneDNN's backward-data convolution used forwards, then bias and
// activation in place, or on the way to y if that has a pitch: oneDNN writes dense tensors.
// (oneDNN 2.6 has a deconvolution, which does the same with a reference loop for what follows it.)
#include <cstring>

#include "sdk/backend/cpu/ops/lanes.h"
#include "sdk/backend/cpu/ops/panel_convolution.h"
#include "sdk/backend/cpu/ops/pointwise.h"
#include "sdk/base/align.h"
#include "sdk/graph/elementwise.h"

namespace assay::cpu {
namespace {

// What is done to the convolution's result on its way to y, or where it stands.
class Epilogue {
 public:
  Epilogue(const Conv2dTranspose& p, const Planner& c)
      : lanes_(lanes_of(p.y_dims)),
        moves_(!is_dense(c.y_layout(), p.y_dims)),
        adds_(p.has_bias || p.activation != ActivationKind::kNone),
        has_bias_(p.has_bias),
        kind_(p.activation),
        size_(dtype_size(c.y().dtype)),
        threads_(c.threads()),
        dense_(dense_layout(p.y_dims)),
        pass_(p.y_dims, {&dense_, &c.y_layout()}),
        affine_(kernels().channel->affine[element_of(c.y())]),
        activate_(activation_code(p.activation), {c.y()}, c.y(), c.scope()) {}

  bool is_needed() const { return moves_ || adds_; }
  // Of the convolution's result [y_dims], if it cannot stand in y.
  size_t result_bytes() const { return moves_ ? static_cast<size_t>(lanes_.n) * size_ : 0; }
  size_t table_bytes() const { return adds_ ? tables_of(nullptr).bytes : 0; }

  // result [N,H,W,K] dense, bias [K], y [N,H,W,K] where it lies.
  void run(const void* result, const float* bias, void* y, void* scratch) const {
    if (!adds_) {
      pass_.run(threads_, [&](const auto& first, int64_t n) {
        std::memcpy(at(y, first[1], size_), at(result, first[0], size_),
                    static_cast<size_t>(n) * size_);
      });
      return;
    }
    const Tables tables = tables_of(scratch);
    fill(tables, bias);
    const bool relu = kind_ == ActivationKind::kRelu;
    const auto joined = relu ? ActivationKind::kRelu : ActivationKind::kNone;
    const auto finish = [&](const void* from, void* to, int64_t n) {
      affine_(from, tables.scale, tables.shift, nullptr, joined, to, n, lanes_.lanes);
      const void* const operands[] = {to};
      if (!relu && kind_ != ActivationKind::kNone) activate_.run_part(operands, to, 0, n);
    };
    if (moves_) {
      pass_.run(threads_, [&](const auto& first, int64_t n) {
        finish(at(result, first[0], size_), at(y, first[1], size_), n);
      });
    } else {
      parallel_for(threads_, lanes_.pieces.count(), [&](int64_t i) {
        void* const piece = at(y, lanes_.pieces.begin(i), size_);
        finish(piece, piece, lanes_.pieces.length(i));
      });
    }
  }

 private:
  struct Tables {
    float *scale, *shift;  // [lanes]
    size_t bytes;
  };
  Tables tables_of(void* base) const {
    ScratchLayout scratch(base);
    float* scale = scratch.take<float>(static_cast<size_t>(lanes_.lanes));
    float* shift = scratch.take<float>(static_cast<size_t>(lanes_.lanes));
    return {scale, shift, scratch.bytes()};
  }
  void fill(const Tables& tables, const float* bias) const {
    std::fill_n(tables.scale, lanes_.lanes, 1.0f);
    if (has_bias_) {
      std::copy_n(bias, lanes_.channels, tables.shift);
      repeat_over_lanes(lanes_, tables.shift);
    } else {
      std::fill_n(tables.shift, lanes_.lanes, 0.0f);
    }
  }

  Lanes lanes_;
  bool moves_, adds_, has_bias_;
  ActivationKind kind_;
  size_t size_;
  int threads_;
  Layout dense_;
  Pass<2> pass_;
  std::decay_t<decltype(ChannelKernels::affine[0])> affine_;
  PointwiseFunction activate_;
};

}  // namespace

NodePlan plan(const Conv2dTranspose& p, const Planner& c) {
  if (prefers_panels(p, c)) return plan_in_panels(p, c);
  NodePlan plan = cpu::plan(Conv2dGradData{p.geometry, p.y_dims}, c);
  const Epilogue epilogue(p, c);
  if (!epilogue.is_needed()) return plan;
  // Behind the scratch of the convolution, prepared or not: the epilogue's, and the result.
  const size_t tables = align_up(epilogue.table_bytes());
  const size_t result_bytes = epilogue.result_bytes();
  const size_t unprepared = align_up(plan.scratch_bytes);
  const size_t prepared = align_up(plan.prepare.scratch_bytes);
  plan.scratch_bytes = unprepared + tables + result_bytes;
  plan.prepare.scratch_bytes = prepared + tables + result_bytes;
  plan.bind = [=, convolve = std::move(plan.bind),
               has_bias = p.has_bias](const Binding& b) -> Launch {
    std::byte* const scratch =
        static_cast<std::byte*>(b.scratch) + (b.prepared != nullptr ? prepared : unprepared);
    void* const result = result_bytes > 0 ? scratch + tables : b.outputs[0];
    Binding own = b;
    own.outputs = {&result, 1};
    return [=, run = convolve(own), bias = has_bias ? b.x<float>(2) : nullptr,
            y = b.y<void>()](Queue& q) {
      run(q);
      epilogue.run(result, bias, y, scratch);
    };
  };
  return plan;
}

}  // namespace assay::cpu
