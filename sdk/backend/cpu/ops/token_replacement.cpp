// MaskTokens, SampleTokens and ReplaceTokens: sequences and rows are independent, and every draw
// has its word by its place.
#include <cmath>
#include <cstring>

#include "sdk/backend/cpu/ops/own_kernel.h"
#include "sdk/base/philox.h"

namespace assay::cpu {
namespace {

constexpr double kWeightOne = 0x1p39;  // of a probability of 1: sums fit 64 bits with a draw's 24

// How many of n tokens are drawn. In f64: in f32, 0.15 n comes out above some ties.
int64_t drawn_of(const MaskTokens& p, int64_t n) {
  const auto rounded = static_cast<int64_t>(std::nearbyint(p.fraction * static_cast<double>(n)));
  return std::clamp<int64_t>(rounded, 1, p.slots);
}

// Word n of a step.
uint32_t word_of(PhiloxKey key, int64_t step, uint64_t n) {
  const auto s = static_cast<uint64_t>(step);
  const PhiloxCounter drawn =
      philox4x32({static_cast<uint32_t>(n / 4), static_cast<uint32_t>(n / 4 >> 32),
                  static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)},
                 key);
  return drawn[n % 4];
}

}  // namespace

// ids, masked [B,L]; length [B]; positions, labels [B,P]; step [].
NodePlan plan(const MaskTokens& p, const Planner& c) {
  const int64_t sequences = c.x(0).dims[0], tokens = c.x(0).dims[1];
  NodePlan plan = own_plan("mask_tokens");
  const Chunks chunks = chunks_of(sequences, 8 * tokens);
  plan.scratch_bytes = static_cast<size_t>(chunks.count() * tokens) * sizeof(int32_t);
  plan.bind = [=, key = philox_key(p.seed, p.stream),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, ids = b.x<int32_t>(0), length = b.x<int32_t>(1), step = b.x<int64_t>(2),
            masked = b.y<int32_t>(0), positions = b.y<int32_t>(1), labels = b.y<int32_t>(2),
            scratch = static_cast<int32_t*>(b.scratch)](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t chunk) {
        int32_t* candidates = scratch + chunk * tokens;
        for (int64_t s = chunks.begin(chunk); s < chunks.end(chunk); ++s) {
          const int32_t* from = ids + s * tokens;
          int32_t* to = masked + s * tokens;
          std::memcpy(to, from, static_cast<size_t>(tokens) * sizeof(int32_t));
          const int64_t n = std::clamp<int64_t>(length[s], 0, tokens);
          int64_t m = 0;
          for (int64_t i = 0; i < n; ++i)
            if (!p.is_special(from[i])) candidates[m++] = static_cast<int32_t>(i);
          const int64_t used = m == 0 ? 0 : drawn_of(p, n);
          for (int64_t slot = 0; slot < p.slots; ++slot) {
            int32_t position = 0, label = -1;
            if (slot < used) {
              const auto place = static_cast<uint64_t>(2 * (s * p.slots + slot));
              const uint64_t draw = word_of(key, *step, place) >> 8;
              position = candidates[draw * static_cast<uint64_t>(m) >> 24];
              label = from[position];
              if (philox_uniform(word_of(key, *step, place + 1)) < p.shown) to[position] = p.mask;
            }
            positions[s * p.slots + slot] = position;
            labels[s * p.slots + slot] = label;
          }
        }
      });
    };
  };
  return plan;
}

namespace {

uint64_t weight_of(float probability) {
  if (!std::isfinite(probability)) return 0;
  return static_cast<uint64_t>(
      std::rint(static_cast<double>(std::min(probability, 1.0f)) * kWeightOne));
}

// One draw by probabilities [classes].
int32_t sample(const float* probabilities, int64_t classes, uint32_t word) {
  uint64_t total = 0;
  for (int64_t v = 0; v < classes; ++v) total += weight_of(probabilities[v]);
  const uint64_t below = (word >> 8) * total;
  uint64_t sum = 0;
  for (int64_t v = 0; v < classes; ++v) {
    sum += weight_of(probabilities[v]);
    if (sum << 24 > below) return static_cast<int32_t>(v);
  }
  return 0;
}

}  // namespace

// logits [N,V], step [], ids [N].
NodePlan plan(const SampleTokens& p, const Planner& c) {
  const int64_t rows = c.x(0).dims[0], classes = c.x(0).dims[1];
  NodePlan plan = own_plan("sample_tokens");
  const Chunks chunks = chunks_of(rows, 24 * classes);
  plan.scratch_bytes = static_cast<size_t>(chunks.count() * classes) * sizeof(float);
  plan.bind = [=, key = philox_key(p.seed, p.stream), size = dtype_size(c.x(0).dtype),
               softmax = kernels().softmax->softmax[element_of(c.x(0))],
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, logits = b.x<void>(0), step = b.x<int64_t>(1), y = b.y<int32_t>(),
            scratch = static_cast<float*>(b.scratch)](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t chunk) {
        float* probabilities = scratch + chunk * classes;
        for (int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
          softmax(at(logits, r * classes, size), probabilities, 1, classes);
          y[r] = sample(probabilities, classes, word_of(key, *step, static_cast<uint64_t>(r)));
        }
      });
    };
  };
  return plan;
}

// ids, corrupted, replaced [B,L]; length [B]; positions, labels [B,P]; samples [B*P].
NodePlan plan(const ReplaceTokens& p, const Planner& c) {
  const int64_t sequences = c.x(0).dims[0], tokens = c.x(0).dims[1], slots = c.x(2).dims[1];
  NodePlan plan = own_plan("replace_tokens");
  plan.bind = [=, chunks = chunks_of(sequences, 4 * (tokens + slots * slots)),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, ids = b.x<int32_t>(0), length = b.x<int32_t>(1), positions = b.x<int32_t>(2),
            labels = b.x<int32_t>(3), samples = b.x<int32_t>(4), corrupted = b.y<int32_t>(0),
            replaced = b.y<int32_t>(1)](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t chunk) {
        for (int64_t s = chunks.begin(chunk); s < chunks.end(chunk); ++s) {
          const int32_t* from = ids + s * tokens;
          int32_t* to = corrupted + s * tokens;
          std::memcpy(to, from, static_cast<size_t>(tokens) * sizeof(int32_t));
          const int32_t* place = positions + s * slots;
          for (int64_t slot = 0; slot < slots; ++slot) {
            if (labels[s * slots + slot] < 0 || place[slot] < 0 || place[slot] >= tokens) continue;
            int64_t sum = 0, count = 0;
            for (int64_t other = 0; other < slots; ++other) {
              if (labels[s * slots + other] < 0 || place[other] != place[slot]) continue;
              sum += samples[s * slots + other];
              ++count;
            }
            to[place[slot]] = static_cast<int32_t>(sum / count);
          }
          for (int64_t i = 0; i < tokens; ++i)
            replaced[s * tokens + i] = i < length[s] ? to[i] != from[i] : -1;
        }
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
