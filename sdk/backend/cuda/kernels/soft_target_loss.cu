// Losses over the pixels of images, [pixels, classes] against soft targets in f32: one thread per
// pixel, as classes are few. Sums over pixels are f64 in a fixed order.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

struct RowSums {
  float largest;
  float inverse;  // of the sum of e^(x - largest)
};
// x [classes].
template <class T>
__device__ RowSums row_sums(const T* x, int64_t classes) {
  float largest = load(x[0]);
  for (int64_t c = 1; c < classes; ++c) {
    const float v = load(x[c]);
    largest = v > largest ? v : largest;
  }
  float sum = 0;  // a NaN anywhere in the row makes it NaN
  for (int64_t c = 0; c < classes; ++c) sum += expf(load(x[c]) - largest);
  return {largest, 1.0f / sum};
}
template <class T>
__device__ float probability(const RowSums& s, const T& x) {
  return expf(load(x) - s.largest) * s.inverse;
}

// logits, target [pixels, classes], of all images; partial [blocks].
template <class T>
__global__ void cross_entropy_pixels(const T* logits, const float* target, int64_t pixels,
                                     int64_t classes, double* partial) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int64_t i = global_thread(); i < pixels; i += total_threads()) {
    const T* x = logits + i * classes;
    const float* t = target + i * classes;
    const RowSums s = row_sums(x, classes);
    const double log_sum = -log(static_cast<double>(s.inverse));
    for (int64_t c = 0; c < classes; ++c) {
      // Not t * (...): an infinite logit of another class must not make 0 * infinity.
      if (t[c] == 0.0f && log_sum == log_sum) continue;
      sum += static_cast<double>(t[c]) * (log_sum + static_cast<double>(s.largest - load(x[c])));
    }
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// logits, target, dx [pixels, classes], of all images; dloss [].
template <class T>
__global__ void cross_entropy_grad_pixels(const T* logits, const float* target, float factor,
                                          const float* dloss, T* dx, int64_t pixels,
                                          int64_t classes) {
  const float scale = *dloss * factor;
  for (int64_t i = global_thread(); i < pixels; i += total_threads()) {
    const T* x = logits + i * classes;
    const float* t = target + i * classes;
    T* out = dx + i * classes;
    const RowSums s = row_sums(x, classes);
    float weight = 0;
    for (int64_t c = 0; c < classes; ++c) weight += t[c];
    for (int64_t c = 0; c < classes; ++c)
      store(out[c], scale * (probability(s, x[c]) * weight - t[c]));
  }
}

// A row of blocks per image. logits, target [images, pixels, classes];
// partial[image][block][p t, p^2, t^2][class].
template <class T>
__global__ void overlap_pixels(const T* logits, const float* target, int64_t pixels,
                               int64_t classes, double* partial) {
  __shared__ double shared[kThreads];
  const int64_t image = blockIdx.y;
  double* out = partial + (image * gridDim.x + blockIdx.x) * 3 * classes;
  for (int64_t c = 0; c < classes; ++c) {
    double common = 0, p_squares = 0, t_squares = 0;
    for (int64_t i = global_thread(); i < pixels; i += total_threads()) {
      const int64_t at = (image * pixels + i) * classes;
      const float p = probability(row_sums(logits + at, classes), logits[at + c]);
      const float t = target[at + c];
      common += static_cast<double>(p * t);
      p_squares += static_cast<double>(p * p);
      t_squares += static_cast<double>(t * t);
    }
    common = block_sum(common, shared);
    p_squares = block_sum(p_squares, shared);
    t_squares = block_sum(t_squares, shared);
    if (threadIdx.x == 0) {
      out[c] = common;
      out[classes + c] = p_squares;
      out[2 * classes + c] = t_squares;
    }
  }
}

// An image whose target is zero everywhere is padding.
template <class V>
__device__ bool is_padding(const V* sums, int64_t classes) {
  for (int64_t c = 0; c < classes; ++c) {
    if (sums[2 * classes + c] != 0) return false;
  }
  return true;
}

// One block per image: adds up the blocks' sums in their order, sums [images, 3, classes], and
// losses[image] = mean of 1 - D over the classes.
__global__ void finish_overlap(double* partial, int64_t blocks, int64_t classes, double epsilon,
                               float* sums, double* losses) {
  const int64_t image = blockIdx.x, kinds = 3 * classes;
  double* mine = partial + image * blocks * kinds;  // totals replace the first block's sums
  for (int64_t k = threadIdx.x; k < kinds; k += blockDim.x) {
    for (int64_t b = 1; b < blocks; ++b) mine[k] += mine[b * kinds + k];
    sums[image * kinds + k] = static_cast<float>(mine[k]);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double missed = 0;
  for (int64_t c = 0; c < classes && !is_padding(mine, classes); ++c) {
    const double squares = mine[classes + c] + mine[2 * classes + c];
    missed += 1 - (2 * mine[c] + epsilon) / (squares + epsilon);
  }
  losses[image] = missed / static_cast<double>(classes);
}

// The gradient of -scale * D in p is slopes[c] * t + slopes[classes + c] * p at every pixel of the
// image. One block per image. all_sums [images, 3, classes], all_slopes [images, 2, classes].
__global__ void overlap_slopes(const float* all_sums, int64_t classes, double epsilon,
                               double factor, const float* dloss, float* all_slopes) {
  const float* sums = all_sums + blockIdx.x * 3 * classes;
  float* slopes = all_slopes + blockIdx.x * 2 * classes;
  const double scale = static_cast<double>(*dloss) * factor;
  const bool padding = is_padding(sums, classes);
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
    const double squares = static_cast<double>(sums[classes + c]) +
                           static_cast<double>(sums[2 * classes + c]) + epsilon;
    const double by_target = padding ? 0 : -2 * scale / squares;
    slopes[c] = static_cast<float>(by_target);
    slopes[classes + c] =
        static_cast<float>(-by_target * (2 * static_cast<double>(sums[c]) + epsilon) / squares);
  }
}

// A row of blocks per image. logits, target, dx [images, pixels, classes]; all_slopes
// [images, 2, classes].
template <class T>
__global__ void overlap_grad_pixels(const T* logits, const float* target, const float* all_slopes,
                                    int64_t pixels, int64_t classes, T* dx) {
  const int64_t image = blockIdx.y;
  const float* by_target = all_slopes + image * 2 * classes;
  const float* by_p = by_target + classes;
  for (int64_t i = global_thread(); i < pixels; i += total_threads()) {
    const int64_t at = (image * pixels + i) * classes;
    const T* x = logits + at;
    const float* t = target + at;
    const RowSums s = row_sums(x, classes);
    float mean = 0;  // of the gradient of p, weighted by p
    for (int64_t c = 0; c < classes; ++c) {
      const float p = probability(s, x[c]);
      mean += p * (by_target[c] * t[c] + by_p[c] * p);
    }
    // dx may be the logits: a class is overwritten only after its own p was taken.
    for (int64_t c = 0; c < classes; ++c) {
      const float p = probability(s, x[c]);
      store(dx[at + c], p * (by_target[c] * t[c] + by_p[c] * p - mean));
    }
  }
}

constexpr int64_t kMostBlocks = 1024;

unsigned sum_blocks(int64_t pixels) {
  const int64_t blocks = ceil_div(pixels, 4 * kThreads);
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

// Blocks of one image, fewer where there are many images.
unsigned image_blocks(const PixelShape& s) {
  const int64_t blocks = ceil_div(s.pixels, 4 * kThreads), most = ceil_div(kMostBlocks, s.images);
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

}  // namespace

size_t pixel_sums_bytes(const PixelShape& s) {
  return sum_blocks(s.images * s.pixels) * sizeof(double);
}

void soft_target_cross_entropy(Stream stream, Element element, const PixelShape& s, const void* x,
                               const float* target, double factor, double* partial, float* loss) {
  const int64_t pixels = s.images * s.pixels;
  const unsigned blocks = sum_blocks(pixels);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks, kThreads, cross_entropy_pixels<T>, static_cast<const T*>(x), target,
           pixels, s.classes, partial);
  });
  sum_partials(stream, partial, blocks, factor, loss);
}

void soft_target_cross_entropy_grad(Stream stream, Element element, const PixelShape& s,
                                    const void* x, const float* target, float factor,
                                    const float* dloss, void* dx) {
  const int64_t pixels = s.images * s.pixels;
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(pixels), kThreads, cross_entropy_grad_pixels<T>,
           static_cast<const T*>(x), target, factor, dloss, static_cast<T*>(dx), pixels, s.classes);
  });
}

size_t overlap_sums_bytes(const PixelShape& s) {
  const auto images = static_cast<size_t>(s.images);
  return (images * image_blocks(s) * 3 * static_cast<size_t>(s.classes) + images) * sizeof(double);
}

void soft_dice(Stream stream, Element element, const PixelShape& s, const void* x,
               const float* target, double epsilon, double factor, double* partial, float* loss,
               float* sums) {
  const unsigned blocks = image_blocks(s);
  const auto images = static_cast<unsigned>(s.images);
  double* losses = partial + s.images * blocks * 3 * s.classes;
  dispatch(element, [&]<class T>(T) {
    launch(stream, dim3(blocks, images), kThreads, overlap_pixels<T>, static_cast<const T*>(x),
           target, s.pixels, s.classes, partial);
  });
  launch(stream, images, kThreads, finish_overlap, partial, static_cast<int64_t>(blocks), s.classes,
         epsilon, sums, losses);
  sum_partials(stream, losses, s.images, factor, loss);
}

void soft_dice_grad(Stream stream, Element element, const PixelShape& s, const void* x,
                    const float* target, const float* sums, double epsilon, double factor,
                    const float* dloss, float* slopes, void* dx) {
  const auto images = static_cast<unsigned>(s.images);
  launch(stream, images, kThreads, overlap_slopes, sums, s.classes, epsilon, factor, dloss, slopes);
  const unsigned blocks = blocks_for(ceil_div(s.pixels, 4));
  dispatch(element, [&]<class T>(T) {
    launch(stream, dim3(blocks, images), kThreads, overlap_grad_pixels<T>, static_cast<const T*>(x),
           target, static_cast<const float*>(slopes), s.pixels, s.classes, static_cast<T*>(dx));
  });
}

}  // namespace assay::cuda::kernels
