#include "capi/src/tensor.h"

#include <cstring>

#include "capi/src/abi.h"
#include "capi/src/context.h"
#include "sdk/base/expect.h"

namespace assay::capi {

Dims checked_dims(const int64_t* shape, int32_t ndim, assay_dtype dtype) {
  expect(ndim >= 0 && ndim <= ASSAY_MAX_NDIM, {"", "ndim"}, ndim, "0 to ", int{ASSAY_MAX_NDIM});
  require_argument(shape != nullptr || ndim == 0, "shape", "must not be NULL");
  const size_t element = dtype_size(static_cast<DType>(dtype));
  expect(element > 0, {"", "dtype"}, dtype, "an element type, ASSAY_F32 to ASSAY_U8");
  int64_t bytes = static_cast<int64_t>(element);
  for (int32_t i = 0; i < ndim; ++i) {
    require_argument(shape[i] >= 0, "shape", "has size ", shape[i], " at axis ", i);
    require_argument(!__builtin_mul_overflow(bytes, std::max<int64_t>(shape[i], 1), &bytes),
                     "shape", "has more elements than fit into memory");
  }
  return Dims(std::span<const int64_t>(shape, static_cast<size_t>(ndim)));
}

BatchUse::BatchUse(const assay_tensor* const* tensors, size_t n, std::string_view argument)
    : n_(n) {
  require_argument(tensors != nullptr || n == 0, argument, "must not be NULL");
  require_argument(n <= kMost, argument, "has ", n, " tensors, at most ", kMost, " are allowed");
  for (size_t i = 0; i < n; ++i) {
    require_argument(tensors[i] != nullptr, argument, "holds NULL at index ", i);
    require_argument(tensors[i]->on_device == nullptr, argument, "[", i,
                     "] lies in device memory; batches are taken from host memory");
    uses_[i].emplace(*tensors[i]->access, "tensor of the batch");
    host_[i] = {tensors[i]->dtype, tensors[i]->dims, tensors[i]->data};
  }
}

}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_tensor::~assay_tensor() {
  if (release != nullptr) release(user);
}

assay_status assay_tensor_new(const assay_context* c, assay_device_id device, assay_dtype dtype,
                              const int64_t* shape, int32_t ndim, assay_tensor** out,
                              assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    // Host tensors are there on every device, for batches; device tensors are views only.
    require(device.kind == ASSAY_DEVICE_CPU && device.index == 0, Code::kNotFound, "device {kind ",
            device.kind, ", index ", device.index, "}: tensors are made in host memory, {",
            int32_t{ASSAY_DEVICE_CPU}, ", 0}");
    const Dims dims = checked_dims(shape, ndim, dtype);
    auto tensor = std::make_unique<assay_tensor>(static_cast<DType>(dtype), dims, context);
    tensor->memory = context->backend()->allocate_host(tensor->bytes());
    tensor->data = tensor->memory->data();
    *out = tensor.release();
  });
}

assay_status assay_tensor_borrow(const assay_context* c, void* data, size_t bytes,
                                 assay_dtype dtype, const int64_t* shape, int32_t ndim,
                                 void (*release)(uintptr_t user), uintptr_t user,
                                 assay_tensor** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    const Dims dims = checked_dims(shape, ndim, dtype);
    auto tensor = std::make_unique<assay_tensor>(static_cast<DType>(dtype), dims, context);
    require_argument(data != nullptr || tensor->bytes() == 0, "data", "must not be NULL");
    expect(bytes >= tensor->bytes(), {"", "bytes"}, bytes, "at least the ", tensor->bytes(), " of ",
           tensor->dtype, dims);
    require_argument(reinterpret_cast<uintptr_t>(data) % dtype_size(tensor->dtype) == 0, "data",
                     "is not aligned to elements of ", tensor->dtype);
    tensor->data = data;
    tensor->release = release;
    tensor->user = user;
    *out = tensor.release();
  });
}

assay_status assay_tensor_get_info(const assay_tensor* t, assay_tensor_info* out,
                                   assay_error** err) {
  return guard(err, [&] {
    const assay_tensor& tensor = not_null(t, "t");
    write_struct(out, "out",
                 assay_tensor_info{.dtype = static_cast<assay_dtype>(tensor.dtype),
                                   .ndim = tensor.dims.rank(),
                                   .device = tensor.on_device == nullptr
                                                 ? assay_device_id{ASSAY_DEVICE_CPU, 0}
                                                 : tensor.on_device->device(),
                                   .shape = tensor.dims.span().data(),
                                   .bytes = tensor.bytes(),
                                   .data = tensor.on_device == nullptr ? tensor.data : nullptr,
                                   .flags = tensor.flags});
  });
}

namespace {

void check_copy(const assay_tensor& tensor, const void* host, size_t bytes,
                std::string_view argument) {
  expect(bytes == tensor.bytes(), {"", "bytes"}, bytes, "the tensor's ", tensor.bytes());
  require_argument(host != nullptr || bytes == 0, argument, "must not be NULL");
}

}  // namespace

assay_status assay_tensor_read(const assay_tensor* t, void* dst, size_t bytes, assay_error** err) {
  return guard(err, [&] {
    const assay_tensor& tensor = not_null(t, "t");
    check_copy(tensor, dst, bytes, "dst");
    const SharedUse use(*tensor.access, "tensor");
    if (bytes == 0) return;
    if (tensor.on_device != nullptr) {
      tensor.on_device->backend()->read(dst, tensor.data, bytes);
    } else {
      std::memcpy(dst, tensor.data, bytes);
    }
  });
}

assay_status assay_tensor_write(assay_tensor* t, const void* src, size_t bytes, assay_error** err) {
  return guard(err, [&] {
    assay_tensor& tensor = not_null(t, "t");
    require_argument((tensor.flags & ASSAY_TENSOR_READ_ONLY) == 0, "t", "is read-only");
    check_copy(tensor, src, bytes, "src");
    const ExclusiveUse use(*tensor.access, "tensor");
    if (bytes == 0) return;
    if (tensor.on_device != nullptr) {
      tensor.on_device->backend()->write(tensor.data, src, bytes);
    } else {
      std::memcpy(tensor.data, src, bytes);
    }
  });
}

assay_tensor* assay_tensor_retain(const assay_tensor* t) {
  if (t != nullptr) t->retain();
  return const_cast<assay_tensor*>(t);
}

void assay_tensor_release(assay_tensor* t) {
  if (t != nullptr && t->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete t;
}
