// Matrix products, convolutions and attention by their definition, in place of cuBLASLt and cuDNN.
// Some fused ones, and what cuDNN refuses of attention, are refused, so that what is our own and
// stands in is tested as well.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "sdk/backend/cuda/ops/depthwise.h"
#include "sdk/backend/cuda/vendor_libraries.h"
#include "sdk/base/bfloat16.h"
#include "sdk/base/float16.h"
#include "sdk/base/philox.h"
#include "tests/gpu/emulation/runtime.h"

namespace assay::cuda {
namespace {

double load(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kBf16:
      return static_cast<float>(static_cast<const Bfloat16*>(data)[i]);
    case DType::kF16:
      return static_cast<float>(static_cast<const Float16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void store(void* data, DType dtype, int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  switch (dtype) {
    case DType::kBf16:
      static_cast<Bfloat16*>(data)[i] = Bfloat16(rounded);
      return;
    case DType::kF16:
      static_cast<Float16*>(data)[i] = Float16(rounded);
      return;
    default:
      static_cast<float*>(data)[i] = rounded;
  }
}

double relu(bool wanted, double v) { return wanted && v < 0 ? 0 : v; }

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

void multiply(const MatrixProduct& p, std::span<void* const> operands) {
  const void *a = operands[0], *b = operands[1];
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = p.has_bias ? load(operands[2], p.out, j) : 0.0;
      for (int64_t k = 0; k < p.k; ++k) {
        sum += load(a, p.in, p.transpose_a ? k * p.a_pitch + i : i * p.a_pitch + k) *
               load(b, p.in, p.transpose_b ? j * p.b_pitch + k : k * p.b_pitch + j);
      }
      if (p.gelu_tanh) store(operands[operands.size() - 2], p.out, i * p.n + j, sum);
      store(operands.back(), p.out, i * p.n + j, p.gelu_tanh ? gelu_tanh(sum) : relu(p.relu, sum));
    }
  }
}

// Calls visit(x offset, w offset, y offset) for every product that a convolution adds up.
template <class Visit>
void for_products(const Convolution& c, const Visit& visit) {
  const ConvGeometry& g = c.geometry;
  const int64_t channels = c.w[3], filters = c.w[0] / g.groups;
  for (int64_t y = 0; y < c.y.numel(); ++y) {
    const int64_t k = y % c.y[3], q = y / c.y[3] % c.y[2], p = y / (c.y[3] * c.y[2]) % c.y[1];
    const int64_t n = y / (c.y[3] * c.y[2] * c.y[1]);
    for (int64_t r = 0; r < c.w[1]; ++r) {
      for (int64_t s = 0; s < c.w[2]; ++s) {
        const int64_t h = p * g.stride[0] - g.pad_begin[0] + r * g.dilation[0];
        const int64_t w = q * g.stride[1] - g.pad_begin[1] + s * g.dilation[1];
        if (h < 0 || h >= c.x[1] || w < 0 || w >= c.x[2]) continue;
        for (int64_t i = 0; i < channels; ++i) {
          visit(((n * c.x[1] + h) * c.x[2] + w) * c.x[3] + k / filters * channels + i,
                ((k * c.w[1] + r) * c.w[2] + s) * channels + i, y);
        }
      }
    }
  }
}

// The product through the relu of normalisations, and their sums of what is not rounded, in f32.
void pass_norms(const Convolution& c, std::span<void* const> operands,
                const std::vector<double>& product) {
  const auto channels = static_cast<size_t>(c.x[3]), norms = static_cast<size_t>(c.norms),
             first = size_t{2} + c.has_addend + c.has_residual, g = first + 5 * norms;
  const auto number = [&](size_t norm, size_t kind, size_t channel) {
    return static_cast<double>(
        static_cast<const float*>(operands[first + 5 * norm + kind])[channel]);
  };
  const auto xhat = [&](size_t norm, size_t i) {
    const size_t k = i % channels;
    const double x = load(operands[first + 5 * norm], c.data, static_cast<int64_t>(i));
    return (x - number(norm, 3, k)) * number(norm, 4, k);
  };
  const auto sums = [&](size_t i) { return static_cast<float*>(operands[g + 1 + i]); };
  for (size_t i = 0; i < 2 * norms; ++i) std::fill_n(sums(i), channels, 0.0f);
  std::fill_n(sums(2 * norms), 3 * norms * channels, 0.0f);
  for (size_t i = 0; i < product.size(); ++i) {
    const size_t k = i % channels;
    const auto at = static_cast<int64_t>(i);
    double y = c.has_residual ? load(operands[2 + c.has_addend], c.data, at) : 0.0;
    for (size_t norm = 0; norm < norms; ++norm)
      y += xhat(norm, i) * number(norm, 1, k) + number(norm, 2, k);
    const double dy = product[i] + (c.has_addend ? load(operands[2], c.data, at) : 0.0);
    const double passed = y >= 0 ? dy : 0.0;  // as cuDNN does
    store(operands[g], c.data, at, passed);
    for (size_t norm = 0; norm < norms; ++norm) {
      sums(2 * norm)[k] += static_cast<float>(passed * xhat(norm, i));
      sums(2 * norm + 1)[k] += static_cast<float>(passed);
    }
  }
}

void convolve(const Convolution& c, std::span<void* const> operands) {
  const Dims& result = c.kind == ConvolutionKind::kForward    ? c.y
                       : c.kind == ConvolutionKind::kGradData ? c.x
                                                              : c.w;
  std::vector<double> values(static_cast<size_t>(result.numel()), 0.0);
  const auto at = [&](int operand, int64_t i) {
    return load(operands[static_cast<size_t>(operand)], c.data, i);
  };
  for_products(c, [&](int64_t x, int64_t w, int64_t y) {
    if (c.kind == ConvolutionKind::kForward) {
      values[static_cast<size_t>(y)] += at(0, x) * at(1, w);
    } else if (c.kind == ConvolutionKind::kGradData) {
      values[static_cast<size_t>(x)] += at(0, y) * at(1, w);
    } else {
      values[static_cast<size_t>(w)] += at(0, x) * at(1, y);
    }
  });
  if (c.norms > 0) return pass_norms(c, operands, values);
  for (int64_t i = 0; i < result.numel(); ++i) {
    double& value = values[static_cast<size_t>(i)];
    if (c.has_residual) value += at(2 + c.has_bias, i);
    if (c.has_bias) value += at(2, i % c.y[3]);
    value = relu(c.relu, value);
    store(operands[operands.size() - 1 - c.keeps_sums], c.data, i, value);
  }
  if (!c.keeps_sums) return;
  auto* const kept = static_cast<float*>(operands.back());
  std::fill_n(kept, 2 * c.y[3], 0.0f);
  for (int64_t i = 0; i < result.numel(); ++i) {  // of what is not rounded, in f32
    const auto value = static_cast<float>(values[static_cast<size_t>(i)]);
    kept[i % c.y[3]] += value;
    kept[c.y[3] + i % c.y[3]] += value * value;
  }
}

// Attention as FusedAttention lists its operands.
class LoopAttention {
 public:
  LoopAttention(const FusedAttention& a, std::span<void* const> operands)
      : a_(a),
        operands_(operands),
        rows_(operands.subspan(a.is_gradient ? 4 : 1)),
        width_(a.heads * a.size) {}

  void run() {
    std::vector<double> dqkv(a_.is_gradient ? static_cast<size_t>(a_.tokens * 3 * width_) : 0);
    for (int64_t b = 0; b < a_.sequences; ++b)
      for (int64_t h = 0; h < a_.heads; ++h)
        for (int64_t i = 0; i < length(b); ++i)
          a_.is_gradient ? differentiate(b, h, i, dqkv) : attend(b, h, i);
    for (int64_t b = 0; a_.is_gradient && b < a_.sequences; ++b)
      for (int64_t i = begin(0, b), end = i + length(b) * 3 * width_; i < end; ++i)
        store(operands_.back(), a_.data, i, dqkv[static_cast<size_t>(i)]);
  }

 private:
  int64_t begin(size_t tensor, int64_t b) const {
    return static_cast<const int64_t*>(rows_[tensor])[b];
  }
  int64_t length(int64_t b) const { return static_cast<const int32_t*>(rows_[3])[b]; }
  int64_t qkv_at(int64_t b, int64_t h, int64_t i, int part) const {
    return begin(0, b) + (i * 3 + part) * width_ + h * a_.size;
  }
  int64_t context_at(int64_t b, int64_t h, int64_t i) const {
    return begin(1, b) + i * width_ + h * a_.size;
  }
  int64_t sum_at(int64_t b, int64_t h, int64_t i) const { return begin(2, b) + i * a_.heads + h; }

  double dot(size_t x, int64_t x_at, size_t y, int64_t y_at) const {
    double sum = 0;
    for (int64_t c = 0; c < a_.size; ++c)
      sum += load(operands_[x], a_.data, x_at + c) * load(operands_[y], a_.data, y_at + c);
    return sum;
  }
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return static_cast<double>(a_.scale) * dot(0, qkv_at(b, h, i, 0), 0, qkv_at(b, h, j, 1));
  }
  // Other masks than those of our own kernels, as cuDNN's are.
  double keep(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (a_.rate == 0) return 1;
    const auto seed = *static_cast<const uint64_t*>(rows_[4]);
    const auto offset = *static_cast<const uint64_t*>(rows_[5]);
    const auto element =
        static_cast<uint64_t>(((b * a_.heads + h) * a_.longest + i) * a_.longest + j);
    const PhiloxCounter words =
        philox4x32({static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32),
                    static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)},
                   {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const double rate = a_.rate;
    return words[0] >= rate * 0x1p32 ? 1 / (1 - rate) : 0;
  }

  void attend(int64_t b, int64_t h, int64_t i) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < length(b); ++j) largest = std::max(largest, score(b, h, i, j));
    std::vector<double> out(static_cast<size_t>(a_.size));
    for (int64_t j = 0; j < length(b); ++j) {
      const double weight = std::exp(score(b, h, i, j) - largest);
      sum += weight;
      for (size_t c = 0; c < out.size(); ++c)
        out[c] += weight * keep(b, h, i, j) *
                  load(operands_[0], a_.data, qkv_at(b, h, j, 2) + static_cast<int64_t>(c));
    }
    for (size_t c = 0; c < out.size(); ++c)
      store(operands_[operands_.size() - 2], a_.data, context_at(b, h, i) + static_cast<int64_t>(c),
            out[c] / sum);
    store(operands_.back(), DType::kF32, sum_at(b, h, i), largest + std::log(sum));
  }

  void differentiate(int64_t b, int64_t h, int64_t i, std::vector<double>& dqkv) const {
    const int64_t out = context_at(b, h, i), query = qkv_at(b, h, i, 0);
    const double sum = load(operands_[2], DType::kF32, sum_at(b, h, i)),
                 delta = dot(1, out, 3, out);
    for (int64_t j = 0; j < length(b); ++j) {
      const int64_t key = qkv_at(b, h, j, 1), value = qkv_at(b, h, j, 2);
      const double weight = std::exp(score(b, h, i, j) - sum), kept = keep(b, h, i, j);
      const double dscore =
          static_cast<double>(a_.scale) * weight * (kept * dot(3, out, 0, value) - delta);
      const auto add = [&](int64_t to, double factor, size_t from, int64_t from_at) {
        for (int64_t c = 0; c < a_.size; ++c)
          dqkv[static_cast<size_t>(to + c)] += factor * load(operands_[from], a_.data, from_at + c);
      };
      add(query, dscore, 0, key);
      add(key, dscore, 0, query);
      add(value, weight * kept, 3, out);
    }
  }

  const FusedAttention& a_;
  std::span<void*const> operands_, rows_;
  int64_t width_;
};

class LoopLibraries : public Libraries {
 public:
  std::optional<LibraryCall> matrix_product(const MatrixProduct& p) override {
    return call([p](std::span<void* const> operands) { multiply(p, operands); });
  }
  std::optional<LibraryCall> convolution(const Convolution& c) override {
    if (c.norms > 0 && c.w[1] == 1 && c.geometry.stride[0] > 1) return std::nullopt;
    const bool fused = c.has_bias || (c.has_residual && c.norms == 0) || c.relu;
    if (fused && c.w[3] % 2 != 0 && c.w[3] > 3) return std::nullopt;
    if (c.keeps_sums && c.w[1] == 1) return std::nullopt;
    if (auto own = depthwise_convolution(c)) return own;
    return call([c](std::span<void* const> operands) { convolve(c, operands); });
  }
  std::optional<LibraryCall> attention(const FusedAttention& a) override {
    if (a.size % 8 != 0 || a.longest == 1) return std::nullopt;
    return call([a](std::span<void* const> operands) { LoopAttention(a, operands).run(); });
  }

 private:
  static LibraryCall call(const std::function<void(std::span<void* const>)>& compute) {
    return {"loops", 0, [compute](Stream stream, std::span<void* const> operands, void*) {
              const std::vector<void*> kept(operands.begin(), operands.end());
              emulation::enqueue(stream, [compute, kept] { compute(kept); });
            }};
  }
};

}  // namespace

std::unique_ptr<Libraries> make_vendor_libraries(const std::string&, const DeviceState&) {
  return std::make_unique<LoopLibraries>();
}

}  // namespace assay::cuda
