// A product whose bias, residual or activation a pass of our own adds, because the library cannot
// take them along: the product stands in f32 until then, so that the result is rounded once, unless
// it is one of 16 bits with a bias of 16 bits.
#pragma once

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// The node's scratch: the library's own part, then the product if it does not stand in the output.
struct ProductScratch {
  void* call;
  void* product;
  size_t bytes;
};
inline ProductScratch product_scratch(const LibraryCall& call, size_t product_bytes, void* base) {
  ScratchLayout layout(base);
  ProductScratch s{};
  s.call = layout.take_bytes(call.scratch_bytes);
  if (product_bytes > 0) s.product = layout.take_bytes(product_bytes);
  s.bytes = layout.bytes();
  return s;
}

inline size_t product_bytes_of(const ValueType& y, DType product) {
  return product == y.dtype ? 0 : static_cast<size_t>(y.numel()) * dtype_size(product);
}

}  // namespace assay::cuda
