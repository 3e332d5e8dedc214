// Vendors' status codes as Errors, and which of them mean that the device is lost to this process.
#include "sdk/backend/cuda/check.h"

namespace assay::cuda {
namespace {

[[noreturn]] void fail_with(Code code, Domain domain, int64_t number, std::string_view doing,
                            const char* name, const char* text, std::string hint = "") {
  ErrorDetail detail;
  detail.domain = domain;
  detail.native_code = number;
  detail.hint = std::move(hint);
  fail(code, cat(doing, ": ", std::string_view(name), " (", number, "), ", std::string_view(text)),
       std::move(detail));
}

}  // namespace

// Those of which driver_types.h says that the process must be terminated and relaunched, lost
// devices, and a context that the host has destroyed.
bool is_sticky(cudaError_t result) {
  switch (result) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
      return true;
    default:
      return false;
  }
}

void ignore(cudaError_t result) noexcept {
  if (result != cudaSuccess) static_cast<void>(cudaGetLastError());
}

void check(cudaError_t result, std::string_view doing) {
  if (result == cudaSuccess) [[likely]]
    return;
  ignore(result);  // else the next launch reports it again
  const Code code = result == cudaErrorMemoryAllocation ? Code::kOutOfDeviceMemory : Code::kDevice;
  fail_with(code, Domain::kCuda, result, doing, cudaGetErrorName(result),
            cudaGetErrorString(result));
}

void check(cudnnStatus_t result, std::string_view doing) {
  if (result == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  char text[512] = {};
  cudnnGetLastErrorString(text, sizeof text);
  // cuDNN is eight libraries, of which the first opens the others when they are wanted.
  const char* wrong = result == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH
                          ? "the parts of cuDNN found here are of different versions"
                      : result == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
                          ? "a part of cuDNN is missing or cannot be loaded"
                          : nullptr;
  if (wrong == nullptr)
    fail_with(Code::kDevice, Domain::kCudnn, result, doing, cudnnGetErrorString(result), text);
  fail_with(Code::kUnsupported, Domain::kCudnn, result, cat(doing, ": ", std::string(wrong)),
            cudnnGetErrorString(result), text,
            "install all of one cuDNN release, and look for another one's folder in "
            "LD_LIBRARY_PATH");
}

void check(cublasStatus_t result, std::string_view doing) {
  if (result == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail_with(Code::kDevice, Domain::kCublas, result, doing, cublasLtGetStatusName(result),
            cublasLtGetStatusString(result));
}

void check_launch() { check(cudaGetLastError(), "launching a kernel"); }

}  // namespace assay::cuda
