// Conv2dTranspose: oneDNN's backward-data convolution used forwards, then bias and activation in
// place. (oneDNN 2.6 has a deconvolution, which does the same with a reference loop for what
// follows it.)
#include <optional>

#include "sdk/backend/cpu/ops/box_copy.h"
#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {
namespace {

// What is done to the convolution's result where it stands.
class Epilogue {
 public:
  Epilogue(const Conv2dTranspose& p, const Planner& c)
      : lanes_(lanes_of(p.y_dims)),
        needed_(p.has_bias || p.activation != ActivationKind::kNone),
        has_bias_(p.has_bias),
        kind_(p.activation),
        size_(dtype_size(c.y().dtype)),
        threads_(c.threads()),
        affine_(kernels().channel->affine[element_of(c.y())]),
        activation_(kernels().elementwise->activation[element_of(c.y())]) {}

  size_t scratch_bytes() const { return needed_ ? tables_of(nullptr).bytes : 0; }

  void run(const float* bias, void* y, void* scratch) const {
    if (!needed_) return;
    const Tables tables = tables_of(scratch);
    fill(tables, bias);
    const bool relu = kind_ == ActivationKind::kRelu;
    parallel_for(threads_, lanes_.pieces.count(), [&](int64_t i) {
      void* part = at(y, lanes_.pieces.begin(i), size_);
      const int64_t n = lanes_.pieces.length(i);
      affine_(part, tables.scale, tables.shift, nullptr, relu, part, n, lanes_.lanes);
      if (!relu && kind_ != ActivationKind::kNone)
        activation_(static_cast<int>(kind_), part, part, n);
    });
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
  bool needed_, has_bias_;
  ActivationKind kind_;
  size_t size_;
  int threads_;
  void (*affine_)(const void*, const float*, const float*, const void*, bool, void*, int64_t,
                  int64_t);
  void (*activation_)(int, const void*, void*, int64_t);
};

// How the channels of y come together out of the result and what stands beside it.
struct Placement {
  BoxCopy result, beside;
};
std::optional<Placement> placement_of(const Conv2dTranspose& p, const Planner& c) {
  if (!p.has_beside) return std::nullopt;
  const Dims &y = c.y().dims, &part = p.y_dims, &beside = c.x(2 + p.has_bias).dims;
  const size_t size = dtype_size(c.y().dtype);
  const Dims zero = zeros_like(y);
  return Placement{{part, part, zero, y, zero, size},
                   {{y[0], y[1], y[2], beside[3]},
                    beside,
                    {0, p.crop[0], p.crop[1], 0},
                    y,
                    {0, 0, 0, part[3]},
                    size}};
}

size_t on_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

NodePlan plan(const Conv2dTranspose& p, const Planner& c) {
  NodePlan plan = cpu::plan(Conv2dGradData{p.geometry, p.y_dims}, c);
  const Epilogue epilogue(p, c);
  const std::optional<Placement> placement = placement_of(p, c);
  if (epilogue.scratch_bytes() == 0 && !placement) return plan;
  // Behind the scratch of the convolution, prepared or not: the epilogue's, and the result if y
  // holds more than that.
  const size_t tables = on_64(epilogue.scratch_bytes());
  const size_t result_bytes =
      placement ? static_cast<size_t>(p.y_dims.numel()) * dtype_size(c.y().dtype) : 0;
  const size_t unprepared = on_64(plan.scratch_bytes);
  const size_t prepared = on_64(plan.prepare.scratch_bytes);
  plan.scratch_bytes = unprepared + tables + result_bytes;
  plan.prepare.scratch_bytes = prepared + tables + result_bytes;
  if (placement) {
    plan.kernel += " own:box_copy";
    const BoxCopy& beside = placement->beside;  // read as far as it is copied
    plan.bytes -= static_cast<double>(c.x(2 + p.has_bias).bytes()) -
                  static_cast<double>(beside.runs() * beside.run_bytes());
  }
  plan.bind = [=, convolve = std::move(plan.bind), has_bias = p.has_bias,
               threads = c.threads()](const Binding& b) -> Launch {
    std::byte* const scratch =
        static_cast<std::byte*>(b.scratch) + (b.prepared != nullptr ? prepared : unprepared);
    void* const result = placement ? scratch + tables : b.outputs[0];
    Binding own = b;
    own.outputs = {&result, 1};
    return [=, run = convolve(own), bias = has_bias ? b.x<float>(2) : nullptr,
            beside = placement ? b.inputs[static_cast<size_t>(2 + has_bias)] : nullptr,
            y = b.y<void>()](Queue& q) {
      run(q);
      epilogue.run(bias, result, scratch);
      if (!placement) return;
      run_copy(placement->result, threads, result, y);
      run_copy(placement->beside, threads, beside, y);
    };
  };
  return plan;
}

}  // namespace assay::cpu
