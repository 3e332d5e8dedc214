// Softmax and its cross-entropy loss, row by row. A row's exponentials are summed in f32 lanes;
// losses over rows in f64 by the caller's fixed partition.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

struct RowSums {
  float largest;
  float exponentials;  // sum of e^(x - largest)
};

// x [classes].
template <class T>
RowSums row_sums(const T* x, int64_t classes) {
  float largest = -__builtin_inff();
#pragma omp simd reduction(max : largest)
  for (int64_t c = 0; c < classes; ++c) {
    const float v = load(x[c]);
    largest = v > largest ? v : largest;
  }
  float sum = 0;  // a NaN anywhere in the row makes it NaN
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) sum += exponential(load(x[c]) - largest);
  return {largest, sum};
}

// x, y [rows, 2]: whole vectors of rows, where a row has too few classes for one.
template <class T>
void softmax_of_two(const T* x, float* y, int64_t rows) {
#pragma omp simd
  for (int64_t r = 0; r < rows; ++r) {
    const float difference = load(x[2 * r + 1]) - load(x[2 * r]);
    y[2 * r] = sigmoid(-difference);
    y[2 * r + 1] = sigmoid(difference);
  }
}

// x, y [rows, classes].
template <class T>
void softmax(const void* x, float* y, int64_t rows, int64_t classes) {
  if (classes == 2) return softmax_of_two(static_cast<const T*>(x), y, rows);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = static_cast<const T*>(x) + r * classes;
    float* out = y + r * classes;
    const RowSums s = row_sums(row, classes);
    const float inverse = 1.0f / s.exponentials;
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) {
      out[c] = exponential(load(row[c]) - s.largest) * inverse;
    }
  }
}

// x, y [rows, classes].
template <class T>
void log_softmax(const void* x, float* y, int64_t rows, int64_t classes) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = static_cast<const T*>(x) + r * classes;
    float* out = y + r * classes;
    const RowSums s = row_sums(row, classes);
    const auto log_sum = static_cast<float>(__builtin_log(static_cast<double>(s.exponentials)));
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) out[c] = load(row[c]) - s.largest - log_sum;
  }
}

// -sum_c q_c (x_c - largest - log sum): the smoothed part needs the mean of the logits.
template <class T>
double row_loss(const T* x, int32_t label, float smoothing, int64_t classes, float* logsumexp) {
  if (logsumexp != nullptr) *logsumexp = 0;
  if (label == -1) return 0;
  if (label < 0 || label >= classes) return __builtin_nan("");
  const RowSums s = row_sums(x, classes);
  const double largest = s.largest;
  const double log_sum = __builtin_log(static_cast<double>(s.exponentials));
  if (logsumexp != nullptr) *logsumexp = static_cast<float>(largest + log_sum);
  const double at_label = log_sum + largest - static_cast<double>(load(x[label]));
  if (smoothing == 0.0f) return at_label;
  double below = 0;  // sum of (largest - x): small numbers, unlike the logits themselves
#pragma omp simd reduction(+ : below)
  for (int64_t c = 0; c < classes; ++c) below += static_cast<double>(s.largest - load(x[c]));
  const double mean_loss = log_sum + below / static_cast<double>(classes);
  return at_label + static_cast<double>(smoothing) * (mean_loss - at_label);
}

// x [rows, columns], labels and logsumexp [rows].
template <class T>
double cross_entropy(const void* x, const int32_t* labels, float smoothing, int64_t rows,
                     int64_t classes, int64_t columns, float* logsumexp) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    sum += row_loss(static_cast<const T*>(x) + r * columns, labels[r], smoothing, classes,
                    logsumexp == nullptr ? nullptr : logsumexp + r);
  }
  return sum;
}

// x, dx [rows, columns], labels [rows]. dx may be x: the logit at the label is kept for the end.
template <class T>
void cross_entropy_grad(const void* x, const int32_t* labels, float smoothing, float factor,
                        void* dx, int64_t rows, int64_t classes, int64_t columns) {
  const float spread = smoothing / static_cast<float>(classes);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = static_cast<const T*>(x) + r * columns;
    T* out = static_cast<T*>(dx) + r * columns;
    for (int64_t c = classes; c < columns; ++c) store(out[c], 0.0f);
    const int32_t label = labels[r];
    if (label == -1) {
      for (int64_t c = 0; c < classes; ++c) store(out[c], 0.0f);
      continue;
    }
    const RowSums s = row_sums(row, classes);
    const float inverse = 1.0f / s.exponentials;
    const bool known = label >= 0 && label < classes;
    const float at_label = known ? load(row[label]) : 0.0f;
    const float undefined = known ? 0.0f : __builtin_nanf("");
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) {
      const float p = exponential(load(row[c]) - s.largest) * inverse;
      store(out[c], factor * (p - spread + undefined));
    }
    if (known) {
      const float p = exponential(at_label - s.largest) * inverse;
      store(out[label], factor * (p - spread - (1.0f - smoothing)));
    }
  }
}

// A column takes its place before those of smaller numbers: of equal ones the earlier stays first.
template <class T>
void top_k(const void* x, int64_t k, float* value, int32_t* column, int64_t rows, int64_t classes) {
  const auto is_before = [](float a, float b) { return a > b || (b != b && a == a); };
  for (int64_t r = 0; r < rows; ++r, value += k, column += k) {
    const T* row = static_cast<const T*>(x) + r * classes;
    int64_t found = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const float v = load(row[c]);
      if (found == k && !is_before(v, value[k - 1])) continue;
      if (found < k) ++found;
      int64_t place = found - 1;
      for (; place > 0 && is_before(v, value[place - 1]); --place) {
        value[place] = value[place - 1];
        column[place] = column[place - 1];
      }
      value[place] = v;
      column[place] = static_cast<int32_t>(c);
    }
  }
}

// x [rows, classes], labels [rows].
template <class T>
int64_t top_k_correct(const void* x, const int32_t* labels, int64_t k, int64_t rows,
                      int64_t classes) {
  int64_t correct = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t label = labels[r];
    if (label < 0 || label >= classes) continue;
    const T* row = static_cast<const T*>(x) + r * classes;
    const float mine = load(row[label]);
    int64_t ahead = 0;
#pragma omp simd reduction(+ : ahead)
    for (int64_t c = 0; c < classes; ++c) {
      const float v = load(row[c]);
      ahead += (v > mine) | ((v == mine) & (c < label));
    }
    correct += mine == mine && ahead < k;
  }
  return correct;
}

}  // namespace

extern const SoftmaxKernels kSoftmax;
const SoftmaxKernels kSoftmax = {
    {softmax<float>, softmax<Bf16>},
    {log_softmax<float>, log_softmax<Bf16>},
    {cross_entropy<float>, cross_entropy<Bf16>},
    {cross_entropy_grad<float>, cross_entropy_grad<Bf16>},
    {top_k<float>, top_k<Bf16>},
    {top_k_correct<float>, top_k_correct<Bf16>},
};

}  // namespace assay::cpu::ASSAY_ISA
