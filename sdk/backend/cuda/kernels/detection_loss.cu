// Anchors, their matches, and the loss of a detector. A block of the loss has kAnchors anchors of
// one image: their matches are looked up once, and its threads share their pairs.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kPerCell = 9;

__global__ void place_anchors(AnchorCells cells, float* y) {
  const int64_t n = cells.rows * cells.columns * kPerCell;
  for (int64_t i = global_thread(); i < n; i += total_threads()) {
    const auto k = static_cast<int>(i % kPerCell);
    const int64_t cell = i / kPerCell;
    const double row = (static_cast<double>(cell / cells.columns) + 0.5) * cells.stride;
    const double column = (static_cast<double>(cell % cells.columns) + 0.5) * cells.stride;
    y[4 * i] = static_cast<float>(row - cells.height[k] / 2);
    y[4 * i + 1] = static_cast<float>(column - cells.width[k] / 2);
    y[4 * i + 2] = static_cast<float>(row + cells.height[k] / 2);
    y[4 * i + 3] = static_cast<float>(column + cells.width[k] / 2);
  }
}

// ---- Matches ------------------------------------------------------------------------------------

__device__ inline float smaller(float a, float b) { return b < a ? b : a; }
__device__ inline float larger(float a, float b) { return a < b ? b : a; }

__device__ inline float overlap(const float* a, const float* b) {
  const float rows = smaller(a[2], b[2]) - larger(a[0], b[0]);
  const float columns = smaller(a[3], b[3]) - larger(a[1], b[1]);
  if (!(rows > 0 && columns > 0)) return 0;
  const float both = rows * columns;
  const float areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
  return both / (areas - both);
}

__device__ inline int64_t boxes_of(const BoxMatching& m, const int32_t* counts, int64_t image) {
  return counts[image] < m.places ? counts[image] : m.places;
}

// A thread for each anchor of each image.
__global__ void match_each(BoxMatching m, const float* boxes, const int32_t* counts,
                           const float* anchor, int32_t* match) {
  for (int64_t i = global_thread(); i < m.images * m.anchors; i += total_threads()) {
    const int64_t image = i / m.anchors, count = boxes_of(m, counts, image);
    const float* box = boxes + image * m.places * 4;
    float most = 0;
    int32_t chosen = -1;
    for (int64_t g = 0; g < count; ++g) {
      const float o = overlap(box + 4 * g, anchor + 4 * (i % m.anchors));
      if (o > most) {
        most = o;
        chosen = static_cast<int32_t>(g);
      }
    }
    match[i] = counts[image] < 0 ? -2 : most >= m.threshold ? chosen : -1;
  }
}

// A block for each place of each image: the anchor that its box overlaps most.
__global__ void find_best(BoxMatching m, const float* boxes, const int32_t* counts,
                          const float* anchor, int32_t* best) {
  __shared__ float overlaps[kThreads];
  __shared__ int32_t places[kThreads];
  const int64_t image = blockIdx.x / m.places, g = blockIdx.x % m.places;
  if (g >= boxes_of(m, counts, image)) return;  // all threads of the block
  const float* box = boxes + (image * m.places + g) * 4;
  const int t = static_cast<int>(threadIdx.x);
  float most = -1;
  int32_t place = 0;
  for (int64_t a = t; a < m.anchors; a += kThreads) {
    const float o = overlap(box, anchor + 4 * a);
    if (o > most) {
      most = o;
      place = static_cast<int32_t>(a);
    }
  }
  overlaps[t] = most;
  places[t] = place;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) {
      const int other = t + half;
      const bool wins = overlaps[other] > overlaps[t] ||
                        (overlaps[other] == overlaps[t] && places[other] < places[t]);
      if (wins) {
        overlaps[t] = overlaps[other];
        places[t] = places[other];
      }
    }
    __syncthreads();
  }
  if (t == 0) best[blockIdx.x] = places[0];
}

// A thread for each image: a lower box comes later, and has the anchor.
__global__ void force_best(BoxMatching m, const int32_t* counts, const int32_t* best,
                           int32_t* match) {
  const int64_t image = global_thread();
  if (image >= m.images) return;
  for (int64_t g = boxes_of(m, counts, image) - 1; g >= 0; --g)
    match[image * m.anchors + best[image * m.places + g]] = static_cast<int32_t>(g);
}

__global__ void count_matches(const int32_t* match, int64_t n, float* positives) {
  __shared__ int64_t shared[kThreads];
  int64_t count = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) count += match[i] >= 0;
  count = block_sum(count, shared);
  if (threadIdx.x == 0) *positives = static_cast<float>(count);
}

// ---- Loss ---------------------------------------------------------------------------------------

constexpr int kAnchors = 32;  // of a block

// What a block knows of its anchors.
struct AnchorRow {
  int level;
  int64_t row;    // among the anchors of its level of all images
  int32_t label;  // -1: a miss, -2: padding, -3: a class that there is not
  int64_t truth;  // the box's number, if there is one
};

__device__ inline AnchorRow find_anchor(const LevelTensors& codes, const DetectionTruth& truth,
                                        int64_t image, int64_t a) {
  int level = codes.n - 1;
  while (a * 4 < codes.first[level]) --level;
  const int64_t first = codes.first[level] / 4, count = codes.first[level + 1] / 4 - first;
  AnchorRow found{level, image * count + a - first, -1, 0};
  const int32_t g = truth.match[image * truth.anchors + a];
  if (g == -1) return found;
  if (g < 0) {
    found.label = -2;
    return found;
  }
  found.truth = image * truth.places + g;
  const int32_t label = g < truth.places ? truth.labels[found.truth] : -1;
  found.label = label >= 0 && label < truth.classes ? label : -3;
  return found;
}

// The codes that an anchor should have for a box.
__device__ inline void target_of(const float* anchor, const float* box, float (&target)[4]) {
  for (int axis = 0; axis < 2; ++axis) {
    const float low = anchor[axis], high = anchor[axis + 2];
    const float size = larger(high - low, 1e-8f);
    const float wanted = larger(box[axis + 2] - box[axis], 1e-8f);
    target[axis] = ((box[axis] + box[axis + 2]) / 2 - (low + high) / 2) / size;
    target[axis + 2] = logf(wanted / size);
  }
}

// Of u, which should be large: e = e^-|u|, log(1 + e^-u), log(1 + e^u).
struct Softplus {
  float e, of_minus, of_plus;
};
__device__ inline Softplus softplus(float u) {
  const float e = expf(-fabsf(u)), small = log1pf(e);
  return {e, (u < 0 ? -u : 0.0f) + small, (u > 0 ? u : 0.0f) + small};
}

__device__ inline double huber(float error, float delta) {
  const auto e = fabs(static_cast<double>(error)), d = static_cast<double>(delta);
  return e <= d ? e * e / 2 : d * (e - d / 2);
}

// partial[2 block] = its sum of focal losses, and behind it that of the boxes'.
template <class T>
__global__ void sum_losses(LevelTensors logits, LevelTensors codes, DetectionTruth truth,
                           DetectionLossArgs p, double* partial) {
  __shared__ double shared[kThreads];
  __shared__ AnchorRow rows[kAnchors];
  const int64_t blocks = (truth.anchors + kAnchors - 1) / kAnchors;
  const int64_t image = blockIdx.x / blocks, begin = blockIdx.x % blocks * kAnchors;
  const int64_t left = truth.anchors - begin;
  const int n = left < kAnchors ? static_cast<int>(left) : kAnchors;
  const int t = static_cast<int>(threadIdx.x);
  double of_boxes = 0;
  if (t < n) {
    const AnchorRow row = find_anchor(codes, truth, image, begin + t);
    rows[t] = row;
    if (row.label == -3) of_boxes = static_cast<double>(NAN);
    if (row.label >= 0) {
      float target[4];
      target_of(truth.anchor + 4 * (begin + t), truth.boxes + 4 * row.truth, target);
      const T* code = static_cast<const T*>(codes.data[row.level]) + 4 * row.row;
      for (int k = 0; k < 4; ++k)
        if (target[k] != 0) of_boxes += huber(load(code[k]) - target[k], p.delta);
    }
  }
  __syncthreads();
  const int classes = static_cast<int>(truth.classes);
  double of_classes = 0;
  for (int i = t; i < n * classes; i += kThreads) {
    const AnchorRow& row = rows[i / classes];
    const int c = i % classes;
    if (row.label == -2) continue;
    const T* x = static_cast<const T*>(logits.data[row.level]) + row.row * classes + c;
    const bool hit = row.label == c;
    const Softplus s = softplus(hit ? load(*x) : -load(*x));
    const float loss = expf(-p.gamma * s.of_plus) * s.of_minus;
    of_classes += static_cast<double>(row.label == -3 ? NAN : loss) *
                  static_cast<double>(hit ? p.alpha : 1 - p.alpha);
  }
  of_classes = block_sum(of_classes, shared);
  of_boxes = block_sum(of_boxes, shared);
  if (t == 0) {
    partial[2 * blockIdx.x] = of_classes;
    partial[2 * blockIdx.x + 1] = of_boxes;
  }
}

__global__ void finish_loss(const double* partial, int64_t n, const float* positives,
                            float box_weight, float* loss, float* class_loss, float* box_loss) {
  __shared__ double shared[kThreads];
  double classes = 0, boxes = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    classes += partial[2 * i];
    boxes += partial[2 * i + 1];
  }
  classes = block_sum(classes, shared);
  boxes = block_sum(boxes, shared);
  if (threadIdx.x != 0) return;
  const double count = static_cast<double>(*positives) + 1;
  classes /= count;
  boxes /= 4 * count;
  *class_loss = static_cast<float>(classes);
  *box_loss = static_cast<float>(boxes);
  *loss = static_cast<float>(classes + static_cast<double>(box_weight) * boxes);
}

template <class T>
__global__ void loss_gradients(LevelTensors logits, LevelTensors codes, DetectionTruth truth,
                               DetectionLossArgs p, const float* dloss, LevelGradients dx) {
  __shared__ AnchorRow rows[kAnchors];
  const int64_t blocks = (truth.anchors + kAnchors - 1) / kAnchors;
  const int64_t image = blockIdx.x / blocks, begin = blockIdx.x % blocks * kAnchors;
  const int64_t left = truth.anchors - begin;
  const int n = left < kAnchors ? static_cast<int>(left) : kAnchors;
  const int t = static_cast<int>(threadIdx.x);
  const auto by_class =
      static_cast<float>(static_cast<double>(*dloss) / (static_cast<double>(*truth.positives) + 1));
  const float by_box = by_class * p.box_weight / 4;
  if (t < n) {
    const AnchorRow row = find_anchor(codes, truth, image, begin + t);
    rows[t] = row;
    float values[4] = {0, 0, 0, 0};
    const T* code = static_cast<const T*>(codes.data[row.level]) + 4 * row.row;
    if (row.label == -3)
      for (float& value : values) value = NAN;
    if (row.label >= 0) {
      float target[4];
      target_of(truth.anchor + 4 * (begin + t), truth.boxes + 4 * row.truth, target);
      for (int k = 0; k < 4; ++k) {
        const float error = load(code[k]) - target[k];
        const float clipped = error < -p.delta ? -p.delta : error > p.delta ? p.delta : error;
        values[k] = target[k] == 0 ? 0 : by_box * clipped;
      }
    }
    T* dcode = static_cast<T*>(dx.codes[row.level]) + 4 * row.row;
    for (int k = 0; k < 4; ++k) store(dcode[k], values[k]);
  }
  __syncthreads();
  const int classes = static_cast<int>(truth.classes);
  for (int i = t; i < n * classes; i += kThreads) {
    const AnchorRow& row = rows[i / classes];
    const int c = i % classes;
    const int64_t place = row.row * classes + c;
    const bool hit = row.label == c;
    const float sign = hit ? 1.0f : -1.0f;
    const float u = sign * load(static_cast<const T*>(logits.data[row.level])[place]);
    const Softplus s = softplus(u);
    const float of_large = 1.0f / (1.0f + s.e), of_small = s.e * of_large;
    const float probability = u < 0 ? of_small : of_large, miss = u < 0 ? of_large : of_small;
    const float scale = -sign * (by_class * (hit ? p.alpha : 1 - p.alpha));
    const float value =
        scale * expf(-p.gamma * s.of_plus) * fmaf(p.gamma * probability, s.of_minus, miss);
    store(static_cast<T*>(dx.logits[row.level])[place], row.label == -2 ? 0.0f : value);
  }
}

unsigned blocks_of_anchors(int64_t images, int64_t anchors) {
  return static_cast<unsigned>(images * ceil_div(anchors, kAnchors));
}

}  // namespace

void anchors(Stream stream, const AnchorCells& cells, float* y) {
  launch(stream, blocks_for(cells.rows * cells.columns * kPerCell), kThreads, place_anchors, cells,
         y);
}

void match_anchors(Stream stream, const BoxMatching& m, const float* boxes, const int32_t* counts,
                   const float* anchor, int32_t* best, int32_t* match, float* positives) {
  launch(stream, blocks_for(m.images * m.anchors), kThreads, match_each, m, boxes, counts, anchor,
         match);
  launch(stream, static_cast<unsigned>(m.images * m.places), kThreads, find_best, m, boxes, counts,
         anchor, best);
  launch(stream, static_cast<unsigned>(ceil_div(m.images, kThreads)), kThreads, force_best, m,
         counts, best, match);
  launch(stream, 1, kThreads, count_matches, match, m.images * m.anchors, positives);
}

size_t detection_loss_bytes(int64_t images, int64_t anchors) {
  return 2 * sizeof(double) * blocks_of_anchors(images, anchors);
}

void detection_loss(Stream stream, Element element, const LevelTensors& logits,
                    const LevelTensors& codes, const DetectionTruth& truth,
                    const DetectionLossArgs& p, double* partial, float* loss, float* class_loss,
                    float* box_loss) {
  const unsigned blocks = blocks_of_anchors(codes.images, truth.anchors);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks, kThreads, sum_losses<T>, logits, codes, truth, p, partial);
  });
  launch(stream, 1, kThreads, finish_loss, partial, static_cast<int64_t>(blocks), truth.positives,
         p.box_weight, loss, class_loss, box_loss);
}

void detection_loss_grad(Stream stream, Element element, const LevelTensors& logits,
                         const LevelTensors& codes, const DetectionTruth& truth,
                         const DetectionLossArgs& p, const float* dloss, const LevelGradients& dx) {
  const unsigned blocks = blocks_of_anchors(codes.images, truth.anchors);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks, kThreads, loss_gradients<T>, logits, codes, truth, p, dloss, dx);
  });
}

}  // namespace assay::cuda::kernels
