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

// Errors after which nothing works any more on the device until it is reset.
bool is_sticky(cudaError_t result);

}  // namespace assay::cuda
