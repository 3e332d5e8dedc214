// Softmax and its cross-entropy loss: a row of logits belongs to several threads (rows.h).
// Exponentials are summed in f32, losses over rows in f64.
// logits, y and dx [rows, classes], labels [rows], dense; partial [blocks].
#include "sdk/backend/cuda/kernels/loss_factor.h"
#include "sdk/backend/cuda/kernels/rows.h"

namespace assay::cuda::kernels {
namespace {

struct RowSums {
  float largest;
  float exponentials;  // sum of e^(x - largest); NaN if any logit is
};

// x: the row of this thread; its threads take classes in turn.
template <class T>
__device__ RowSums row_sums(const Rows& r, const T* x, bool has_row, float* shared) {
  float largest = -INFINITY;
  if (has_row) {
    for (int64_t c = r.lane(); c < r.size; c += r.width) {
      const float v = load(x[c]);
      largest = v > largest ? v : largest;
    }
  }
  largest = row_reduce(r, largest, shared, Larger{});
  float sum = 0;
  if (has_row) {
    for (int64_t c = r.lane(); c < r.size; c += r.width) sum += expf(load(x[c]) - largest);
  }
  return {largest, row_reduce(r, sum, shared, Plus{})};
}

// y = e^(x - largest) / sum, or its logarithm: neither overflows.
template <class T>
__global__ void softmax_rows(Rows r, const T* logits, bool log_of_it, float* y) {
  __shared__ float shared[kThreads];
  const int64_t row = r.row();
  const bool has_row = row < r.rows;
  const T* x = logits + row * r.size;
  const RowSums s = row_sums(r, x, has_row, shared);
  if (!has_row) return;
  const float inverse = 1.0f / s.exponentials;
  const float log_sum =
      log_of_it ? static_cast<float>(log(static_cast<double>(s.exponentials))) : 0.0f;
  for (int64_t c = r.lane(); c < r.size; c += r.width) {
    const float below = load(x[c]) - s.largest;
    y[row * r.size + c] = log_of_it ? below - log_sum : expf(below) * inverse;
  }
}

// A number and its column; those that are found already, and rows that are not there, come last.
struct Ranked {
  float value;
  int32_t column;
};
__device__ inline bool is_before(const Ranked& a, const Ranked& b) {
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return b_is_nan;
  return a_is_nan || a.value == b.value ? a.column < b.column : a.value > b.value;
}
struct First {
  __device__ Ranked operator()(const Ranked& a, const Ranked& b) const {
    return is_before(b, a) ? b : a;
  }
};

// Each round finds the first of those behind the last one found.
template <class T>
__global__ void top_rows(Rows r, const T* logits, int64_t k, float* value, int32_t* column) {
  __shared__ Ranked shared[kThreads];
  const int64_t row = r.row();
  const bool has_row = row < r.rows;
  const T* x = logits + row * r.size;
  Ranked last{INFINITY, -1};
  for (int64_t i = 0; i < k; ++i) {
    Ranked best{NAN, INT32_MAX};
    if (has_row) {
      for (int64_t c = r.lane(); c < r.size; c += r.width) {
        const Ranked other{load(x[c]), static_cast<int32_t>(c)};
        if (is_before(last, other) && is_before(other, best)) best = other;
      }
    }
    last = row_reduce(r, best, shared, First{});
    if (!has_row || r.lane() != 0) continue;
    value[row * k + i] = last.value;
    column[row * k + i] = last.column;
  }
}

// -sum_c q_c log softmax(x)_c, in the first thread of the row. The smoothed part needs the mean of
// largest - x, which are small numbers, unlike the logits themselves.
template <class T>
__device__ double row_loss(const Rows& r, const T* x, int32_t label, float smoothing, bool has_row,
                           float* shared, double* shared_wide, float* logsumexp) {
  const RowSums s = row_sums(r, x, has_row, shared);
  double below = 0;
  if (smoothing != 0.0f) {
    if (has_row) {
      for (int64_t c = r.lane(); c < r.size; c += r.width) {
        below += static_cast<double>(s.largest - load(x[c]));
      }
    }
    below = row_reduce(r, below, shared_wide, Plus{});
  }
  if (!has_row || r.lane() != 0) return 0;
  if (logsumexp != nullptr) *logsumexp = 0;
  if (label == -1) return 0;
  if (label < 0 || label >= r.size) return static_cast<double>(NAN);
  const double log_sum = log(static_cast<double>(s.exponentials));
  if (logsumexp != nullptr)
    *logsumexp = static_cast<float>(log_sum + static_cast<double>(s.largest));
  const double at_label =
      log_sum + static_cast<double>(s.largest) - static_cast<double>(load(x[label]));
  if (smoothing == 0.0f) return at_label;
  const double mean_loss = log_sum + below / static_cast<double>(r.size);
  return at_label + static_cast<double>(smoothing) * (mean_loss - at_label);
}

// partial[block] = sum of the losses of its rows
template <class T>
__global__ void loss_rows(Rows r, int64_t columns, const T* logits, const int32_t* labels,
                          float smoothing, double* partial, float* logsumexp) {
  __shared__ float shared[kThreads];
  __shared__ double shared_wide[kThreads];
  const int64_t row = r.row();
  const bool has_row = row < r.rows;
  const double loss =
      row_loss(r, logits + row * columns, has_row ? labels[row] : -1, smoothing, has_row, shared,
               shared_wide, logsumexp == nullptr ? nullptr : logsumexp + row);
  const double sum = block_sum(loss, shared_wide);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__global__ void loss_grad_rows(Rows r, int64_t columns, const T* logits, const int32_t* labels,
                               float smoothing, LossFactor factor, T* dx) {
  __shared__ float shared[kThreads];
  const int64_t row = r.row();
  const bool has_row = row < r.rows;
  const T* x = logits + row * columns;
  const RowSums s = row_sums(r, x, has_row, shared);
  if (!has_row) return;
  T* out = dx + row * columns;  // may be x: a thread writes only what it alone still reads
  for (int64_t c = r.size + r.lane(); c < columns; c += r.width) store(out[c], 0.0f);
  const int32_t label = labels[row];
  const float scale = value_of(factor), inverse = 1.0f / s.exponentials;
  const float spread = smoothing / static_cast<float>(r.size);
  const bool known = label >= 0 && label < r.size;
  for (int64_t c = r.lane(); c < r.size; c += r.width) {
    const float p = expf(load(x[c]) - s.largest) * inverse;
    const float q = c == label ? spread + (1.0f - smoothing) : spread;
    store(out[c], label == -1 ? 0.0f : known ? scale * (p - q) : NAN);
  }
}

// partial[block] = rows whose label is among the k largest
template <class T>
__global__ void rank_rows(Rows r, const T* logits, const int32_t* labels, int64_t k,
                          double* partial) {
  __shared__ double shared[kThreads];
  const int64_t row = r.row();
  const bool counts = row < r.rows && labels[row] >= 0 && labels[row] < r.size;
  const T* x = logits + row * r.size;
  const int32_t label = counts ? labels[row] : 0;
  const float mine = counts ? load(x[label]) : NAN;
  double ahead = 0;  // counts are exact
  if (counts) {
    for (int64_t c = r.lane(); c < r.size; c += r.width) {
      const float v = load(x[c]);
      ahead += v > mine || (v == mine && c < label) ? 1 : 0;
    }
  }
  ahead = row_reduce(r, ahead, shared, Plus{});
  const bool correct = mine == mine && r.lane() == 0 && ahead < static_cast<double>(k);
  const double sum = block_sum(correct ? 1.0 : 0.0, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// *y = factor * sum of the partial sums; one block.
__global__ void sum_in_one_block(const double* partial, int64_t n, double factor, float* y) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) *y = static_cast<float>(factor * sum);
}

__global__ void divide_by_count(const float* count, float epsilon, float* loss) {
  *loss = value_of({1.0f, loss, count, epsilon});
}

void finish_sum(Stream stream, const Rows& r, double factor, const double* partial, float* y) {
  sum_partials(stream, partial, static_cast<int64_t>(blocks_of(r)), factor, y);
}

}  // namespace

void sum_partials(Stream stream, const double* partial, int64_t n, double factor, float* y) {
  launch(stream, 1, kThreads, sum_in_one_block, partial, n, factor, y);
}

void average_counted(Stream stream, const int32_t* labels, int64_t n, float epsilon,
                     double* partial, float* count, float* loss) {
  count_labels(stream, labels, n, partial, count);
  launch(stream, 1, 1, divide_by_count, count, epsilon, loss);
}

size_t row_sums_bytes(int64_t rows, int64_t classes) {
  return blocks_of(rows_of(rows, classes)) * sizeof(double);
}

void softmax(Stream stream, Element element, const void* x, bool log, float* y, int64_t rows,
             int64_t classes) {
  const Rows r = rows_of(rows, classes);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of(r), kThreads, softmax_rows<T>, r, static_cast<const T*>(x), log, y);
  });
}

void top_k(Stream stream, Element element, const void* x, int64_t k, float* value, int32_t* column,
           int64_t rows, int64_t classes) {
  const Rows r = rows_of(rows, classes);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of(r), kThreads, top_rows<T>, r, static_cast<const T*>(x), k, value,
           column);
  });
}

void cross_entropy(Stream stream, Element element, const void* x, const int32_t* labels,
                   float smoothing, double factor, int64_t rows, int64_t classes, int64_t columns,
                   double* partial, float* logsumexp, float* loss) {
  const Rows r = rows_of(rows, classes);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of(r), kThreads, loss_rows<T>, r, columns, static_cast<const T*>(x),
           labels, smoothing, partial, logsumexp);
  });
  finish_sum(stream, r, factor, partial, loss);
}

void cross_entropy_grad(Stream stream, Element element, const void* x, const int32_t* labels,
                        float smoothing, const LossFactor& factor, void* dx, int64_t rows,
                        int64_t classes, int64_t columns) {
  const Rows r = rows_of(rows, classes);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of(r), kThreads, loss_grad_rows<T>, r, columns, static_cast<const T*>(x),
           labels, smoothing, factor, static_cast<T*>(dx));
  });
}

void top_k_correct(Stream stream, Element element, const void* x, const int32_t* labels, int64_t k,
                   int64_t rows, int64_t classes, double* partial, float* count) {
  const Rows r = rows_of(rows, classes);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of(r), kThreads, rank_rows<T>, r, static_cast<const T*>(x), labels, k,
           partial);
  });
  finish_sum(stream, r, 1.0, partial, count);
}

}  // namespace assay::cuda::kernels
