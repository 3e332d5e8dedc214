// The tensor behind assay_tensor: dense elements somewhere, and who keeps that somewhere alive.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "assay/assay.h"
#include "capi/src/access.h"
#include "sdk/graph/graph.h"
#include "sdk/train/host_tensor.h"

namespace assay {
class Memory;
}
namespace assay::capi {
class Context;
}

struct assay_tensor {
  assay_tensor(assay::DType type, const assay::Dims& shape, std::shared_ptr<const void> owner);
  // A view of storage that `owner` keeps alive and `guard` watches; of memory of `device`, or of
  // the host if that is null.
  assay_tensor(assay::DType type, const assay::Dims& shape, void* elements, uint32_t view_flags,
               assay::capi::Access& guard, std::shared_ptr<const void> owner,
               const assay::capi::Context* device = nullptr);
  ~assay_tensor();

  size_t bytes() const { return static_cast<size_t>(dims.numel()) * assay::dtype_size(dtype); }
  void retain() const { owners.fetch_add(1, std::memory_order_relaxed); }

  mutable std::atomic<int32_t> owners{1};
  assay::DType dtype;
  assay::Dims dims;
  void* data = nullptr;
  uint32_t flags = 0;
  assay::capi::Access own_access;
  assay::capi::Access* access = &own_access;
  const assay::capi::Context* on_device = nullptr;  // of the memory, unless the host may read it
  std::shared_ptr<const void> keep_alive;           // context, model, slot or loader
  std::unique_ptr<assay::Memory> memory;            // of assay_tensor_new
  void (*release)(uintptr_t user) = nullptr;
  uintptr_t user = 0;
};

namespace assay::capi {

struct ReleaseTensor {
  void operator()(assay_tensor* tensor) const { assay_tensor_release(tensor); }
};
using TensorOwner = std::unique_ptr<assay_tensor, ReleaseTensor>;

// Of host memory that batches on the context's device may lie in.
TensorOwner new_tensor(std::shared_ptr<const Context> context, const ValueType& type);

// Checks a shape argument; sizes at least 0 whose product fits.
Dims checked_dims(const int64_t* shape, int32_t ndim, assay_dtype dtype);

// The tensors of a batch, held for reading from construction to destruction. Allocates nothing.
class BatchUse {
 public:
  BatchUse(const assay_tensor* const* tensors, size_t n, std::string_view argument);
  std::span<const train::HostTensor> tensors() const { return {host_.data(), n_}; }

 private:
  size_t n_;
  std::array<train::HostTensor, train::kMostBatchTensors> host_;
  std::array<std::optional<SharedUse>, train::kMostBatchTensors> uses_;
};

}  // namespace assay::capi
