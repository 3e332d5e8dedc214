// Convolutions on cuDNN graphs.
#pragma once

#include <unordered_map>

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace assay::cuda {

class ConvolutionLibrary {
 public:
  // Fails if cuDNN cannot plan an ordinary convolution: something of it is missing.
  ConvolutionLibrary(Tuning& tuning, const DeviceState& device);
  ~ConvolutionLibrary();
  ConvolutionLibrary(const ConvolutionLibrary&) = delete;
  ConvolutionLibrary& operator=(const ConvolutionLibrary&) = delete;

  // Needs the device's lock, as running the call does. Equal convolutions share their call.
  LibraryAnswer plan(const Convolution& convolution);

 private:
  void require_working();
  LibraryAnswer prepare(const Convolution& convolution, const std::string& text);

  Tuning& tuning_;
  DeviceLife life_;
  bool deterministic_;
  cudaStream_t stream_;  // for timing proposals
  std::shared_ptr<struct ConvolutionHandle> handle_;
  std::unordered_map<std::string, LibraryAnswer> planned_;  // by their description
};

}  // namespace assay::cuda
