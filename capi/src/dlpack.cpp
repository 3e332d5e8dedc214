// Tensors in and out without a copy, as structs of DLPack, which have frozen layouts: those below
// are dlpack.h's (version 1.1, github.com/dmlc/dlpack), as far as this file reads or writes them.
#include <algorithm>
#include <array>
#include <memory>

#include "capi/src/abi.h"
#include "capi/src/context.h"
#include "capi/src/tensor.h"
#include "sdk/base/expect.h"

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be null
  uint64_t flags;
  // What follows may lie elsewhere in another major version.
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;  // of the elements
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; null: without gaps
  uint64_t byte_offset;
};

namespace assay::capi {
namespace {

constexpr uint32_t kMajor = 1, kMinor = 0;
constexpr uint64_t kReadOnly = 1;
enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3 };

struct ElementType {
  uint8_t code, bits;
  DType dtype;
};
constexpr uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6;
constexpr ElementType kElementTypes[] = {
    {kFloat, 32, DType::kF32}, {kBfloat, 16, DType::kBf16}, {kFloat, 16, DType::kF16},
    {kFloat, 64, DType::kF64}, {kInt, 32, DType::kI32},     {kInt, 64, DType::kI64},
    {kUInt, 8, DType::kU8},    {kBool, 8, DType::kU8},  // the last one comes in only
};

// What the consumer gets, and what its deleter frees.
struct Exported {
  DLManagedTensorVersioned managed{};
  TensorOwner tensor;
  std::array<int64_t, ASSAY_MAX_NDIM> shape{}, strides{};
};

DLManagedTensorVersioned* export_tensor(const assay_tensor& tensor) {
  auto exported = std::make_unique<Exported>();
  exported->tensor.reset(assay_tensor_retain(&tensor));
  int64_t stride = 1;
  for (int axis = tensor.dims.rank() - 1; axis >= 0; --axis) {
    const auto i = static_cast<size_t>(axis);
    exported->shape[i] = tensor.dims[axis];
    exported->strides[i] = stride;
    stride *= std::max<int64_t>(1, tensor.dims[axis]);
  }
  const auto* const type = std::ranges::find(kElementTypes, tensor.dtype, &ElementType::dtype);
  const bool on_host = tensor.on_device == nullptr;
  exported->managed = {
      .major = kMajor,
      .minor = kMinor,
      .manager_ctx = exported.get(),
      .deleter =
          [](DLManagedTensorVersioned* self) { delete static_cast<Exported*>(self->manager_ctx); },
      .flags = (tensor.flags & ASSAY_TENSOR_READ_ONLY) != 0 ? kReadOnly : 0,
      .data = tensor.bytes() == 0 ? nullptr : tensor.data,
      .device_type = on_host ? kCpu : kCuda,
      .device_id = on_host ? 0 : tensor.on_device->device().index,
      .ndim = tensor.dims.rank(),
      .code = type->code,
      .bits = type->bits,
      .lanes = 1,
      .shape = exported->shape.data(),
      .strides = exported->strides.data()};
  return &exported.release()->managed;
}

DType type_of(const DLManagedTensorVersioned& dl) {
  for (const ElementType& type : kElementTypes) {
    if (type.code == dl.code && type.bits == dl.bits && dl.lanes == 1) return type.dtype;
  }
  fail_mismatch(
      Code::kUnsupported,
      {"dl's dtype", "dl", cat("code ", dl.code, ", ", dl.bits, " bits, ", dl.lanes, " lanes"),
       "f32, bf16, f16, f64, i32, i64, u8 or bool, of one lane"});
}

// Whether the memory is that of `context`'s device and not of the host.
bool is_on_device(const DLManagedTensorVersioned& dl, const Context& context) {
  if (dl.device_type == kCpu || dl.device_type == kCudaHost) return false;
  if (dl.device_type != kCuda)
    fail_mismatch(Code::kNotFound, {"dl's device", "dl", cat("of type ", dl.device_type),
                                    "kDLCPU, kDLCUDAHost or kDLCUDA"});
  context.require_device({ASSAY_DEVICE_CUDA, dl.device_id}, "dl");
  return true;
}

// Errors name `dl`, since its parts are no arguments.
Dims dims_of(const DLManagedTensorVersioned& dl, DType type) {
  try {
    return checked_dims(dl.shape, dl.ndim, static_cast<assay_dtype>(type));
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    detail.argument = "dl";
    throw Error(error.code(), cat("dl's ", error.message()), std::move(detail));
  }
}

void require_dense(const DLManagedTensorVersioned& dl, const Dims& dims) {
  if (dl.strides == nullptr || dims.numel() == 0) return;
  int64_t stride = 1;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    if (dims[axis] != 1 && dl.strides[axis] != stride)
      fail_mismatch(
          Code::kUnsupported,
          {cat("dl's stride of axis ", axis), "dl", cat(dl.strides[axis]),
           cat(stride, ", of ", dims, " without gaps"), "make a contiguous copy of it first"});
    stride *= dims[axis];
  }
}

void* elements_of(const DLManagedTensorVersioned& dl, DType type) {
  if (dl.data == nullptr)
    fail_mismatch(Code::kInvalid, {"dl's data", "dl", "NULL", "its elements"});
  char* const data = static_cast<char*>(dl.data) + dl.byte_offset;
  if (reinterpret_cast<uintptr_t>(data) % dtype_size(type) != 0)
    fail_mismatch(Code::kUnsupported, {"dl's data", "dl", "not aligned",
                                       cat("an address that is a multiple of ", dtype_size(type)),
                                       "make a copy of it first"});
  return data;
}

void give_back(uintptr_t user) {
  auto* const dl = reinterpret_cast<DLManagedTensorVersioned*>(user);
  if (dl->deleter != nullptr) dl->deleter(dl);
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_tensor_to_dlpack(const assay_tensor* t, DLManagedTensorVersioned** out,
                                    assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const assay_tensor& tensor = not_null(t, "t");
    // Others know nothing of the queue that writes and copies of this library may still wait in.
    if (tensor.on_device != nullptr) tensor.on_device->backend()->wait();
    *out = export_tensor(tensor);
  });
}

assay_status assay_tensor_from_dlpack(const assay_context* c, DLManagedTensorVersioned* dl,
                                      assay_tensor** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    const DLManagedTensorVersioned& given = not_null(dl, "dl");
    require(given.major == kMajor, Code::kVersion, "dl is of DLPack ", given.major, ".",
            given.minor, ", this library takes versions ", kMajor, ".x");
    const DType type = type_of(given);
    const bool on_device = is_on_device(given, *context);
    const Dims dims = dims_of(given, type);
    require_dense(given, dims);
    auto tensor = std::make_unique<assay_tensor>(type, dims, context);
    if (dims.numel() > 0) tensor->data = elements_of(given, type);
    if (on_device) tensor->on_device = context.get();
    if ((given.flags & kReadOnly) != 0) tensor->flags = ASSAY_TENSOR_READ_ONLY;
    tensor->release = give_back;
    tensor->user = reinterpret_cast<uintptr_t>(dl);
    *out = tensor.release();
  });
}
