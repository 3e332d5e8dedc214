// SgdUpdate, AdamUpdate, LambUpdate, EmaUpdate: all variables of a group in a few launches; rates,
// steps and the skip flag are read on the device.
#include "sdk/backend/as_written.h"
#include "sdk/backend/cuda/ops/run_lists.h"

namespace assay::cuda {
namespace {

kernels::Control control_of(const Binding& b, const int64_t* step) {
  return {b.x<float>(0), b.x<float>(1), b.x<float>(2), step};
}

// What AdamUpdate and LambUpdate have in common.
template <class Update>
kernels::AdamConstants constants_of(const Update& p) {
  kernels::AdamConstants constants{};
  constants.beta1 = as_written(p.beta1);
  constants.beta2 = as_written(p.beta2);
  constants.one_minus_beta1 = complement(constants.beta1);
  constants.one_minus_beta2 = complement(constants.beta2);
  constants.epsilon = p.epsilon;
  constants.weight_decay = p.weight_decay;
  constants.lr_scale = p.lr_scale;
  constants.corrected = p.bias_correction;
  return constants;
}

}  // namespace

// Roles: value, gradient, momentum.
NodePlan plan(const SgdUpdate& p, const Planner& c) {
  const bool has_moment = p.momentum != 0;
  const Variables variables(c, 3, has_moment ? 3 : 2);
  NodePlan plan = own_plan("sgd");
  const kernels::SgdConstants constants{.momentum = p.momentum,
                                        .weight_decay = p.weight_decay,
                                        .lr_scale = p.lr_scale,
                                        .nesterov = p.nesterov,
                                        .sutskever = p.convention == MomentumConvention::kSutskever,
                                        .has_moment = has_moment};
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, control = control_of(b, nullptr), lists = variables.merged_lists(b)](Queue& q) {
      for (const auto& list : lists) kernels::sgd(stream_of(q), list, control, constants);
    };
  };
  return plan;
}

// Roles: value, gradient, both moments; step [].
NodePlan plan(const AdamUpdate& p, const Planner& c) {
  const Variables variables(c, 4, 4);
  NodePlan plan = own_plan("adam");
  kernels::AdamConstants constants = constants_of(p);
  constants.hat = p.epsilon_form == EpsilonForm::kTensorFlow;
  constants.decoupled = p.decoupled;
  plan.bind = [=](const Binding& b) -> Launch {
    return
        [=, control = control_of(b, b.x<int64_t>(3)), lists = variables.merged_lists(b)](Queue& q) {
          for (const auto& list : lists) kernels::adam(stream_of(q), list, control, constants);
        };
  };
  return plan;
}

// Roles as Adam's. Norms by piece, a rate by variable, the update: lists are not merged, for each
// variable has its own norms.
NodePlan plan(const LambUpdate& p, const Planner& c) {
  const Variables variables(c, 4, 4);
  NodePlan plan = own_plan("lamb");
  const auto scratch = [pieces = static_cast<size_t>(variables.pieces()),
                        count = static_cast<size_t>(variables.count)](void* base) {
    ScratchLayout layout(base);
    auto* squares = layout.take<double>(2 * pieces);
    auto* rates = layout.take<double>(count);
    return std::tuple(squares, rates, layout.bytes());
  };
  plan.scratch_bytes = std::get<2>(scratch(nullptr));
  plan.bind = [=, constants = constants_of(p)](const Binding& b) -> Launch {
    const auto [squares_place, rates_place, bytes] = scratch(b.scratch);
    return [=, squares = squares_place, rates = rates_place,
            control = control_of(b, b.x<int64_t>(3)), lists = variables.lists(b)](Queue& q) {
      const Stream stream = stream_of(q);
      for (const auto& list : lists)
        kernels::lamb_moments(stream, list, control, constants, squares);
      for (const auto& list : lists)
        kernels::lamb_rates(stream, list, control, constants, p.use_trust_ratio, squares, rates);
      for (const auto& list : lists) kernels::lamb_apply(stream, list, control, constants, rates);
    };
  };
  return plan;
}

// Roles: average, value.
NodePlan plan(const EmaUpdate& p, const Planner& c) {
  const Variables variables(c, p.warmup ? 2 : 1, 2);
  NodePlan plan = own_plan("ema");
  plan.bind = [=, decay = as_written(p.decay)](const Binding& b) -> Launch {
    const int64_t* step = p.warmup ? b.x<int64_t>(1) : nullptr;
    return [=, skip = b.x<float>(0), lists = variables.merged_lists(b)](Queue& q) {
      for (const auto& list : lists) kernels::ema(stream_of(q), list, skip, step, decay);
    };
  };
  return plan;
}

}  // namespace assay::cuda
