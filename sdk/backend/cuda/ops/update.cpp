// Store, AllReduce, DecayGradients, ClipGradients, GradientNorm, CountStep, LossScaleUpdate:
// between the gradients and the optimizer.
#include "sdk/backend/all_reduce.h"
#include "sdk/backend/cuda/ops/run_lists.h"

namespace assay::cuda {

// src, dst any dims, dense; the same memory where the source is computed in its place.
NodePlan plan(const Store& p, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan(p.accumulate ? "accumulate" : "copy");
  plan.bind = [n, bytes = c.y().bytes(), accumulate = p.accumulate](const Binding& b) -> Launch {
    const float* src = b.x<float>(1);
    float* dst = b.y<float>();
    if (accumulate) return [=](Queue& q) { kernels::add_to(stream_of(q), dst, src, n); };
    if (src == dst) return nullptr;
    return [=](Queue& q) { copy_on_device(stream_of(q), dst, src, bytes); };
  };
  return plan;
}

NodePlan plan(const AllReduce& p, const Planner& c) { return all_reduce_plan(p, c); }

// Values and gradients any dims, dense, the latter in place; scratch [pieces]; scale, loss [].
NodePlan plan(const DecayGradients& p, const Planner& c) {
  const Variables variables(c, 1, 2);
  NodePlan plan = own_plan("decay_gradients");
  plan.scratch_bytes = static_cast<size_t>(variables.pieces()) * sizeof(double);
  plan.bind = [=](const Binding& b) -> Launch {
    auto* partial = static_cast<double*>(b.scratch);
    const double weight_decay = static_cast<double>(p.weight_decay);
    const kernels::DecayArgs args{b.x<float>(0), weight_decay, static_cast<double>(p.accumulate)};
    return [=, loss = b.y<float>(variables.count), lists = variables.lists(b)](Queue& q) {
      const Stream stream = stream_of(q);
      for (const kernels::RunList& list : lists) {
        kernels::sum_squares(stream, list, partial);
        kernels::decay(stream, list, args);
      }
      kernels::sum_partials(stream, partial, variables.pieces(), weight_decay / 2, loss);
    };
  };
  return plan;
}

// Gradients any dims, dense, in place; scratch [pieces + gradients]; scale [].
NodePlan plan(const ClipGradients& p, const Planner& c) {
  const Variables gradients(c, 1, 1);
  NodePlan plan = own_plan("clip_gradients");
  plan.scratch_bytes = static_cast<size_t>(gradients.pieces() + gradients.count) * sizeof(double);
  plan.bind = [=](const Binding& b) -> Launch {
    auto* partial = static_cast<double*>(b.scratch);
    const kernels::ClipArgs args{.partial = partial,
                                 .factors = partial + gradients.pieces(),
                                 .loss_scale = b.x<float>(0),
                                 .clip_norm = static_cast<double>(p.clip_norm),
                                 .accumulate = static_cast<double>(p.accumulate)};
    return [=, lists = gradients.lists(b)](Queue& q) {
      const Stream stream = stream_of(q);
      for (const kernels::RunList& list : lists) {
        kernels::sum_squares(stream, list, partial);
        kernels::clip(stream, list, args);
      }
    };
  };
  return plan;
}

// Gradients any dims, dense; scratch [pieces]; scale, norm, multiplier, skip [].
NodePlan plan(const GradientNorm& p, const Planner& c) {
  const Variables gradients(c, 1, 1);
  NodePlan plan = own_plan("sum_squares");
  plan.scratch_bytes = static_cast<size_t>(gradients.pieces()) * sizeof(double);
  plan.bind = [=](const Binding& b) -> Launch {
    auto* partial = static_cast<double*>(b.scratch);
    const kernels::GradientNormArgs args{.partial = partial,
                                         .pieces = gradients.pieces(),
                                         .loss_scale = b.x<float>(0),
                                         .clip_norm = static_cast<double>(p.clip_norm),
                                         .accumulate = static_cast<double>(p.accumulate),
                                         .norm = b.y<float>(0),
                                         .multiplier = b.y<float>(1),
                                         .skip = b.y<float>(2)};
    return [=, lists = gradients.lists(b)](Queue& q) {
      const Stream stream = stream_of(q);
      for (const kernels::RunList& list : lists) kernels::sum_squares(stream, list, partial);
      kernels::gradient_norm(stream, args);
    };
  };
  return plan;
}

NodePlan plan(const CountStep&, const Planner& c) {
  NodePlan plan = own_plan("count");
  plan.bind = [](const Binding& b) -> Launch {
    return [step = b.y<int64_t>(), skip = b.x<float>(1)](Queue& q) {
      kernels::count_step(stream_of(q), step, skip);
    };
  };
  return plan;
}

NodePlan plan(const LossScaleUpdate& p, const Planner& c) {
  NodePlan plan = own_plan("loss_scale");
  plan.bind = [p](const Binding& b) -> Launch {
    const kernels::LossScaleArgs args{.growth = p.growth,
                                      .backoff = p.backoff,
                                      .minimum = p.minimum,
                                      .maximum = p.maximum,
                                      .interval = p.interval,
                                      .scale = b.y<float>(0),
                                      .good = b.y<int32_t>(1),
                                      .skip = b.x<float>(2)};
    return [args](Queue& q) { kernels::loss_scale_update(stream_of(q), args); };
  };
  return plan;
}

}  // namespace assay::cuda
