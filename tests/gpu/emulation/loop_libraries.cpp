// Matrix products and convolutions by their definition, in place of cuBLASLt and cuDNN. Some fused
// ones are refused, so that the pass of our own that stands in for the rest is tested as well.
#include <cmath>
#include <functional>
#include <vector>

#include "sdk/backend/cuda/vendor_libraries.h"
#include "sdk/base/bfloat16.h"
#include "sdk/base/float16.h"
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
      double sum = p.has_bias ? static_cast<const float*>(operands[2])[j] : 0.0;
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

void convolve(const Convolution& c, std::span<void* const> operands) {
  const Dims& result = c.kind == ConvolutionKind::kForward    ? c.y
                       : c.kind == ConvolutionKind::kGradData ? c.x
                                                              : c.w;
  std::vector<double> sums(static_cast<size_t>(result.numel()), 0.0);
  const auto at = [&](int operand, int64_t i) {
    return load(operands[static_cast<size_t>(operand)], c.data, i);
  };
  for_products(c, [&](int64_t x, int64_t w, int64_t y) {
    if (c.kind == ConvolutionKind::kForward) {
      sums[static_cast<size_t>(y)] += at(0, x) * at(1, w);
    } else if (c.kind == ConvolutionKind::kGradData) {
      sums[static_cast<size_t>(x)] += at(0, y) * at(1, w);
    } else {
      sums[static_cast<size_t>(w)] += at(0, x) * at(1, y);
    }
  });
  for (int64_t i = 0; i < result.numel(); ++i) {
    double value = sums[static_cast<size_t>(i)];
    if (c.has_residual) value += at(2 + c.has_bias, i);
    if (c.has_bias) value += at(2, i % c.y[3]);
    store(operands.back(), c.data, i, relu(c.relu, value));
  }
}

class LoopLibraries : public Libraries {
 public:
  std::optional<LibraryCall> matrix_product(const MatrixProduct& p) override {
    return call([p](std::span<void* const> operands) { multiply(p, operands); });
  }
  std::optional<LibraryCall> convolution(const Convolution& c) override {
    const bool fused = c.has_bias || c.has_residual || c.relu;
    if (fused && c.w[3] % 2 != 0 && c.w[3] > 3) return std::nullopt;
    return call([c](std::span<void* const> operands) { convolve(c, operands); });
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
