#include "sdk/backend/cuda/ops/depthwise.h"

#include <array>
#include <limits>

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

bool is_plain(const Convolution& c) {
  return !c.has_bias && !c.has_residual && !c.relu && !c.keeps_sums && c.norms == 0;
}

// Pixels fill whole accesses of 16 bytes, whatever their type.
bool is_offered(const Convolution& c) {
  const ConvGeometry& g = c.geometry;
  constexpr int64_t kChannels = 8;
  const int64_t channels = c.x[3], window = c.w[1], stride = g.stride[0];
  const int64_t pixels = std::max(c.x.numel(), c.y.numel()) / channels;
  return g.groups == channels && c.w[0] == channels && channels % kChannels == 0 &&
         g.dilation == std::array<int64_t, 2>{1, 1} && (window == 3 || window == 5) &&
         c.w[2] == window && (stride == 1 || stride == 2) && g.stride[1] == stride &&
         g.pad_begin[0] < window && g.pad_begin[1] < window &&
         pixels <= std::numeric_limits<int32_t>::max();
}

kernels::PoolShape shape_of(const Convolution& c) {
  const ConvGeometry& g = c.geometry;
  return {.n = c.x[0],
          .h = c.x[1],
          .w = c.x[2],
          .c = c.x[3],
          .p = c.y[1],
          .q = c.y[2],
          .window = {c.w[1], c.w[2]},
          .stride = {g.stride[0], g.stride[1]},
          .pad = {g.pad_begin[0], g.pad_begin[1]}};
}

std::array<size_t, 3> bytes_of_operands(const Convolution& c) {
  const auto bytes = [&](const Dims& dims) { return ValueType{c.data, dims}.bytes(); };
  switch (c.kind) {
    case ConvolutionKind::kForward:
      return {bytes(c.x), bytes(c.w), bytes(c.y)};
    case ConvolutionKind::kGradData:
      return {bytes(c.y), bytes(c.w), bytes(c.x)};
    case ConvolutionKind::kGradWeight:
      return {bytes(c.x), bytes(c.y), bytes(c.w)};
  }
  fail(Code::kInternal, "no such kind of convolution");
}

// What it is timed against is part of it, and which kernels ours are.
std::string text_of(const Convolution& c, const std::string& library) {
  const ConvGeometry& g = c.geometry;
  constexpr int kVersion = 1;  // another one for other kernels
  return cat("depthwise", static_cast<int>(c.kind), " v", kVersion, " x", c.x, " w", c.w, " y", c.y,
             " s", g.stride[0], " p", g.pad_begin[0], ",", g.pad_begin[1], " ", c.data, " or ",
             library);
}

}  // namespace

std::optional<LibraryCall> depthwise_convolution(const Convolution& c) {
  if (!is_plain(c) || !is_offered(c)) return std::nullopt;
  const Element element = element_of(c.data);
  const kernels::PoolShape shape = shape_of(c);
  LibraryCall call{.kernel = "own:depthwise"};
  if (c.kind == ConvolutionKind::kGradWeight)
    call.scratch_bytes = kernels::depthwise_grad_weight_bytes(element, shape);
  call.run = [=, kind = c.kind](Stream stream, std::span<void* const> operands, void* scratch) {
    void *const a = operands[0], *const b = operands[1], *const result = operands[2];
    if (kind == ConvolutionKind::kForward)
      kernels::depthwise(stream, element, shape, a, b, result);
    else if (kind == ConvolutionKind::kGradData)
      kernels::depthwise_grad(stream, element, shape, a, b, result);
    else
      kernels::depthwise_grad_weight(stream, element, shape, a, b, static_cast<double*>(scratch),
                                     result);
  };
  return call;
}

LibraryCall faster_of(Tuning& tuning, cudaStream_t stream, const Convolution& convolution,
                      const LibraryCall& library, const LibraryCall& own) {
  const std::array<const LibraryCall*, 2> calls{&library, &own};
  constexpr std::array<std::string_view, 2> kNames{"library", "own"};
  const std::string text = text_of(convolution, library.kernel);
  const std::string known = tuning.find(text);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (known == kNames[i]) return *calls[i];
  }
  std::optional<int64_t> best;
  try {
    const auto bytes = bytes_of_operands(convolution);
    const TimingOperands operands({bytes.begin(), bytes.end()}, stream);
    const TimingBuffer scratch(std::max(library.scratch_bytes, own.scratch_bytes), stream);
    best = fastest_of(
        calls.size(), stream, [](int64_t) { return true; },
        [&](int64_t i, int run) {
          calls[static_cast<size_t>(i)]->run(stream, operands.of(run), scratch.data());
        });
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfDeviceMemory) throw;
  }
  if (!best) return library;
  tuning.keep(text, std::string(kNames[static_cast<size_t>(*best)]));
  return *calls[static_cast<size_t>(*best)];
}

}  // namespace assay::cuda
