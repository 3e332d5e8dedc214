// Tensors: memory of the host's or borrowed from it, views of the engine's, and batches of them
// held for reading.
#include "capi/src/tensor.h"

#include <cstring>

#include "capi/src/abi.h"
#include "capi/src/context.h"
#include "sdk/base/expect.h"

namespace assay::capi {

TensorOwner new_tensor(std::shared_ptr<const Context> context, const ValueType& type) {
  const auto backend = context->backend();
  TensorOwner tensor(new assay_tensor(type.dtype, type.dims, std::move(context)));
  tensor->memory = backend->allocate_host(tensor->bytes());
  tensor->data = tensor->memory->data();
  return tensor;
}

Dims checked_dims(const int64_t* shape, int32_t ndim, assay_dtype dtype) {
  expect(ndim >= 0 && ndim <= ASSAY_MAX_NDIM, {"", "ndim"}, ndim, "0 to ", int{ASSAY_MAX_NDIM});
  check_array(shape, static_cast<size_t>(ndim), "shape");
  const size_t element = dtype_size(static_cast<DType>(dtype));
  expect(element > 0, {"", "dtype"}, dtype, "an element type, ASSAY_F32 to ASSAY_U8");
  int64_t bytes = static_cast<int64_t>(element);
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) [[unlikely]]
      fail_mismatch(Code::kInvalid, {cat("shape[", i, "]"), "shape", cat(shape[i]), "0 or more"});
    expect(!__builtin_mul_overflow(bytes, std::max<int64_t>(shape[i], 1), &bytes), {"", "shape"},
           "too large", "a tensor of less than 2^63 bytes");
  }
  return Dims(std::span<const int64_t>(shape, static_cast<size_t>(ndim)));
}

BatchUse::BatchUse(const assay_tensor* const* tensors, size_t n, std::string_view argument)
    : n_(n) {
  check_array(tensors, n, argument);
  if (n > train::kMostBatchTensors) [[unlikely]]
    fail_mismatch(Code::kInvalid, {cat("number of tensors of ", argument), std::string(argument),
                                   cat(n), cat("at most ", train::kMostBatchTensors)});
  for (size_t i = 0; i < n; ++i) {
    const bool usable = tensors[i] != nullptr && tensors[i]->on_device == nullptr;
    if (!usable) [[unlikely]]
      fail_mismatch(Code::kInvalid, {cat(argument, "[", i, "]"), std::string(argument),
                                     tensors[i] == nullptr ? "NULL" : "in device memory",
                                     "a tensor in host memory"});
    // One after the other: if a later one is refused, the destructor gives back those before it.
    uses_[i].emplace(*tensors[i]->access, "tensor of the batch");
    host_[i] = {tensors[i]->dtype, tensors[i]->dims, tensors[i]->data};
  }
}

}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_tensor::assay_tensor(DType type, const Dims& shape, std::shared_ptr<const void> owner)
    : dtype(type), dims(shape), keep_alive(std::move(owner)) {}

assay_tensor::assay_tensor(DType type, const Dims& shape, void* elements, uint32_t view_flags,
                           capi::Access& guard, std::shared_ptr<const void> owner,
                           const Context* device)
    : dtype(type),
      dims(shape),
      data(elements),
      flags(view_flags | ASSAY_TENSOR_VIEW),
      access(&guard),
      on_device(device == nullptr || device->backend()->host_accessible() ? nullptr : device),
      keep_alive(std::move(owner)) {}

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
    if (device.kind != ASSAY_DEVICE_CPU || device.index != 0)
      fail_mismatch(Code::kNotFound, {"device", "device", capi::to_text(device),
                                      cat("host memory, ", capi::to_text({ASSAY_DEVICE_CPU, 0}))});
    const Dims dims = checked_dims(shape, ndim, dtype);
    *out = new_tensor(context, {static_cast<DType>(dtype), dims}).release();
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
    check_array(data, tensor->bytes(), "data");
    expect(bytes >= tensor->bytes(), {"", "bytes"}, bytes, "at least the ", tensor->bytes(), " of ",
           tensor->dtype, dims);
    expect(reinterpret_cast<uintptr_t>(data) % dtype_size(tensor->dtype) == 0, {"", "data"},
           "not aligned", "an address that is a multiple of ", dtype_size(tensor->dtype), ", for ",
           tensor->dtype);
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
  check_array(host, bytes, argument);
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
    expect((tensor.flags & ASSAY_TENSOR_READ_ONLY) == 0, {"", "t"}, "read-only",
           "a tensor that may be written");
    check_copy(tensor, src, bytes, "src");
    const ExclusiveUse use(*tensor.access, "tensor");
    if (bytes == 0) return;
    if (tensor.on_device != nullptr) {
      Backend& backend = *tensor.on_device->backend();
      backend.write(tensor.data, src, bytes);
      backend.wait();  // others may read the memory (assay_tensor_to_dlpack), or free it
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
  // acq_rel: what every owner did to the tensor happens before it is destroyed.
  if (t != nullptr && t->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete t;
}
