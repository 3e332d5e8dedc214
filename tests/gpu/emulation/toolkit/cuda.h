// As much of CUDA's driver as sdk/backend/cuda asks the runtime for: see cuda_runtime.h.
#pragma once

enum CUresult { CUDA_SUCCESS = 0 };
using CUdevice = int;
