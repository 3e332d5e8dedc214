// What the tests on a GPU have in common. It is an emulated one (tests/gpu/emulation), which
// libassay finds as it finds any: by the plug-in beside it. Its memory can be looked at directly,
// and it does its work as late as the rules of streams allow: what a call has left undone is seen
// there.
#pragma once

#include "tests/capi/support.h"
#include "tests/gpu/emulation/runtime.h"

namespace assay::test {

inline constexpr assay_device_id kGpu = {ASSAY_DEVICE_CUDA, 0};

// Three GPUs, and one that does not say what it is. Devices are looked for once in a process.
inline cuda::emulation::Machine four_devices() { return {.devices = 4, .lost_device = 3}; }

// A model on the first GPU; a context of the CPU is beside it.
class OnTheGpu : public SmallModel {
 protected:
  ~OnTheGpu() override { cuda::emulation::machine() = four_devices(); }

  uint64_t in_use() const {
    assay_mem_stats stats{.struct_size = sizeof stats};
    ok(assay_context_mem_stats, context.get(), kGpu, &stats);
    return stats.in_use;
  }

  Owned<assay_context> cpu = make_context(kCpu);
};

inline Owned<assay_model> built_in(const assay_context* on) {
  return make<assay_model>(assay_model_named, on, text("cnn"), text(kSmallCnn));
}

// The logits of a new predictor.
inline std::vector<float> logits_of(const assay_model* model, const SmallBatch& batch,
                                    const std::string& config = "") {
  const auto predictor = make<assay_predictor>(assay_predictor_create, model, text(config));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_tensor* out = nullptr;
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out, size_t{1});
  return floats_of(Owned<assay_tensor>(out).get());
}

}  // namespace assay::test
