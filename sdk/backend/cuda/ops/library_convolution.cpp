#include "sdk/backend/cuda/ops/library_convolution.h"

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

// Bytes of a pixel or of a filter's position, so many of them, before and in the copies.
struct Pixels {
  int64_t x, w, bytes;
};

struct Scratch {
  void *call, *x, *w;
  size_t bytes;
};
Scratch scratch_of(const LibraryCall& call, const Pixels& pixels, void* base) {
  ScratchLayout layout(base);
  Scratch s{};
  s.call = layout.take_bytes(call.scratch_bytes);
  s.x = layout.take_bytes(static_cast<size_t>(pixels.x * kernels::kFilledPixel));
  s.w = layout.take_bytes(static_cast<size_t>(pixels.w * kernels::kFilledPixel));
  s.bytes = layout.bytes();
  return s;
}

// Back to pixels of so many bytes.
void take_first(Stream stream, const Pixels& pixels, const void* filled, void* w) {
  kernels::copy_strided(stream,
                        {.run_bytes = pixels.bytes,
                         .runs = pixels.w,
                         .axes = 1,
                         .size = {pixels.w},
                         .source_step = {kernels::kFilledPixel},
                         .target_step = {pixels.bytes}},
                        filled, w);
}

}  // namespace

std::optional<LibraryCall> library_convolution(const Planner& planner, const Convolution& asked) {
  if (planner.target().deterministic && (asked.keeps_sums || asked.norms > 0)) return std::nullopt;
  const auto element = static_cast<int64_t>(dtype_size(asked.data));
  const int64_t filled = kernels::kFilledPixel / element;
  const bool on_tensor_cores = asked.data != DType::kF32 || asked.tf32;
  constexpr int64_t kLeastPixels = 512;  // fewer are not worth two launches
  if (!on_tensor_cores || asked.geometry.groups != 1 || asked.x[3] >= filled ||
      asked.kind == ConvolutionKind::kGradData || asked.x.numel() < kLeastPixels * asked.x[3])
    return planner.libraries().convolution(asked);
  Convolution wide = asked;
  wide.x[3] = wide.w[3] = filled;
  const auto call = planner.libraries().convolution(wide);
  if (!call) return planner.libraries().convolution(asked);
  const Pixels pixels{asked.x.numel() / asked.x[3], asked.w.numel() / asked.w[3],
                      asked.x[3] * element};
  const bool of_weight = asked.kind == ConvolutionKind::kGradWeight;
  const auto run = [=, inner = *call](Stream stream, std::span<void* const> operands,
                                      void* scratch) {
    const Scratch s = scratch_of(inner, pixels, scratch);
    std::vector<void*> all(operands.begin(), operands.end());
    void*& w = all[of_weight ? 2 : 1];
    void* const narrow = w;
    kernels::fill_pixels(stream, all[0], pixels.bytes, pixels.x, s.x);
    if (!of_weight) kernels::fill_pixels(stream, narrow, pixels.bytes, pixels.w, s.w);
    all[0] = s.x, w = s.w;
    inner.run(stream, all, s.call);
    if (of_weight) take_first(stream, pixels, s.w, narrow);
  };
  return LibraryCall{cat("own:fill_pixels ", call->kernel),
                     scratch_of(*call, pixels, nullptr).bytes, run};
}

}  // namespace assay::cuda
