// Bytes of images to the numbers a network reads: crop, mirror, normalise, mix and cast in one
// pass.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kLevels = 256;
constexpr int kMostChannels = 4;

// Where the pixel (y, x) of sample n lies among its bytes; -1 outside of the image.
__device__ inline int64_t source_of(const PlacedImages& a, int64_t n, int64_t y, int64_t x) {
  const int32_t* place = a.placements + 4 * n;
  const int64_t from_y = (place[2] != 0 ? a.height - 1 - y : y) + place[0];
  const int64_t from_x = (place[3] != 0 ? a.width - 1 - x : x) + place[1];
  const bool inside = from_y >= 0 && from_y < a.height && from_x >= 0 && from_x < a.width;
  return inside ? ((n * a.height + from_y) * a.width + from_x) * a.channels : -1;
}

__device__ inline float value_at(const PlacedImages& a, const float* level, int64_t at, int c) {
  return level[kLevels * c + (at < 0 ? 0 : a.pixels[at + c])];
}

// A thread per pixel.
template <class T>
__global__ void place(PlacedImages a, T* y) {
  __shared__ float level[kMostChannels * kLevels];
  for (int i = static_cast<int>(threadIdx.x); i < a.channels * kLevels; i += kThreads)
    level[i] = a.level[i];
  __syncthreads();
  const int64_t image = a.height * a.width;
  for (int64_t i = global_thread(); i < a.rows * image; i += total_threads()) {
    const int64_t n = i / image, row = i % image / a.width, column = i % a.width;
    const int64_t own = source_of(a, n, row, column);
    const int64_t partner = a.weights == nullptr ? -1 : source_of(a, a.rows - 1 - n, row, column);
    T* target = y + i * a.target_channels;
    for (int c = 0; c < a.channels; ++c) {
      float value = value_at(a, level, own, c);
      if (a.weights != nullptr) {
        const float w = a.weights[n];
        value = w * value + (1 - w) * value_at(a, level, partner, c);
      }
      store(target[c], value);
    }
    for (int c = a.channels; c < a.target_channels; ++c) store(target[c], 0.0f);
  }
}

__global__ void mix(const int32_t* labels, const float* weights, float smoothing, int64_t rows,
                    int64_t classes, float* targets) {
  const float base = smoothing / static_cast<float>(classes), kept = 1 - smoothing;
  for (int64_t i = global_thread(); i < rows * classes; i += total_threads()) {
    const int64_t n = i / classes, k = i % classes;
    float value = base;
    if (k == labels[n]) value += weights[n] * kept;
    if (k == labels[rows - 1 - n]) value += (1 - weights[n]) * kept;
    targets[i] = value;
  }
}

}  // namespace

void place_images(Stream stream, Element element, const PlacedImages& args, void* y) {
  dispatch(element, [&](auto zero) {
    using T = decltype(zero);
    launch(stream, blocks_for(args.rows * args.height * args.width), kThreads, place<T>, args,
           static_cast<T*>(y));
  });
}

void mix_targets(Stream stream, const int32_t* labels, const float* weights, float smoothing,
                 int64_t rows, int64_t classes, float* targets) {
  launch(stream, blocks_for(rows * classes), kThreads, mix, labels, weights, smoothing, rows,
         classes, targets);
}

}  // namespace assay::cuda::kernels
