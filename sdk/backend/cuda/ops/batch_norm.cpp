// BatchNorm, its gradient and its inference form: sums over rows, a few numbers per channel, one
// pass over elements; the traffic of the CPU backend's. Own kernels: cuDNN's normalisation engine
// wants channels in multiples of 8 and moves the same bytes once it does not fit on the chip.
#include "sdk/backend/cuda/ops/batch_norm.h"
#include "sdk/graph/text.h"

namespace assay::cuda {
namespace {

struct Rows {
  int64_t rows, channels;
  explicit Rows(const Dims& x) : rows(x.numel() / x.back()), channels(x.back()) {}
};

struct ForwardScratch {
  double* partial;
  kernels::Affine affine, of_residual;
  size_t bytes;
};
ForwardScratch forward_scratch(Element element, const Rows& r, bool sums, void* base,
                               bool normalizes_residual = false) {
  ScratchLayout scratch(base);
  ForwardScratch s{};
  if (sums) {
    s.partial = static_cast<double*>(
        scratch.take_bytes(kernels::partial_sums_bytes(element, r.rows, r.channels, 2)));
  }
  s.affine.scale = scratch.take<float>(static_cast<size_t>(r.channels));
  s.affine.shift = scratch.take<float>(static_cast<size_t>(r.channels));
  if (normalizes_residual) {
    s.of_residual.scale = scratch.take<float>(static_cast<size_t>(r.channels));
    s.of_residual.shift = scratch.take<float>(static_cast<size_t>(r.channels));
  }
  s.bytes = scratch.bytes();
  return s;
}

std::string suffix(ActivationKind kind, bool residual) {
  return cat(residual ? "_residual" : "", kind == ActivationKind::kNone ? "" : "_",
             kind == ActivationKind::kNone ? "" : to_text(kind));
}

}  // namespace

// x, residual, y [..., C]; gamma, beta, mean, var [C]; sums [2,C]; mask [..., C / pack].
NodePlan plan(const BatchNorm& p, const Planner& c) {
  const Rows r(c.x(0).dims);
  const Element element = element_of(c.x(0));
  NodePlan plan =
      own_plan(cat("norm", suffix(p.activation, p.has_residual), p.has_sums ? "_of_sums" : "",
                   p.normalizes_residual ? "_both" : "", p.keep_mask ? "_mask" : ""));
  const auto scratch = [=](void* base) {
    return forward_scratch(element, r, !p.has_sums, base, p.normalizes_residual);
  };
  plan.scratch_bytes = scratch(nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const ForwardScratch s = scratch(b.scratch);
    // Of x, and where it is normalised too of the residual.
    struct Norm {
      const float* sums;
      kernels::NormInputs in;
      float *mean, *var;
      kernels::Affine affine;
    };
    const auto norm_of = [&](int gamma, int sums, int mean, kernels::Affine affine) {
      return Norm{p.has_sums ? b.x<float>(sums) : nullptr,
                  {b.x<float>(gamma), b.x<float>(gamma + 1), nullptr, nullptr, p.epsilon},
                  b.y<float>(mean),
                  b.y<float>(mean + 1),
                  affine};
    };
    std::vector<Norm> norms{norm_of(1, p.sums_input(), 1, s.affine)};
    if (p.normalizes_residual)
      norms.push_back(norm_of(p.sums_input() + 1, p.sums_input() + 3, 3, s.of_residual));
    const kernels::NormResidual residual{p.has_residual ? b.x<void>(3) : nullptr, s.of_residual};
    return [=, x = b.x<void>(0), y = b.y<void>(0),
            mask = p.keep_mask ? b.y<uint8_t>(p.mask_output()) : nullptr](Queue& q) {
      const Stream stream = stream_of(q);
      for (const Norm& n : norms) {
        if (n.sums != nullptr) {
          kernels::norm_finish(stream, n.sums, r.rows, r.channels, n.in, n.mean, n.var, n.affine);
        } else {
          kernels::norm_statistics(stream, element, x, r.rows, r.channels,
                                   {s.partial, arrivals_of(q)}, n.in, n.mean, n.var, n.affine);
        }
      }
      kernels::norm_apply(stream, element, x, s.affine, residual, p.activation, y, mask, r.rows,
                          r.channels);
    };
  };
  return plan;
}

// As BatchNorm, with mean and var given.
NodePlan plan(const BatchNormInference& p, const Planner& c) {
  const Rows r(c.x(0).dims);
  const Element element = element_of(c.x(0));
  NodePlan plan = own_plan(cat("norm_given", suffix(p.activation, p.has_residual)));
  plan.scratch_bytes = forward_scratch(element, r, false, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const ForwardScratch s = forward_scratch(element, r, false, b.scratch);
    return [=, in = inputs_of(b, p.epsilon), x = b.x<void>(0),
            residual = kernels::NormResidual{p.has_residual ? b.x<void>(5) : nullptr},
            y = b.y<void>()](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::norm_affine(stream, in, r.channels, s.affine);
      kernels::norm_apply(stream, element, x, s.affine, residual, p.activation, y, nullptr, r.rows,
                          r.channels);
    };
  };
  return plan;
}

namespace {

// x, dy, dx [..., C]; gamma, beta, mean, var, dgamma, dbeta [C]; sums [2,C].
NodePlan plan_summed(const BatchNormGrad& p, const Planner& c) {
  NodePlan plan = own_plan(cat("norm_grad_of_sums", p.has_second ? "_both" : ""));
  plan.bind = [r = Rows(c.x(0).dims), p](const Binding& b) -> Launch {
    const auto norm_of = [&](int x, int gamma, int sums, int dx) {
      return kernels::SummedNorm{.x = b.x<void>(x),
                                 .in = {b.x<float>(gamma), b.x<float>(gamma + 1),
                                        b.x<float>(gamma + 2), b.x<float>(gamma + 3), p.epsilon},
                                 .sums = b.x<float>(sums),
                                 .dgamma = b.y<float>(dx + 1),
                                 .dbeta = b.y<float>(dx + 2),
                                 .dx = b.y<void>(dx)};
    };
    const kernels::SummedNorm first = norm_of(0, 1, 6, 0),
                              second = p.has_second ? norm_of(7, 8, 12, 3) : kernels::SummedNorm{};
    return [=, dy = b.x<void>(5)](Queue& q) {
      kernels::norm_grad_apply_summed(stream_of(q), dy, first, second, r.rows, r.channels);
    };
  };
  return plan;
}

}  // namespace

// x, dy, y, dx, dresidual [..., C]; gamma, beta, mean, var, dgamma, dbeta [C]; mask
// [..., C / pack].
NodePlan plan(const BatchNormGrad& p, const Planner& c) {
  if (p.has_sums) return plan_summed(p, c);
  const Rows r(c.x(0).dims);
  const Element element = element_of(c.x(0));
  NodePlan plan = own_plan(cat("norm_grad", suffix(p.activation, p.has_residual),
                               p.has_mask ? "_mask" : "", p.has_addend ? "_sum" : ""));
  const size_t sums = kernels::partial_sums_bytes(element, r.rows, r.channels, 2);
  plan.scratch_bytes = norm_scratch(sums, r.channels, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const NormScratch s = norm_scratch(sums, r.channels, b.scratch);
    const void* dy = b.x<void>(5);
    void* residual = p.has_residual ? b.y<void>(3) : nullptr;
    const kernels::NormGradArgs args{
        .x = b.x<void>(0),
        .dy = dy,
        .addend = p.has_addend ? b.x<void>(p.addend_input()) : nullptr,
        .y = p.reads_y() ? b.x<void>(6) : nullptr,
        .mask = p.has_mask ? b.x<uint8_t>(6) : nullptr,
        .activation = p.activation,
        // Without a mask dresidual is dy, maybe in its place already.
        .masked = residual == dy && p.activation == ActivationKind::kNone && !p.has_addend
                      ? nullptr
                      : residual,
        .affine = s.affine,
        .b = s.b,
        .c = s.c};
    return [=, in = inputs_of(b, p.epsilon), dx = b.y<void>(0), dgamma = b.y<float>(1),
            dbeta = b.y<float>(2)](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::norm_grad_sums(stream, element, args, in, r.rows, r.rows, r.channels,
                              {s.partial, arrivals_of(q)}, dgamma, dbeta);
      kernels::norm_grad_apply(stream, element, args, dx, r.rows, r.channels);
    };
  };
  return plan;
}

// w, folded [K,R,S,C]; the other inputs and bias [K].
NodePlan plan(const FoldBatchNorm& p, const Planner& c) {
  NodePlan plan = own_plan("fold");
  const int64_t filters = c.x(0).dims[0];
  plan.bind = [filters, size = c.x(0).numel() / filters,
               epsilon = p.epsilon](const Binding& b) -> Launch {
    return [=, in = inputs_of(b, epsilon), w = b.x<float>(0), folded = b.y<float>(0),
            bias = b.y<float>(1)](Queue& q) {
      kernels::fold_norm(stream_of(q), w, in, folded, bias, filters, size);
    };
  };
  return plan;
}

// All [C_i] but loss [], which gates the update.
NodePlan plan(const RunningStatistics& p, const Planner& c) {
  const int n = c.n_inputs() / 4;
  std::vector<int32_t> channels;
  for (int i = 0; i < n; ++i) channels.push_back(static_cast<int32_t>(c.x(i).numel()));
  NodePlan plan = own_plan("running_statistics");
  const double count = static_cast<double>(p.count);
  const double unbias = p.count > 1 ? count / (count - 1) : 1.0;
  plan.bind = [=, momentum = static_cast<double>(p.momentum)](const Binding& b) -> Launch {
    const kernels::RunningArgs none{
        .gate = b.x<float>(4 * n), .momentum = momentum, .unbias = unbias, .norms = {}};
    std::vector<kernels::RunningArgs> lists{none};
    for (int i = 0; i < n; ++i) {
      const kernels::RunningArgs::Norm norm{.mean = b.x<float>(2 * n + i),
                                            .var = b.x<float>(3 * n + i),
                                            .running_mean = b.y<float>(i),
                                            .running_var = b.y<float>(n + i),
                                            .channels = channels[static_cast<size_t>(i)],
                                            .first_block = 0};
      if (lists.back().append(norm)) continue;
      lists.push_back(none);
      lists.back().append(norm);
    }
    return [=](Queue& q) {
      for (const auto& list : lists) kernels::running_statistics(stream_of(q), list);
    };
  };
  return plan;
}

}  // namespace assay::cuda
