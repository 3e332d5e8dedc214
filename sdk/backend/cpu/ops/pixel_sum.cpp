#include "sdk/backend/cpu/ops/pixel_sum.h"

#include "sdk/backend/cpu/ops/channel_sums.h"
#include "sdk/backend/cpu/ops/windows.h"

namespace assay::cpu {
namespace {

const PixelSumKernels& pixel_sum_kernels() { return *kernels().pixel_sum; }

// x [N,H,W,C], dy [N,P,Q,K], dw [K,R,S,C]; of all pixels, without addresses.
PixelSum pixel_sum_of(const Conv2dGradWeight& p, const Planner& c) {
  const Dims &x = c.x(0).dims, &dy = c.x(1).dims, &w = p.w_dims;
  PixelSum s{};
  s.windows = windows_of(p.geometry, x, w, dy);
  s.element = element_of(c.x(0));
  s.channels = w[3], s.columns = w[1] * w[2] * w[3], s.filters = w[0];
  s.pitch = round_up(s.columns, pixel_sum_kernels().panel);
  s.end = dy[0] * dy[1] * dy[2];
  return s;
}

// Pixels are cut into slices, each of which makes a sum of its own, if there are too few columns to
// share out; large sums, which leave the cache, into fewer. How many depends on sizes only, and so
// do all sums.
Chunks pixel_slices(const PixelSum& s) {
  constexpr int64_t kFewGroups = 16, kFewOfLarge = 8, kLargeSum = 64 << 10;
  const PixelSumKernels& k = pixel_sum_kernels();
  const int64_t few = s.filters * s.columns > kLargeSum ? kFewOfLarge : kFewGroups;
  const int64_t slices = quotient_up(few, quotient_up(s.columns, k.columns));
  return {s.end, round_up(quotient_up(s.end, slices), k.pixels)};
}

struct SlicedSum {
  PixelSum sum;
  Chunks slices;
  int64_t groups;       // of columns
  int64_t block_elems;  // of all filters
  int threads;

  SlicedSum(const Conv2dGradWeight& p, const Planner& c)
      : sum(pixel_sum_of(p, c)),
        slices(pixel_slices(sum)),
        groups(quotient_up(sum.columns, pixel_sum_kernels().columns)),
        block_elems(pixel_sum_kernels().pixels *
                    round_up(sum.filters, pixel_sum_kernels().filters)),
        threads(c.threads()) {}

  int64_t sum_elems() const { return sum.filters * sum.pitch; }
  // The sum stands in dw itself.
  bool stands() const { return slices.count() == 1 && sum.pitch == sum.columns; }
};

struct SliceScratch {
  float *blocks, *sums, *columns;  // of each slice, of each slice, of each thread
  size_t bytes;
};
SliceScratch scratch_of(const SlicedSum& s, void* base) {
  ScratchLayout scratch(base);
  SliceScratch r{};
  const int64_t slices = s.slices.count();
  r.blocks = scratch.take<float>(static_cast<size_t>(slices * s.block_elems));
  r.sums = scratch.take<float>(static_cast<size_t>(s.stands() ? 0 : slices * s.sum_elems()));
  r.columns = scratch.take<float>(static_cast<size_t>(s.threads * pixel_sum_kernels().scratch));
  r.bytes = scratch.bytes();
  return r;
}

// Sums of all slices, side by side.
void add_up(const SlicedSum& s, const PixelSum& sum, float* sums, const SliceScratch& scratch) {
  const PixelSumKernels& k = pixel_sum_kernels();
  const int64_t slices = s.slices.count(), tasks = slices * s.groups;
  const Chunks pieces{k.pixels, 8};
  for (int64_t step = 0; step < s.slices.size; step += k.pixels) {
    const auto part = [&](int64_t slice) {
      const int64_t end = s.slices.end(slice);
      PixelSum r = sum;
      r.begin = std::min(s.slices.begin(slice) + step, end);
      r.end = std::min(r.begin + k.pixels, end);
      r.add = step > 0;
      r.dw = sums + slice * s.sum_elems();
      return r;
    };
    parallel_for(s.threads, slices * pieces.count(), [&](int64_t i) {
      const int64_t slice = i / pieces.count(), piece = i % pieces.count();
      const PixelSum r = part(slice);
      k.fill_blocks(r, pieces.begin(piece), std::min(pieces.end(piece), r.end - r.begin),
                    scratch.blocks + slice * s.block_elems);
    });
    parallel_for(s.threads, s.threads, [&](int64_t worker) {
      float* const columns = scratch.columns + worker * k.scratch;
      for (int64_t i = worker * tasks / s.threads; i < (worker + 1) * tasks / s.threads; ++i) {
        const int64_t slice = i / s.groups;
        k.add_columns(part(slice), i % s.groups * k.columns, scratch.blocks + slice * s.block_elems,
                      columns);
      }
    });
  }
}

// dw = the sums of all slices.
void fold_slices(const SlicedSum& s, const float* sums, float* dw) {
  const int64_t columns = s.sum.columns;
  parallel_for(s.threads, s.sum.filters, [&](int64_t k) {
    const float* from = sums + k * s.sum.pitch;
    std::copy_n(from, columns, dw + k * columns);
    for (int64_t slice = 1; slice < s.slices.count(); ++slice) {
      from += s.sum_elems();
      for (int64_t j = 0; j < columns; ++j) dw[k * columns + j] += from[j];
    }
  });
}

}  // namespace

// What dy takes to bring into blocks must be made up for by columns (decisions/0033). oneDNN passes
// over an image of dy once for each row of the window: with few columns that is as fast, if the
// image stays in a cache.
bool prefers_pixel_sum(const Conv2dGradWeight& p, const Planner& c) {
  constexpr int64_t kFewColumns = 48, kFewChannels = 64, kCachedImage = 512 << 10;
  if (!has_avx2_alone() || p.geometry.groups != 1 || c.y().dtype != DType::kF32) return false;
  const Dims &dy = c.x(1).dims, &w = p.w_dims;
  if (w[1] * w[2] == 1) return w[3] >= std::min(kFewChannels, w[0]);
  const int64_t image = dy[1] * dy[2] * dy[3] * static_cast<int64_t>(sizeof(float));
  return w[1] * w[2] * w[3] >= kFewColumns || image > kCachedImage;
}

NodePlan plan_pixel_sum(const Conv2dGradWeight& p, const Planner& c) {
  const SlicedSum s(p, c);
  NodePlan plan = own_plan("pixel_sum");
  plan.scratch_bytes = scratch_of(s, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const SliceScratch scratch = scratch_of(s, b.scratch);
    PixelSum sum = s.sum;
    sum.x = b.x<void>(0), sum.dy = b.x<void>(1);
    float* const dw = b.y<float>();
    return [=](Queue&) {
      add_up(s, sum, s.stands() ? dw : scratch.sums, scratch);
      if (!s.stands()) fold_slices(s, scratch.sums, dw);
    };
  };
  return p.has_bias ? with_bias_gradient(std::move(plan), c) : plan;
}

}  // namespace assay::cpu
