// Convolutions on cuDNN graphs.
#pragma once

#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace assay::cuda {

class ConvolutionLibrary {
 public:
  // `stream` is for timing proposals.
  ConvolutionLibrary(Tuning& tuning, bool deterministic, cudaStream_t stream);
  ~ConvolutionLibrary();
  ConvolutionLibrary(const ConvolutionLibrary&) = delete;
  ConvolutionLibrary& operator=(const ConvolutionLibrary&) = delete;

  // Needs the device's lock, as running the call does.
  std::optional<LibraryCall> plan(const Convolution& convolution);

 private:
  Tuning& tuning_;
  bool deterministic_;
  cudaStream_t stream_;
  std::shared_ptr<struct ConvolutionHandle> handle_;
};

}  // namespace assay::cuda
