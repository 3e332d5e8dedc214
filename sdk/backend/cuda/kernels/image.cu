// Between a batch as it is given and what a network reads: images from bytes, mixed rows and
// targets, counts of targets.
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

// A thread per pixel, a row of blocks per image. y [rows, height, width, target_channels].
__global__ void place(PlacedImages a, float* y) {
  __shared__ float level[kMostChannels * kLevels];
  for (int i = static_cast<int>(threadIdx.x); i < a.channels * kLevels; i += kThreads) {
    const int c = i / kLevels;
    level[i] = (static_cast<float>(i % kLevels) * a.scale - a.mean[c]) / a.stddev[c];
  }
  __syncthreads();
  // 32 bits hold the pixels of an image, and divide faster.
  const auto width = static_cast<unsigned>(a.width);
  const unsigned image = static_cast<unsigned>(a.height) * width;
  for (int64_t n = blockIdx.y; n < a.rows; n += gridDim.y) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < image;
         i += gridDim.x * blockDim.x) {
      const unsigned row = i / width, column = i - row * width;
      const int64_t at = source_of(a, n, row, column);
      float* target = y + (n * image + i) * a.target_channels;
      for (int c = 0; c < a.channels; ++c)
        target[c] = level[kLevels * c + (at < 0 ? 0 : a.pixels[at + c])];
      for (int c = a.channels; c < a.target_channels; ++c) target[c] = 0;
    }
  }
}

// x, y [rows, elems], w [rows].
__global__ void mix(const float* x, const float* w, int64_t rows, int64_t elems, float* y) {
  for (int64_t i = global_thread(); i < rows * elems; i += total_threads()) {
    const int64_t n = i / elems;
    const float other = x[(rows - 1 - n) * elems + i % elems];
    y[i] = w[n] * x[i] + (1 - w[n]) * other;
  }
}

// labels, weights [rows]; targets [rows, classes].
__global__ void mix_labels(const int32_t* labels, const float* weights, float smoothing,
                           int64_t rows, int64_t classes, float* targets) {
  const float base = smoothing / static_cast<float>(classes), kept = 1 - smoothing;
  for (int64_t i = global_thread(); i < rows * classes; i += total_threads()) {
    const int64_t n = i / classes, k = i % classes;
    float value = base;
    if (k == labels[n]) value += weights[n] * kept;
    if (k == labels[rows - 1 - n]) value += (1 - weights[n]) * kept;
    targets[i] = value;
  }
}

// A block per row of x [rows, elems]: partial [rows] is 1 where an element is not 0.
__global__ void find_rows(const float* x, int64_t rows, int64_t elems, double* partial) {
  __shared__ int found[kThreads];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    int any = 0;
    for (int64_t i = threadIdx.x; i < elems; i += kThreads)
      any = any != 0 || x[row * elems + i] != 0;
    found[threadIdx.x] = any;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < kThreads; ++i) any = any != 0 || found[i] != 0;
      partial[row] = any;
    }
    __syncthreads();
  }
}

// x [n]; partial [blocks].
__global__ void find_labels(const int32_t* x, int64_t n, double* partial) {
  __shared__ int found[kThreads];
  int mine = 0;
  for (int64_t i = global_thread(); i < n; i += total_threads()) mine += x[i] >= 0 ? 1 : 0;
  found[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (int i = 0; i < kThreads; ++i) sum += found[i];
  partial[blockIdx.x] = sum;
}

constexpr int64_t kMostBlocks = 65535;

}  // namespace

void place_images(Stream stream, const PlacedImages& args, float* y) {
  const dim3 grid(blocks_for(args.height * args.width),
                  static_cast<unsigned>(args.rows < kMostBlocks ? args.rows : kMostBlocks));
  launch(stream, grid, kThreads, place, args, y);
}

void mix_rows(Stream stream, const float* x, const float* w, int64_t rows, int64_t elems,
              float* y) {
  launch(stream, blocks_for(rows * elems), kThreads, mix, x, w, rows, elems, y);
}

void mix_targets(Stream stream, const int32_t* labels, const float* weights, float smoothing,
                 int64_t rows, int64_t classes, float* targets) {
  launch(stream, blocks_for(rows * classes), kThreads, mix_labels, labels, weights, smoothing, rows,
         classes, targets);
}

void count_rows(Stream stream, const float* x, int64_t rows, int64_t elems, double* partial,
                float* count) {
  launch(stream, static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks), kThreads,
         find_rows, x, rows, elems, partial);
  sum_partials(stream, partial, rows, 1.0, count);
}

void count_labels(Stream stream, const int32_t* x, int64_t n, double* partial, float* count) {
  const unsigned blocks = blocks_for(n);
  launch(stream, blocks, kThreads, find_labels, x, n, partial);
  sum_partials(stream, partial, static_cast<int64_t>(blocks), 1.0, count);
}

}  // namespace assay::cuda::kernels
