// Results of CUDA, cuDNN and cuBLAS as Errors with the vendor's number.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <string_view>

#include "sdk/base/error.h"

namespace assay::cuda {

// Fail unless the call succeeded: kOutOfDeviceMemory for lack of memory, else kDevice. `doing` is
// what was tried: "copying to the device".
void check(cudaError_t result, std::string_view doing);
void check(cudnnStatus_t result, std::string_view doing);
void check(cublasStatus_t result, std::string_view doing);

// For calls whose failure changes nothing any more, as in destructors: the thread's last error is
// cleared, or the next launch would report it as its own.
void ignore(cudaError_t result) noexcept;

// Errors after which the process's context on the device is lost: every later call reports them.
bool is_sticky(cudaError_t result);

}  // namespace assay::cuda
