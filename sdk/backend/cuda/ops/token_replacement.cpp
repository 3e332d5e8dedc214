// MaskTokens, SampleTokens and ReplaceTokens.
#include "sdk/backend/cuda/ops/own_kernel.h"
#include "sdk/base/philox.h"

namespace assay::cuda {

// ids, masked [B,L]; length [B]; positions, labels [B,P]; step [].
NodePlan plan(const MaskTokens& p, const Planner& c) {
  const PhiloxKey key = philox_key(p.seed, p.stream);
  const kernels::TokenMasking m{c.x(0).dims[0], c.x(0).dims[1], p.slots, p.fraction,      p.shown,
                                p.cls,          p.sep,          p.mask,  {key[0], key[1]}};
  NodePlan plan = own_plan("mask_tokens");
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, ids = b.x<int32_t>(0), length = b.x<int32_t>(1), step = b.x<int64_t>(2),
            masked = b.y<int32_t>(0), positions = b.y<int32_t>(1),
            labels = b.y<int32_t>(2)](Queue& q) {
      kernels::mask_tokens(stream_of(q), m, ids, length, step, masked, positions, labels);
    };
  };
  return plan;
}

// logits [N,V], step [], y [N].
NodePlan plan(const SampleTokens& p, const Planner& c) {
  const PhiloxKey key = philox_key(p.seed, p.stream);
  NodePlan plan = own_plan("sample_tokens");
  plan.bind = [=, element = element_of(c.x(0)), rows = c.x(0).dims[0],
               classes = c.x(0).dims[1]](const Binding& b) -> Launch {
    return [=, logits = b.x<void>(0), step = b.x<int64_t>(1), y = b.y<int32_t>()](Queue& q) {
      kernels::sample_tokens(stream_of(q), element, {{key[0], key[1]}}, logits, step, y, rows,
                             classes);
    };
  };
  return plan;
}

// ids, corrupted, replaced [B,L]; length [B]; positions, labels [B,P]; samples [B*P].
NodePlan plan(const ReplaceTokens&, const Planner& c) {
  const kernels::TokenSlots s{c.x(0).dims[0], c.x(0).dims[1], c.x(2).dims[1]};
  NodePlan plan = own_plan("replace_tokens");
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, ids = b.x<int32_t>(0), length = b.x<int32_t>(1), positions = b.x<int32_t>(2),
            labels = b.x<int32_t>(3), samples = b.x<int32_t>(4), corrupted = b.y<int32_t>(0),
            replaced = b.y<int32_t>(1)](Queue& q) {
      kernels::replace_tokens(stream_of(q), s, ids, length, positions, labels, samples, corrupted,
                              replaced);
    };
  };
  return plan;
}

}  // namespace assay::cuda
