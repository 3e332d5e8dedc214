// Matrix products on cuBLASLt, all of them deterministic.
#pragma once

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace assay::cuda {

class MatrixLibrary {
 public:
  MatrixLibrary(Tuning& tuning, const DeviceState& device);
  ~MatrixLibrary();
  MatrixLibrary(const MatrixLibrary&) = delete;
  MatrixLibrary& operator=(const MatrixLibrary&) = delete;

  // Needs the device's lock, as running the call does.
  std::optional<LibraryCall> plan(const MatrixProduct& product);

 private:
  Tuning& tuning_;
  cudaStream_t stream_;  // for timing proposals
  std::shared_ptr<struct MatrixHandle> handle_;
};

}  // namespace assay::cuda
