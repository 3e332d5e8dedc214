// ImageFromBytes, MixRows, MixTargets, CountTargets: serial loops over rows, in parallel. Compiled
// for the baseline: nothing here is contracted to a fused multiply-add, and memory is the bound.
#include <array>

#include "sdk/backend/cpu/ops/own_kernel.h"
#include "sdk/base/pixel_levels.h"

namespace assay::cpu {
namespace {

using Levels = std::array<std::array<float, 256>, 4>;

Levels levels_of(const ImageFromBytes& p) {
  Levels levels;
  for (size_t c = 0; c < levels.size(); ++c) {
    for (size_t value = 0; value < 256; ++value)
      levels[c][value] = pixel_level(static_cast<uint8_t>(value), p.scale, p.mean[c], p.stddev[c]);
  }
  return levels;
}

struct ImageRows {
  Levels levels;
  int64_t height, width, channels, target_channels;

  // `n` pixels from `bytes` on, `step` bytes from one to the next; null: pixels outside.
  template <int kChannels>
  void pixels(const uint8_t* bytes, int64_t step, float* y, int64_t n) const {
    for (int64_t j = 0; j < n; ++j, y += target_channels) {
      for (int c = 0; c < kChannels; ++c) {
        const auto channel = static_cast<size_t>(c);
        y[c] = levels[channel][bytes == nullptr ? 0 : bytes[j * step + c]];
      }
      for (int64_t c = kChannels; c < target_channels; ++c) y[c] = 0;
    }
  }

  // Row i of an image: x [height, width, channels], place [4], y [width, target_channels].
  template <int kChannels>
  void row(const uint8_t* x, const int32_t* place, int64_t i, float* y) const {
    const bool mirrored = place[3] != 0;
    const int64_t from = (place[2] != 0 ? height - 1 - i : i) + place[0];
    // Column j reads j + first, or first - j if mirrored; [begin, end) of them lie in the image.
    const int64_t first = mirrored ? width - 1 + place[1] : place[1];
    const int64_t least = mirrored ? first - width + 1 : -first;
    const int64_t begin = std::clamp<int64_t>(least, 0, width);
    const int64_t end = std::clamp<int64_t>(least + width, 0, width);
    if (from < 0 || from >= height || begin >= end) return pixels<kChannels>(nullptr, 0, y, width);
    const int64_t step = mirrored ? -kChannels : kChannels;
    const int64_t column = mirrored ? first - begin : first + begin;
    pixels<kChannels>(nullptr, 0, y, begin);
    pixels<kChannels>(x + (from * width + column) * kChannels, step, y + begin * target_channels,
                      end - begin);
    pixels<kChannels>(nullptr, 0, y + end * target_channels, width - end);
  }

  void row_of(const uint8_t* x, const int32_t* place, int64_t i, float* y) const {
    switch (channels) {
      case 1:
        return row<1>(x, place, i, y);
      case 2:
        return row<2>(x, place, i, y);
      case 3:
        return row<3>(x, place, i, y);
      default:
        return row<4>(x, place, i, y);
    }
  }
};

}  // namespace

// x [N,H,W,C] u8, placement [N,4], y [N,H,W,channels] f32.
NodePlan plan(const ImageFromBytes& p, const Planner& c) {
  NodePlan plan = own_plan("image_from_bytes");
  const Dims& dims = c.x(0).dims;
  const auto rows = std::make_shared<const ImageRows>(
      ImageRows{levels_of(p), dims[1], dims[2], dims[3], p.channels});
  plan.bind = [=, n = dims[0], threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<uint8_t>(0), place = b.x<int32_t>(1), y = b.y<float>()](Queue&) {
      const int64_t height = rows->height, width = rows->width;
      parallel_for(threads, n * height, [&](int64_t at) {
        const int64_t image = at / height;
        rows->row_of(x + image * height * width * rows->channels, place + 4 * image, at % height,
                     y + at * width * rows->target_channels);
      });
    };
  };
  return plan;
}

// x, y [N, elems] f32, w [N].
NodePlan plan(const MixRows&, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  const int64_t rows = dims[0], elems = rows == 0 ? 0 : dims.numel() / rows;
  NodePlan plan = own_plan("mix_rows");
  plan.bind = [=, pieces = chunks_of(elems), threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<float>(0), w = b.x<float>(1), y = b.y<float>()](Queue&) {
      parallel_for(threads, rows * pieces.count(), [&](int64_t at) {
        const int64_t n = at / pieces.count(), piece = at % pieces.count();
        const float own = w[n], other = 1 - own;
        const float* a = x + n * elems + pieces.begin(piece);
        const float* partner = x + (rows - 1 - n) * elems + pieces.begin(piece);
        float* to = y + n * elems + pieces.begin(piece);
        for (int64_t i = 0; i < pieces.length(piece); ++i) to[i] = own * a[i] + other * partner[i];
      });
    };
  };
  return plan;
}

// labels, w [N], y [N,classes].
NodePlan plan(const MixTargets& p, const Planner& c) {
  const int64_t rows = c.x(0).dims[0];
  NodePlan plan = own_plan("mix_targets");
  plan.bind = [=, classes = p.classes, smoothing = p.label_smoothing,
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, labels = b.x<int32_t>(0), w = b.x<float>(1), y = b.y<float>()](Queue&) {
      const float kept = 1 - smoothing;
      parallel_for(rows * classes <= kSerialElems ? 1 : threads, rows, [&](int64_t n) {
        float* row = y + n * classes;
        std::fill_n(row, classes, smoothing / static_cast<float>(classes));
        row[labels[n]] += w[n] * kept;
        row[labels[rows - 1 - n]] += (1 - w[n]) * kept;
      });
    };
  };
  return plan;
}

// x [rows, elems], of i32 one element a row.
NodePlan plan(const CountTargets&, const Planner& c) {
  const ValueType& type = c.x(0);
  const bool is_label = type.dtype == DType::kI32;
  const int64_t rows = is_label ? type.numel() : type.dims[0];
  const int64_t elems = rows == 0 ? 0 : type.numel() / rows;
  NodePlan plan = own_plan("count_targets");
  const Chunks pieces = chunks_of(rows, elems);
  plan.scratch_bytes = static_cast<size_t>(pieces.count()) * sizeof(int64_t);
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, labels = b.x<int32_t>(0), weights = b.x<float>(0), count = b.y<float>(),
            partial = static_cast<int64_t*>(b.scratch)](Queue&) {
      const auto counts = [&](int64_t row) {
        if (is_label) return labels[row] >= 0;
        const float* begin = weights + row * elems;
        return std::any_of(begin, begin + elems, [](float weight) { return weight != 0; });
      };
      const int64_t sum = sum_in_order(threads, pieces.count(), partial, [&](int64_t i) {
        int64_t found = 0;
        for (int64_t row = pieces.begin(i); row < pieces.end(i); ++row) found += counts(row);
        return found;
      });
      *count = static_cast<float>(sum);
    };
  };
  return plan;
}

}  // namespace assay::cpu
