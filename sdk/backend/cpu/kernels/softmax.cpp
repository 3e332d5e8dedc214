// Softmax and its cross-entropy loss, row by row. A row's exponentials are summed in f32 lanes;
// losses over rows in f64 by the caller's fixed partition.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// x [classes].
template <class T>
RowSums row_sums(const T* x, int64_t classes) {
  Vec lanes = Vec{} - __builtin_inff();
  for_vectors(classes, [&](int64_t c, int64_t n) {
    const Vec v = first_lanes(load_lanes(x + c, n), n, -__builtin_inff());
    lanes = v > lanes ? v : lanes;
  });
  float largest = lanes[0];
  for (int64_t i = 1; i < least(classes, kLanes); ++i)
    largest = lanes[i] > largest ? lanes[i] : largest;
  Vec sum{};  // a NaN anywhere in the row makes it NaN
  for_vectors(classes, [&](int64_t c, int64_t n) {
    sum += first_lanes(exponential(load_lanes(x + c, n) - largest), n);
  });
  return {largest, sum_of_lanes(sum, classes)};
}

// The probabilities of classes c to c + n - 1.
template <class T>
Vec probabilities(const RowSums& s, const T* x, int64_t c, int64_t n) {
  return exponential(load_lanes(x + c, n) - s.largest) * (1.0f / s.exponentials);
}

// Lanes 0 and 1, 2 and 3 and so on in each other's place.
inline Vec neighbours(Vec x) {
#if ASSAY_LANES == 16
  return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif ASSAY_LANES == 8
  return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
  return __builtin_shufflevector(x, x, 1, 0, 3, 2);
#endif
}

// x, y [rows, classes].
template <class T>
[[gnu::flatten]] void softmax(const void* x, float* y, int64_t rows, int64_t classes) {
  const T* row = static_cast<const T*>(x);
  if (classes == 2) {  // whole vectors of rows
    for_vectors(2 * rows, [&](int64_t i, int64_t n) {
      const Vec v = load_lanes(row + i, n);
      store_lanes(y + i, sigmoid(v - neighbours(v)), n);
    });
    return;
  }
  for (int64_t r = 0; r < rows; ++r, row += classes, y += classes) {
    const RowSums s = row_sums(row, classes);
    for_vectors(classes,
                [&](int64_t c, int64_t n) { store_lanes(y + c, probabilities(s, row, c, n), n); });
  }
}

// x, y [rows, classes].
template <class T>
[[gnu::flatten]] void log_softmax(const void* x, float* y, int64_t rows, int64_t classes) {
  const T* row = static_cast<const T*>(x);
  for (int64_t r = 0; r < rows; ++r, row += classes, y += classes) {
    const RowSums s = row_sums(row, classes);
    const auto log_sum = static_cast<float>(__builtin_log(static_cast<double>(s.exponentials)));
    for_vectors(classes, [&](int64_t c, int64_t n) {
      store_lanes(y + c, load_lanes(row + c, n) - s.largest - log_sum, n);
    });
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
[[gnu::flatten]] double cross_entropy(const void* x, const int32_t* labels, float smoothing,
                                      int64_t rows, int64_t classes, int64_t columns,
                                      float* logsumexp) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    sum += row_loss(static_cast<const T*>(x) + r * columns, labels[r], smoothing, classes,
                    logsumexp == nullptr ? nullptr : logsumexp + r);
  }
  return sum;
}

// x, dx [rows, columns], labels [rows]. dx may be x: the logit at the label is kept for the end.
template <class T>
[[gnu::flatten]] void cross_entropy_grad(const void* x, const int32_t* labels, float smoothing,
                                         float factor, void* dx, int64_t rows, int64_t classes,
                                         int64_t columns) {
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
    const bool known = label >= 0 && label < classes;
    const float at_label = known ? load(row[label]) : 0.0f;
    const float undefined = known ? 0.0f : __builtin_nanf("");
    for_vectors(classes, [&](int64_t c, int64_t n) {
      store_lanes(out + c, factor * (probabilities(s, row, c, n) - spread + undefined), n);
    });
    if (known) {
      const float p = exponential(at_label - s.largest) * (1.0f / s.exponentials);
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
