// BatchNorm and its gradient: sums over rows, a few numbers per channel, one pass over elements.
//
// Forward reads x twice and writes y. Backward reads x and dy twice and writes dx; with a residual
// and relu the first pass also writes the masked gradient, which is dresidual, and the second reads
// that instead of dy and y. An addend is added to dy a task before the sums read it.
#include "sdk/backend/cpu/ops/batch_norm.h"

#include "sdk/graph/text.h"

namespace assay::cpu {
namespace {

std::string suffix(ActivationKind kind, bool residual) {
  return cat(residual ? "_residual" : "", kind == ActivationKind::kNone ? "" : "_",
             kind == ActivationKind::kNone ? "" : to_text(kind));
}

void require_no_mask(const Planner& c, bool has_mask) {
  require(!has_mask, Code::kUnsupported, "batch norm at ", c.scope(),
          ": masks of relu are kept on GPUs only");
}

// y = act(x * scale + shift + residual), the last part of both forms.
class AffinePass {
 public:
  template <class Norm>
  AffinePass(const Norm& p, const Planner& c)
      : l_(lanes_of(c.x(0).dims)),
        activation_(p.activation),
        size_(dtype_size(c.x(0).dtype)),
        threads_(c.threads()),
        affine_(kernels().channel->affine[element_of(c.x(0))]) {}

  // `residual` may be null.
  void run(const void* x, const float* scale, const float* shift, const void* residual,
           void* y) const {
    parallel_for(threads_, l_.pieces.count(), [&](int64_t i) {
      const int64_t begin = l_.pieces.begin(i);
      affine_(at(x, begin, size_), scale, shift,
              residual == nullptr ? nullptr : at(residual, begin, size_), activation_,
              at(y, begin, size_), l_.pieces.length(i), l_.lanes);
    });
  }

 private:
  Lanes l_;
  ActivationKind activation_;
  size_t size_;
  int threads_;
  std::decay_t<decltype(kernels().channel->affine[0])> affine_;
};

}  // namespace

// x, residual, y [..., C]; gamma, beta, mean, var [C].
NodePlan plan(const BatchNorm& p, const Planner& c) {
  require_no_mask(c, p.keep_mask);
  const Lanes l = lanes_of(c.x(0).dims);
  NodePlan plan = own_plan(cat("norm", suffix(p.activation, p.has_residual)));
  plan.scratch_bytes = forward_scratch(l, nullptr).bytes;
  const auto moments = kernels().channel->moments[element_of(c.x(0))];
  plan.bind = [=, affine = AffinePass(p, c), size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    const ForwardScratch s = forward_scratch(l, b.scratch);
    const ChannelInputs in{b.x<float>(1), b.x<float>(2), b.y<float>(1), b.y<float>(2)};
    return [=, x = b.x<void>(0), residual = p.has_residual ? b.x<void>(3) : nullptr,
            y = b.y<void>(0), mean = b.y<float>(1), var = b.y<float>(2)](Queue&) {
      parallel_for(threads, l.tasks.count(), [&](int64_t i) {
        double* sums = s.partial + 2 * i * l.lanes;
        moments(at(x, l.tasks.begin(i), size), l.tasks.length(i), l.lanes, sums, sums + l.lanes);
      });
      fold_partial_sums(l, 2, s.partial, s.total);
      finish_statistics(l, s.total, mean, var);
      fill_affine(l, in, p.epsilon, s.scale, s.shift);
      affine.run(x, s.scale, s.shift, residual, y);
    };
  };
  return plan;
}

// As BatchNorm, with mean and var given.
NodePlan plan(const BatchNormInference& p, const Planner& c) {
  const Lanes l = lanes_of(c.x(0).dims);
  NodePlan plan = own_plan(cat("norm_given", suffix(p.activation, p.has_residual)));
  const auto tables = [l](void* base) {
    ScratchLayout scratch(base);
    float* scale = scratch.take<float>(static_cast<size_t>(l.lanes));
    float* shift = scratch.take<float>(static_cast<size_t>(l.lanes));
    return std::tuple(scale, shift, scratch.bytes());
  };
  plan.scratch_bytes = std::get<2>(tables(nullptr));
  plan.bind = [=, affine = AffinePass(p, c)](const Binding& b) -> Launch {
    const auto [scale_table, shift_table, bytes] = tables(b.scratch);
    const ChannelInputs in{b.x<float>(1), b.x<float>(2), b.x<float>(3), b.x<float>(4)};
    return [=, scale = scale_table, shift = shift_table, x = b.x<void>(0),
            residual = p.has_residual ? b.x<void>(5) : nullptr, y = b.y<void>()](Queue&) {
      fill_affine(l, in, p.epsilon, scale, shift);
      affine.run(x, scale, shift, residual, y);
    };
  };
  return plan;
}

// x, dy, y, dx, dresidual [..., C]; gamma, beta, mean, var, dgamma, dbeta [C].
NodePlan plan(const BatchNormGrad& p, const Planner& c) {
  require_no_mask(c, p.has_mask);
  const Lanes l = lanes_of(c.x(0).dims);
  NodePlan plan =
      own_plan(cat("norm_grad", suffix(p.activation, p.has_residual), p.has_addend ? "_sum" : ""));
  plan.scratch_bytes = backward_scratch(l, nullptr).bytes;
  const int element = element_of(c.x(0));
  const auto sums = kernels().channel->grad_sums[element];
  const auto apply = kernels().channel->grad_apply[element];
  plan.bind = [=, size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    const BackwardScratch s = backward_scratch(l, b.scratch);
    const ChannelInputs in{b.x<float>(1), b.x<float>(2), b.x<float>(3), b.x<float>(4)};
    const bool masks = p.activation != ActivationKind::kNone;
    const void* x = b.x<void>(0);
    const void* dy = b.x<void>(5);
    const void* y = p.reads_y() ? b.x<void>(6) : nullptr;
    const void* addend = p.has_addend ? b.x<void>(p.addend_input()) : nullptr;
    void* residual = p.has_residual ? b.y<void>(3) : nullptr;
    // Without a mask dresidual is dy, maybe in its place already.
    void* masked = residual == dy && !masks && !p.has_addend ? nullptr : residual;
    const bool sums_write = masked != nullptr && (masks || !p.has_addend);
    const auto args_at = [=](int64_t begin) -> NormGradArgs {
      return {at(x, begin, size),
              at(dy, begin, size),
              y == nullptr ? nullptr : at(y, begin, size),
              p.activation,
              s.scale,
              s.shift,
              s.mean};
    };
    return [=, dx = b.y<void>(0), dgamma = b.y<float>(1), dbeta = b.y<float>(2)](Queue&) {
      begin_gradient(l, s, in, p.epsilon);
      parallel_for(threads, l.tasks.count(), [&](int64_t i) {
        const int64_t begin = l.tasks.begin(i);
        double* g = s.partial + 2 * i * l.lanes;
        NormGradArgs args = args_at(begin);
        if (addend != nullptr) {
          add(args.dy, at(addend, begin, size), at(masked, begin, size),
              static_cast<Element>(element), l.tasks.length(i));
          args.dy = at(masked, begin, size);
        }
        sums(args, sums_write ? at(masked, begin, size) : nullptr, l.tasks.length(i), l.lanes, g,
             g + l.lanes);
      });
      fold_partial_sums(l, 2, s.partial, s.total);
      finish_gradient(l, s, in.var, p.epsilon, dgamma, dbeta);
      parallel_for(threads, l.pieces.count(), [&](int64_t i) {
        const int64_t begin = l.pieces.begin(i);
        NormGradArgs args = args_at(begin);
        if (masked != nullptr) {
          args.dy = at(masked, begin, size);
          args.activation = ActivationKind::kNone;
        }
        apply(args, s.b, s.c, at(dx, begin, size), l.pieces.length(i), l.lanes);
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
