// Store, AllReduce, DecayGradients, ClipGradients, GradientNorm, CountStep, LossScaleUpdate:
// between the gradients and the optimizer.
#include <cmath>
#include <cstring>
#include <vector>

#include "sdk/backend/all_reduce.h"
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

NodePlan scalar_plan(const char* kernel) {
  NodePlan plan;
  plan.kernel = kernel;
  return plan;
}

// Inputs in parts. Tensors are cut one by one, so that the order of a sum does not depend on where
// they lie in memory.
struct Parts {
  struct Part {
    int tensor;
    int64_t begin, length;
  };
  std::vector<Part> all;
  int threads = 1;  // that the work is worth

  Parts(const Planner& c, int first, int end) {
    constexpr int64_t kPartElems = 2 * kChunkElems;
    int64_t elements = 0;
    for (int i = first; i < end; ++i) {
      const Chunks cut{c.x(i).numel(), kPartElems};
      for (int64_t k = 0; k < cut.count(); ++k) all.push_back({i, cut.begin(k), cut.length(k)});
      elements += cut.total;
    }
    if (elements > kSerialElems) threads = c.threads();
  }
  int64_t count() const { return static_cast<int64_t>(all.size()); }
  // Where each part begins, if tensor i does at base(i).
  template <class Base>
  auto starts(const Base& base) const {
    std::vector<decltype(base(0))> starts;
    starts.reserve(all.size());
    for (const Part& part : all) starts.push_back(base(part.tensor) + part.begin);
    return starts;
  }
};

}  // namespace

// src, dst any dims, dense; the same memory where the source is computed in its place.
NodePlan plan(const Store& p, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan(p.accumulate ? "accumulate" : "copy");
  plan.bind = [=, accumulate = p.accumulate, chunks = chunks_of(n),
               threads = c.threads()](const Binding& b) -> Launch {
    const float* src = b.x<float>(1);
    float* dst = b.y<float>();
    if (accumulate) {
      return [=](Queue&) {
        parallel_for(threads, chunks.count(), [&](int64_t i) {
          float* out = dst + chunks.begin(i);
          add(out, src + chunks.begin(i), out, kElementF32, chunks.length(i));
        });
      };
    }
    if (src == dst) return nullptr;
    return [=](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t i) {
        std::memcpy(dst + chunks.begin(i), src + chunks.begin(i),
                    static_cast<size_t>(chunks.length(i)) * sizeof(float));
      });
    };
  };
  return plan;
}

NodePlan plan(const AllReduce& p, const Planner& c) { return all_reduce_plan(p, c); }

// Values and gradients any dims, dense, the latter in place; scratch [parts]; scale, loss [].
NodePlan plan(const DecayGradients& p, const Planner& c) {
  const int variables = (c.n_inputs() - 1) / 2;
  const Parts parts(c, 1, 1 + variables);
  NodePlan plan = own_plan("decay_gradients");
  plan.scratch_bytes = parts.all.size() * sizeof(double);
  plan.bind = [=, sum_squares = kernels().update->sum_squares,
               weight_decay = static_cast<double>(p.weight_decay),
               accumulate = static_cast<double>(p.accumulate)](const Binding& b) -> Launch {
    const auto values = parts.starts([&](int i) { return b.x<float>(i); });
    const auto gradients = parts.starts([&](int i) { return b.y<float>(i - 1); });
    return [=, scale = b.x<float>(0), squares = static_cast<double*>(b.scratch),
            loss = b.y<float>(variables)](Queue&) {
      const auto factor =
          static_cast<float>(weight_decay * static_cast<double>(*scale) * accumulate);
      const double sum = sum_in_order(parts.threads, parts.count(), squares, [&](int64_t i) {
        const double square = sum_squares(values[i], parts.all[i].length);
        for (int64_t k = 0; k < parts.all[i].length; ++k) gradients[i][k] += factor * values[i][k];
        return square;
      });
      *loss = static_cast<float>(weight_decay / 2 * sum);
    };
  };
  return plan;
}

// Gradients any dims, dense, in place; scratch [parts]; scale []. Rarely does a gradient exceed its
// norm, so that all but the sums is done by one thread.
NodePlan plan(const ClipGradients& p, const Planner& c) {
  const Parts parts(c, 1, c.n_inputs());
  NodePlan plan = own_plan("clip_gradients");
  plan.scratch_bytes = parts.all.size() * sizeof(double);
  plan.bind = [=, sum_squares = kernels().update->sum_squares](const Binding& b) -> Launch {
    const auto starts = parts.starts([&](int i) { return static_cast<float*>(b.inputs[i]); });
    return [=, scale = b.x<float>(0), squares = static_cast<double*>(b.scratch)](Queue&) {
      parallel_for(parts.threads, parts.count(),
                   [&](int64_t i) { squares[i] = sum_squares(starts[i], parts.all[i].length); });
      const double most = static_cast<double>(p.clip_norm) * static_cast<double>(*scale) *
                          static_cast<double>(p.accumulate);
      for (size_t first = 0, end = 0; first < parts.all.size(); first = end) {
        double sum = 0;
        for (; end < parts.all.size() && parts.all[end].tensor == parts.all[first].tensor; ++end)
          sum += squares[end];
        const double factor = most / std::sqrt(sum);
        if (!std::isfinite(sum) || !(factor < 1)) continue;
        for (size_t i = first; i < end; ++i) {
          for (int64_t k = 0; k < parts.all[i].length; ++k)
            starts[i][k] *= static_cast<float>(factor);
        }
      }
    };
  };
  return plan;
}

// Gradients any dims, dense; scratch [parts]; scale, norm, multiplier, skip [].
NodePlan plan(const GradientNorm& p, const Planner& c) {
  const Parts parts(c, 1, c.n_inputs());
  NodePlan plan = own_plan("sum_squares");
  plan.scratch_bytes = parts.all.size() * sizeof(double);
  plan.bind = [=, sum_squares = kernels().update->sum_squares](const Binding& b) -> Launch {
    const auto starts = parts.starts([&](int i) { return b.x<float>(i); });
    return [=, scale = b.x<float>(0), partial = static_cast<double*>(b.scratch),
            norm = b.y<float>(0), multiplier = b.y<float>(1), skip = b.y<float>(2)](Queue&) {
      const double sum = sum_in_order(parts.threads, parts.count(), partial, [&](int64_t i) {
        return sum_squares(starts[i], parts.all[i].length);
      });
      const double unscale =
          1.0 / (static_cast<double>(*scale) * static_cast<double>(p.accumulate));
      const double length = std::sqrt(sum) * unscale;
      const bool clipped = p.clip_norm > 0 && length > p.clip_norm;
      const auto factor = static_cast<float>(unscale * (clipped ? p.clip_norm / length : 1.0));
      // Squares of finite f32 numbers cannot overflow an f64 sum: the length finds every NaN and
      // infinity among the gradients, and what f32 cannot hold.
      *norm = static_cast<float>(length);
      const bool finite = std::isfinite(*norm) && std::isfinite(factor);
      *multiplier = finite ? factor : 0.0f;
      *skip = finite ? 0.0f : 1.0f;
    };
  };
  return plan;
}

NodePlan plan(const CountStep&, const Planner&) {
  NodePlan plan = scalar_plan("own:count");
  plan.bind = [](const Binding& b) -> Launch {
    return [step = b.y<int64_t>(), skip = b.x<float>(1)](Queue&) {
      if (*skip == 0.0f) ++*step;
    };
  };
  return plan;
}

NodePlan plan(const LossScaleUpdate& p, const Planner&) {
  NodePlan plan = scalar_plan("own:loss_scale");
  plan.bind = [p](const Binding& b) -> Launch {
    return [p, scale = b.y<float>(0), good = b.y<int32_t>(1), skip = b.x<float>(2)](Queue&) {
      if (*skip != 0.0f) {
        *scale = std::max(*scale * p.backoff, p.minimum);
        *good = 0;
      } else if (++*good >= p.interval) {
        *scale = std::min(*scale * p.growth, p.maximum);
        *good = 0;
      }
    };
  };
  return plan;
}

}  // namespace assay::cpu
