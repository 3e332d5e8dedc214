// From the levels of a detector's heads to boxes.
//
// The best of an image's millions of pairs are found by their keys, four bits at a time from the
// highest: a pass counts the digits of those that begin as the bar does, and the bar gets the next
// one. Those above the bar, and of those on it the first, are then put in order by their ranks.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kDigits = 16;
constexpr int64_t kMostBlocks = 256;  // of an image

template <class T>
__device__ inline float number_at(const LevelTensors& levels, int64_t image, int64_t i) {
  int level = levels.n - 1;
  while (i < levels.first[level]) --level;
  const int64_t count = levels.first[level + 1] - levels.first[level];
  return load(static_cast<const T*>(levels.data[level])[image * count + i - levels.first[level]]);
}

// Ordered as the numbers are; NaN is 0.
__device__ inline uint32_t key_of(float value) {
  if (!(value == value)) return 0;
  const float plain = value + 0.0f;  // -0 is 0
  uint32_t bits;
  memcpy(&bits, &plain, sizeof bits);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float value_of(uint32_t key) {
  if (key == 0) return NAN;
  const uint32_t bits = (key >> 31) != 0 ? key & 0x7fffffffu : ~key;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The digits found so far, and how many candidates are still to come from those that share them.
struct Bar {
  uint32_t key;
  int64_t missing;
};
struct Candidate {
  uint32_t key;
  int32_t pair;
};

// How the numbers of an image are shared: block k has [k size, (k + 1) size).
struct Selection {
  int64_t numbers, count, blocks, size;

  __device__ int64_t image() const { return blockIdx.x / blocks; }
  __device__ int64_t begin() const { return blockIdx.x % blocks * size; }
  __device__ int64_t end() const {
    const int64_t end = begin() + size;
    return end < numbers ? end : numbers;
  }
};

template <class T>
__global__ void count_digits(LevelTensors levels, Selection s, const Bar* bar, int shift,
                             int64_t* counts) {
  __shared__ int64_t shared[kThreads];
  int64_t own[kDigits] = {};
  const uint32_t key = bar[s.image()].key;
  for (int64_t i = s.begin() + threadIdx.x; i < s.end(); i += kThreads) {
    const uint32_t k = key_of(number_at<T>(levels, s.image(), i));
    const bool shares = shift == 28 || k >> (shift + 4) == key >> (shift + 4);
    const uint32_t digit = k >> shift & (kDigits - 1);
    for (uint32_t d = 0; d < kDigits; ++d) own[d] += shares && digit == d;
  }
  for (int d = 0; d < kDigits; ++d) {
    const int64_t sum = block_sum(own[d], shared);
    if (threadIdx.x == 0) counts[static_cast<int64_t>(blockIdx.x) * kDigits + d] = sum;
  }
}

// A thread for each image.
__global__ void choose_digit(Selection s, int64_t images, int shift, const int64_t* counts,
                             Bar* bar) {
  const int64_t image = global_thread();
  if (image >= images) return;
  Bar b = bar[image];
  for (int digit = kDigits - 1;; --digit) {
    int64_t sum = 0;
    for (int64_t block = image * s.blocks; block < (image + 1) * s.blocks; ++block)
      sum += counts[block * kDigits + digit];
    if (sum >= b.missing || digit == 0) {
      b.key |= static_cast<uint32_t>(digit) << shift;
      bar[image] = b;
      return;
    }
    b.missing -= sum;
  }
}

__global__ void start(Selection s, int64_t images, Bar* bar) {
  const int64_t image = global_thread();
  if (image < images) bar[image] = {0, s.count};
}

// counts[block] = those above the bar, those on it; a thread has a range of its own.
template <class T>
__global__ void count_kept(LevelTensors levels, Selection s, const Bar* bar, int64_t* counts) {
  __shared__ int64_t shared[kThreads];
  const uint32_t key = bar[s.image()].key;
  int64_t above = 0, on = 0;
  for (int64_t i = s.begin() + threadIdx.x; i < s.end(); i += kThreads) {
    const uint32_t k = key_of(number_at<T>(levels, s.image(), i));
    above += k > key;
    on += k == key;
  }
  above = block_sum(above, shared);
  on = block_sum(on, shared);
  if (threadIdx.x == 0) {
    counts[2 * static_cast<int64_t>(blockIdx.x)] = above;
    counts[2 * static_cast<int64_t>(blockIdx.x) + 1] = on;
  }
}

template <class T>
__global__ void keep(LevelTensors levels, Selection s, const Bar* bar, const int64_t* counts,
                     Candidate* kept) {
  __shared__ int64_t above_of[kThreads];
  __shared__ int64_t on_of[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  const int64_t image = s.image(), each = (s.size + kThreads - 1) / kThreads;
  const uint32_t key = bar[image].key;
  int64_t begin = s.begin() + t * each, end = begin + each;
  end = end < s.end() ? end : s.end();
  above_of[t] = 0;
  on_of[t] = 0;
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t k = key_of(number_at<T>(levels, image, i));
    above_of[t] += k > key;
    on_of[t] += k == key;
  }
  __syncthreads();
  int64_t above = 0, on = s.count - bar[image].missing;
  for (int64_t block = image * s.blocks; block < static_cast<int64_t>(blockIdx.x); ++block) {
    above += counts[2 * block];
    on += counts[2 * block + 1];
  }
  for (int k = 0; k < t; ++k) {
    above += above_of[k];
    on += on_of[k];
  }
  Candidate* to = kept + image * s.count;
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t k = key_of(number_at<T>(levels, image, i));
    if (k > key) to[above++] = {k, static_cast<int32_t>(i)};
    if (k == key && on < s.count) to[on++] = {k, static_cast<int32_t>(i)};
  }
}

// A thread for each candidate: as many are better as its rank says.
__global__ void put_in_order(Selection s, int64_t images, const Candidate* kept, float* value,
                             int32_t* pair) {
  for (int64_t i = global_thread(); i < images * s.count; i += total_threads()) {
    const int64_t image = i / s.count;
    const Candidate own = kept[i];
    int64_t rank = image * s.count;
    for (int64_t k = image * s.count; k < (image + 1) * s.count; ++k)
      rank += kept[k].key > own.key || (kept[k].key == own.key && kept[k].pair < own.pair);
    value[rank] = value_of(own.key);
    pair[rank] = own.pair;
  }
}

__device__ inline float within(float most, float v) {  // NaN stays
  return v < -most ? -most : v > most ? most : v;
}

template <class T>
__global__ void decode(LevelTensors codes, const float* anchor, const int32_t* pair,
                       int64_t candidates, int64_t classes, float* y) {
  const int64_t most = codes.first[codes.n] / 4 - 1;
  for (int64_t i = global_thread(); i < codes.images * candidates; i += total_threads()) {
    int64_t a = pair[i] / classes;
    a = a < 0 ? 0 : a > most ? most : a;
    const float* box = anchor + 4 * a;
    for (int axis = 0; axis < 2; ++axis) {
      const float size = box[axis + 2] - box[axis];
      const auto code = [&](int k, float largest) {
        return within(largest, number_at<T>(codes, i / candidates, 4 * a + k));
      };
      const float from = (box[axis] + box[axis + 2]) / 2;
      const float middle = code(axis, kMostBoxShift) * size + from;
      const float half = expf(code(axis + 2, kMostBoxGrowth)) * size / 2;
      y[4 * i + axis] = middle - half;
      y[4 * i + axis + 2] = middle + half;
    }
  }
}

// ---- Suppression --------------------------------------------------------------------------------

__device__ inline float smaller_of(float a, float b) { return b < a ? b : a; }
__device__ inline float larger_of(float a, float b) { return a < b ? b : a; }

// Area of the intersection over that of the union; pixels are added to every size.
__device__ inline float overlap_of(const float* a, const float* b, float pixels) {
  const float rows = smaller_of(a[2], b[2]) - larger_of(a[0], b[0]) + pixels;
  const float columns = smaller_of(a[3], b[3]) - larger_of(a[1], b[1]) + pixels;
  if (!(rows > 0 && columns > 0)) return 0;
  const float both = rows * columns;
  const float areas = (a[2] - a[0] + pixels) * (a[3] - a[1] + pixels) +
                      (b[2] - b[0] + pixels) * (b[3] - b[1] + pixels);
  return both / (areas - both);
}

__device__ inline int64_t class_of(const Suppression& s, int32_t pair) {
  return (pair < 0 ? 0 : pair) % s.classes;
}

// The largest score of a block, the lowest place of equals; -1: none has one.
struct BestScore {
  float score;
  int64_t place;
};
__device__ inline BestScore block_best(BestScore own, float* scores, int64_t* places) {
  const int t = static_cast<int>(threadIdx.x);
  scores[t] = own.score;
  places[t] = own.place;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half && places[t + half] >= 0) {
      const int other = t + half;
      const bool wins = places[t] < 0 || scores[other] > scores[t] ||
                        (scores[other] == scores[t] && places[other] < places[t]);
      if (wins) {
        scores[t] = scores[other];
        places[t] = places[other];
      }
    }
    __syncthreads();
  }
  const BestScore best{scores[0], places[0]};
  __syncthreads();
  return best;
}

struct SoftScratch {
  float* left;     // [images, candidates]: the score a candidate has left, NaN: none
  float* score;    // [images, classes, count] of those taken
  int32_t* place;  // the same: which candidate
  int32_t* taken;  // [images, classes]
  int32_t* next;   // [images, classes]: of those taken, the first that has no place yet
};

// A block for each class of each image.
__global__ void take_of_class(Suppression s, float sigma, float least, Candidates c,
                              SoftScratch scratch) {
  __shared__ float scores[kThreads];
  __shared__ int64_t places[kThreads];
  const int64_t image = blockIdx.x / s.classes, own_class = blockIdx.x % s.classes;
  const float* boxes = c.boxes + image * s.candidates * 4;
  const int32_t* pair = c.pair + image * s.candidates;
  float* left = scratch.left + image * s.candidates;
  for (int64_t i = threadIdx.x; i < s.candidates; i += kThreads)
    if (class_of(s, pair[i]) == own_class) left[i] = c.score[image * s.candidates + i];
  const int64_t to = static_cast<int64_t>(blockIdx.x) * s.count;
  int64_t taken = 0;
  for (; taken < s.count; ++taken) {
    BestScore own{0, -1};
    for (int64_t i = threadIdx.x; i < s.candidates; i += kThreads) {
      if (class_of(s, pair[i]) != own_class || !(left[i] == left[i])) continue;
      if (own.place < 0 || left[i] > own.score) own = {left[i], i};
    }
    const BestScore best = block_best(own, scores, places);
    if (best.place < 0) break;
    if (threadIdx.x == 0) {
      scratch.score[to + taken] = best.score;
      scratch.place[to + taken] = static_cast<int32_t>(best.place);
    }
    for (int64_t i = threadIdx.x; i < s.candidates; i += kThreads) {
      if (class_of(s, pair[i]) != own_class) continue;
      const float o = overlap_of(boxes + 4 * best.place, boxes + 4 * i, 1);
      const float score = left[i] * expf(-(o * o) / sigma);
      left[i] = i != best.place && score >= least ? score : NAN;
    }
  }
  if (threadIdx.x == 0) {
    scratch.taken[blockIdx.x] = static_cast<int32_t>(taken);
    scratch.next[blockIdx.x] = 0;
  }
}

__device__ inline void put(const Detections& y, int64_t at, const float* box, float score,
                           int64_t label) {
  for (int k = 0; k < 4; ++k) y.box[4 * at + k] = box == nullptr ? 0.0f : box[k];
  y.score[at] = score;
  y.label[at] = static_cast<int32_t>(label);
}

// A block for each image: again and again the best of those that come next in their classes.
__global__ void merge_classes(Suppression s, Candidates c, SoftScratch scratch, Detections y) {
  __shared__ float scores[kThreads];
  __shared__ int64_t places[kThreads];
  const int64_t image = blockIdx.x;
  const float* boxes = c.boxes + image * s.candidates * 4;
  const int32_t* taken = scratch.taken + image * s.classes;
  int32_t* next = scratch.next + image * s.classes;
  int64_t placed = 0;
  for (; placed < s.count; ++placed) {
    BestScore own{0, -1};
    for (int64_t k = threadIdx.x; k < s.classes; k += kThreads) {
      if (next[k] == taken[k]) continue;
      const float score = scratch.score[(image * s.classes + k) * s.count + next[k]];
      if (own.place < 0 || score > own.score) own = {score, k};
    }
    const BestScore best = block_best(own, scores, places);
    if (best.place < 0) break;
    if (threadIdx.x == 0) {
      const int64_t k = best.place;
      const int32_t place = scratch.place[(image * s.classes + k) * s.count + next[k]++];
      put(y, image * s.count + placed, boxes + 4 * place, best.score, k);
    }
    __syncthreads();
  }
  for (int64_t i = placed + threadIdx.x; i < s.count; i += kThreads)
    put(y, image * s.count + i, nullptr, 0.0f, -1);
}

// A block for each image.
__global__ void take_free(Suppression s, float most, float least, float rows, float columns,
                          Candidates c, uint8_t* free_of, Detections y) {
  __shared__ float scores[kThreads];
  __shared__ int64_t places[kThreads];
  const int64_t image = blockIdx.x;
  const float* boxes = c.boxes + image * s.candidates * 4;
  const float* score = c.score + image * s.candidates;
  uint8_t* is_free = free_of + image * s.candidates;
  for (int64_t i = threadIdx.x; i < s.candidates; i += kThreads) is_free[i] = score[i] > least;
  int64_t placed = 0;
  for (; placed < s.count; ++placed) {
    BestScore own{0, -1};
    for (int64_t i = threadIdx.x; i < s.candidates && own.place < 0; i += kThreads)
      if (is_free[i]) own = {0.0f, i};  // equal scores: the first one wins
    const BestScore best = block_best(own, scores, places);
    if (best.place < 0) break;
    const float* box = boxes + 4 * best.place;
    if (threadIdx.x == 0) {
      float clipped[4];
      for (int k = 0; k < 4; ++k) {
        const float limit = k % 2 == 0 ? rows : columns;
        clipped[k] = box[k] < 0 ? 0.0f : limit < box[k] ? limit : box[k];
      }
      put(y, image * s.count + placed, clipped, score[best.place],
          class_of(s, c.pair[image * s.candidates + best.place]));
    }
    for (int64_t i = threadIdx.x; i < s.candidates; i += kThreads)
      if (i == best.place || overlap_of(box, boxes + 4 * i, 0) > most) is_free[i] = 0;
  }
  for (int64_t i = placed + threadIdx.x; i < s.count; i += kThreads)
    put(y, image * s.count + i, nullptr, 0.0f, -1);
}

// Hands out parts of scratch memory in steps of 256 bytes; with a null base it only adds up the
// size.
struct Parts {
  char* base;
  size_t used = 0;

  template <class T>
  T* take(int64_t n) {
    char* part = base == nullptr ? nullptr : base + used;
    used += (static_cast<size_t>(n) * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(part);
  }
};

Selection selection_of(int64_t numbers, int64_t count) {
  const int64_t wanted = ceil_div(numbers, 16 * kThreads);
  const int64_t size = ceil_div(numbers, wanted < kMostBlocks ? wanted : kMostBlocks);
  return {numbers, count, ceil_div(numbers, size), size};
}

struct SelectionScratch {
  Bar* bar;         // [images]
  int64_t* counts;  // [images, blocks, kDigits]
  Candidate* kept;  // [images, count]
  size_t bytes;

  SelectionScratch(void* base, const Selection& s, int64_t images) {
    Parts parts{static_cast<char*>(base)};
    bar = parts.take<Bar>(images);
    counts = parts.take<int64_t>(images * s.blocks * kDigits);
    kept = parts.take<Candidate>(images * s.count);
    bytes = parts.used;
  }
};

SoftScratch soft_scratch(void* base, const Suppression& s, size_t& bytes) {
  Parts parts{static_cast<char*>(base)};
  SoftScratch scratch{};
  scratch.left = parts.take<float>(s.images * s.candidates);
  scratch.score = parts.take<float>(s.images * s.classes * s.count);
  scratch.place = parts.take<int32_t>(s.images * s.classes * s.count);
  scratch.taken = parts.take<int32_t>(s.images * s.classes);
  scratch.next = parts.take<int32_t>(s.images * s.classes);
  bytes = parts.used;
  return scratch;
}

}  // namespace

size_t top_candidates_bytes(int64_t images, int64_t numbers, int64_t count) {
  return SelectionScratch(nullptr, selection_of(numbers, count), images).bytes;
}

void top_candidates(Stream stream, Element element, const LevelTensors& levels, int64_t count,
                    void* scratch, float* value, int32_t* pair) {
  const Selection s = selection_of(levels.first[levels.n], count);
  const SelectionScratch parts(scratch, s, levels.images);
  const auto blocks = static_cast<unsigned>(levels.images * s.blocks);
  const auto images = static_cast<unsigned>(ceil_div(levels.images, kThreads));
  launch(stream, images, kThreads, start, s, levels.images, parts.bar);
  dispatch(element, [&]<class T>(T) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      launch(stream, blocks, kThreads, count_digits<T>, levels, s, parts.bar, shift, parts.counts);
      launch(stream, images, kThreads, choose_digit, s, levels.images, shift, parts.counts,
             parts.bar);
    }
    launch(stream, blocks, kThreads, count_kept<T>, levels, s, parts.bar, parts.counts);
    launch(stream, blocks, kThreads, keep<T>, levels, s, parts.bar, parts.counts, parts.kept);
  });
  launch(stream, blocks_for(levels.images * count), kThreads, put_in_order, s, levels.images,
         parts.kept, value, pair);
}

void decode_boxes(Stream stream, Element element, const LevelTensors& codes, const float* anchor,
                  const int32_t* pair, int64_t candidates, int64_t classes, float* y) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(codes.images * candidates), kThreads, decode<T>, codes, anchor, pair,
           candidates, classes, y);
  });
}

size_t soft_suppression_bytes(const Suppression& s) {
  size_t bytes = 0;
  soft_scratch(nullptr, s, bytes);
  return bytes;
}

void soft_suppression(Stream stream, const Suppression& s, float sigma, float least,
                      const Candidates& c, void* scratch, const Detections& y) {
  size_t bytes = 0;
  const SoftScratch parts = soft_scratch(scratch, s, bytes);
  launch(stream, static_cast<unsigned>(s.images * s.classes), kThreads, take_of_class, s, sigma,
         least, c, parts);
  launch(stream, static_cast<unsigned>(s.images), kThreads, merge_classes, s, c, parts, y);
}

void hard_suppression(Stream stream, const Suppression& s, float most, float least,
                      const float (&limit)[2], const Candidates& c, uint8_t* free,
                      const Detections& y) {
  launch(stream, static_cast<unsigned>(s.images), kThreads, take_free, s, most, least, limit[0],
         limit[1], c, free, y);
}

}  // namespace assay::cuda::kernels
