// Matrix products on cuBLASLt, all of them deterministic.
#pragma once

#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace assay::cuda {

class MatrixLibrary {
 public:
  // `stream` is for timing proposals.
  MatrixLibrary(Tuning& tuning, cudaStream_t stream);
  ~MatrixLibrary();
  MatrixLibrary(const MatrixLibrary&) = delete;
  MatrixLibrary& operator=(const MatrixLibrary&) = delete;

  // Needs the device's lock, as running the call does.
  std::optional<LibraryCall> plan(const MatrixProduct& product);

 private:
  Tuning& tuning_;
  cudaStream_t stream_;
  std::shared_ptr<struct MatrixHandle> handle_;
};

}  // namespace assay::cuda
