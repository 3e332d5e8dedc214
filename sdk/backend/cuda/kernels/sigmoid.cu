// The cross-entropy of sigmoids: log(1 + e^-|x|) is small where |x| is large, so nothing overflows
// and nothing is lost. x, dx, targets [n].
#include "sdk/backend/cuda/kernels/loss_factor.h"

namespace assay::cuda::kernels {
namespace {

// partial[block] = sum of its losses
template <class T>
__global__ void losses(const T* x, const int32_t* target, int64_t n, double* partial) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int64_t i = global_thread(); i < n; i += total_threads()) {
    if (target[i] == -1) continue;
    // -log sigmoid of what should be large
    const float v = load(x[i]), should = target[i] == 1 ? v : -v;
    const bool is_known = target[i] == 0 || target[i] == 1;
    const double loss = static_cast<double>(should < 0 ? -should : 0.0f) +
                        log1p(static_cast<double>(expf(-fabsf(v))));
    sum += is_known ? loss : static_cast<double>(NAN);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__global__ void gradients(const T* x, const int32_t* target, LossFactor factor, T* dx, int64_t n) {
  const float scale = value_of(factor);
  for (int64_t i = global_thread(); i < n; i += total_threads()) {
    const float wrong = 1.0f / (1.0f + expf(-load(x[i]))) - static_cast<float>(target[i]);
    const bool is_known = target[i] == 0 || target[i] == 1;
    store(dx[i], target[i] == -1 ? 0.0f : is_known ? scale * wrong : NAN);
  }
}

}  // namespace

void sigmoid_cross_entropy(Stream stream, Element element, const void* x, const int32_t* target,
                           int64_t n, double* partial, float* loss) {
  const unsigned blocks = blocks_for(n);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks, kThreads, losses<T>, static_cast<const T*>(x), target, n, partial);
  });
  sum_partials(stream, partial, static_cast<int64_t>(blocks), 1.0, loss);
}

void sigmoid_cross_entropy_grad(Stream stream, Element element, const void* x,
                                const int32_t* target, const LossFactor& factor, void* dx,
                                int64_t n) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(n), kThreads, gradients<T>, static_cast<const T*>(x), target, factor,
           static_cast<T*>(dx), n);
  });
}

}  // namespace assay::cuda::kernels
