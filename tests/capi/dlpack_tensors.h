// Tensors that libraries exchange: ours as others get them, and those of others.
#pragma once

#include "tests/capi/dlpack.h"
#include "tests/capi/support.h"

namespace assay::test {

struct Delete {
  void operator()(DLManagedTensorVersioned* dl) const { dl->deleter(dl); }
};
using Dl = std::unique_ptr<DLManagedTensorVersioned, Delete>;

inline Dl exported(const assay_tensor* tensor) {
  DLManagedTensorVersioned* out = nullptr;
  ok(assay_tensor_to_dlpack, tensor, &out);
  return Dl(out);
}

// A tensor of another library: 2 x 3 of f32, without gaps, unless a test says otherwise.
struct Foreign {
  alignas(64) float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1}, strides[9] = {3, 1};
  int deleted = 0;
  DLManagedTensorVersioned dl{
      .version = {1, 1},
      .manager_ctx = this,
      .deleter =
          [](DLManagedTensorVersioned* self) {
            ++static_cast<Foreign*>(self->manager_ctx)->deleted;
          },
      .flags = 0,
      .dl_tensor = {numbers, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0}};
};

}  // namespace assay::test
