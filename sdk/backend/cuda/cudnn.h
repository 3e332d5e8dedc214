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
  std::optional<LibraryCall> plan(const Convolution& convolution);
  const std::string& last_refusal() const { return last_refusal_; }

 private:
  struct Planned {
    std::optional<LibraryCall> call;
    std::string refusal;  // why there is none
  };
  void require_working();
  Planned prepare(const Convolution& convolution, const std::string& text);

  Tuning& tuning_;
  DeviceLife life_;
  bool deterministic_;
  cudaStream_t stream_;  // for timing proposals
  std::shared_ptr<struct ConvolutionHandle> handle_;
  std::unordered_map<std::string, Planned> planned_;  // by their description
  std::string last_refusal_;
};

}  // namespace assay::cuda
