// cudnn-frontend, whose templates take a minute to compile: for cudnn.cpp and cudnn_graphs.cpp.
//
// Before it hands attention to cuDNN, the frontend asks CUDA's runtime for which generation. Where
// the device is only described, it gets that one's answer.
#pragma once
#define CUDNN_FRONTEND_SKIP_JSON_LIB

#include <cuda_runtime_api.h>

namespace assay::cuda::frontend {

inline thread_local int described_major = 0;  // 0: a device of this machine

inline cudaError_t get_device(int* device) {
  if (described_major == 0) return cudaGetDevice(device);
  *device = 0;
  return cudaSuccess;
}

inline cudaError_t get_properties(cudaDeviceProp* properties, int device) {
  if (described_major == 0) return cudaGetDeviceProperties(properties, device);
  *properties = {};
  properties->major = described_major;
  return cudaSuccess;
}

}  // namespace assay::cuda::frontend

#define cudaGetDevice assay::cuda::frontend::get_device
#define cudaGetDeviceProperties assay::cuda::frontend::get_properties
#include <cudnn_frontend.h>
#undef cudaGetDevice
#undef cudaGetDeviceProperties
