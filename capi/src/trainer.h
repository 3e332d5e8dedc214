// The trainer behind assay_trainer. It has no access guard of its own: it is used with its model's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capi/src/model.h"
#include "capi/src/tensor.h"
#include "sdk/train/trainer.h"

namespace assay::capi {

// The key of the host's metadata that may hold any bytes; the others are text.
inline constexpr std::string_view kCursorKey = "assay.cursor";

// A prefetched batch, whose tensors are held until they have been read.
class HeldBatch {
 public:
  HeldBatch(const assay_tensor* const* tensors, size_t n) : use_(tensors, n, "batch") {
    kept_.reserve(n);  // so that none is retained that cannot be kept
    for (size_t i = 0; i < n; ++i) kept_.emplace_back(assay_tensor_retain(tensors[i]));
  }
  std::span<const train::HostTensor> tensors() const { return use_.tensors(); }

 private:
  std::vector<TensorOwner> kept_;
  BatchUse use_;  // ends before its tensors go
};

}  // namespace assay::capi

struct assay_trainer {
  assay_trainer(std::shared_ptr<assay::capi::ModelState> state,
                const assay::train::TrainerConfig& config, std::shared_ptr<assay::Channel> channel)
      : model(std::move(state)), impl(model->make_instance(), config, std::move(channel)) {
    model->has_trainer = true;
  }
  ~assay_trainer() { model->has_trainer = false; }

  std::shared_ptr<assay::capi::ModelState> model;
  assay::train::Trainer impl;
  std::map<std::string, std::string, std::less<>> metadata;  // of the host
};
