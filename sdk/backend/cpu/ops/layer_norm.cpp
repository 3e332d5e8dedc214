// LayerNorm and its gradient: rows are independent but for the sums of dgamma and dbeta, which are
// taken over ranges of rows first, in f32, and over the ranges in their order, in f64.
#include "sdk/backend/cpu/ops/dropout.h"
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// What a plan holds of a dropout that may be none.
struct RowDropout {
  bool drops = false;
  DropoutRange range{};

  template <class Op>
  explicit RowDropout(const Op& op) : drops(op.rate > 0) {
    if (drops) range = dropout_range(op);
  }
  // In the step that stands at `step`; `now` must outlive what is returned.
  const DropoutRange* at(const int64_t* step, DropoutRange& now) const {
    if (!drops) return nullptr;
    now = range;
    now.step = static_cast<uint64_t>(*step);
    return &now;
  }
};

// The gradient's sums of a range cost memory: rather many rows in each.
Chunks sum_ranges(int64_t rows, int64_t channels) {
  constexpr int64_t kLeastRows = 32;
  const Chunks chunks = chunks_of(rows, channels);
  return {rows, std::max(chunks.size, kLeastRows)};
}

}  // namespace

// x, residual, y, z [rows, C], gamma, beta [C], mean, rstd [rows], step [].
NodePlan plan(const LayerNorm& p, const Planner& c) {
  const int64_t channels = c.x(0).dims.back(), rows = c.x(0).numel() / channels;
  NodePlan plan = own_plan("layer_norm");
  const auto run = kernels().layer_norm->forward[element_of(c.x(0))];
  plan.bind = [=, dropout = RowDropout(p), chunks = chunks_of(rows, channels),
               threads = c.threads()](const Binding& b) -> Launch {
    LayerNormArgs args{};
    args.channels = channels;
    args.epsilon = p.epsilon;
    args.x = b.x<void>(0);
    args.gamma = b.x<float>(1);
    args.beta = b.x<float>(2);
    if (p.has_residual) args.residual = b.x<void>(3);
    args.y = b.y<void>(0);
    args.mean = b.y<float>(1);
    args.rstd = b.y<float>(2);
    if (p.keeps_z()) args.z = b.y<void>(3);
    const int64_t* step = p.rate > 0 ? b.x<int64_t>(p.step_input()) : nullptr;
    return [=](Queue&) {
      DropoutRange range;
      LayerNormArgs now = args;
      now.dropout = dropout.at(step, range);
      parallel_for(threads, chunks.count(),
                   [&](int64_t i) { run(now, chunks.begin(i), chunks.length(i)); });
    };
  };
  return plan;
}

// z, dy, dz, dx [rows, C], gamma, dgamma, dbeta [C], mean, rstd [rows], step [].
NodePlan plan(const LayerNormGrad& p, const Planner& c) {
  require(!p.has_addend && !p.keep_sums, Code::kUnsupported, "layer norm at ", c.scope(),
          ": adds and sums up on GPUs only");
  const int64_t channels = c.x(0).dims.back(), rows = c.x(0).numel() / channels;
  NodePlan plan = own_plan("layer_norm");
  const Chunks chunks = sum_ranges(rows, channels);
  plan.scratch_bytes = static_cast<size_t>(2 * channels * chunks.count()) * sizeof(float);
  const auto run = kernels().layer_norm->backward[element_of(c.x(0))];
  plan.bind = [=, dropout = RowDropout(p), threads = c.threads()](const Binding& b) -> Launch {
    LayerNormGradArgs args{};
    args.channels = channels;
    args.z = b.x<void>(0);
    args.gamma = b.x<float>(1);
    args.mean = b.x<float>(2);
    args.rstd = b.x<float>(3);
    args.dy = b.x<void>(4);
    args.dz = b.y<void>(0);
    if (p.rate > 0) args.dx = b.y<void>(3);
    const int64_t* step = p.rate > 0 ? b.x<int64_t>(5) : nullptr;
    return [=, partial = static_cast<float*>(b.scratch), dgamma = b.y<float>(1),
            dbeta = b.y<float>(2)](Queue&) {
      DropoutRange range;
      LayerNormGradArgs now = args;
      now.dropout = dropout.at(step, range);
      parallel_for(threads, chunks.count(), [&](int64_t i) {
        float* sums = partial + i * 2 * channels;
        run(now, chunks.begin(i), chunks.length(i), sums, sums + channels);
      });
      parallel_for(threads, 2, [&](int64_t kind) {
        float* sums = kind == 0 ? dgamma : dbeta;
        for (int64_t channel = 0; channel < channels; ++channel) {
          double sum = 0;
          for (int64_t i = 0; i < chunks.count(); ++i)
            sum += partial[(2 * i + kind) * channels + channel];
          sums[channel] = static_cast<float>(sum);
        }
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
