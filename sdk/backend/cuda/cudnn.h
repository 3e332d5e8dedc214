// Convolutions on cuDNN graphs, by kernels that are compiled already: none that cuDNN would compile
// while the program runs.
#pragma once

#include <unordered_map>

#include "sdk/backend/cuda/described_device.h"
#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace cudnn_frontend::graph {
class Graph;
}

namespace assay::cuda {

class ConvolutionLibrary {
 public:
  ConvolutionLibrary(Tuning& tuning, const DeviceState& device);
  // Plans as on such a device, which need not be there. The calls cannot run.
  explicit ConvolutionLibrary(const DescribedDevice& device);
  ~ConvolutionLibrary();
  ConvolutionLibrary(const ConvolutionLibrary&) = delete;
  ConvolutionLibrary& operator=(const ConvolutionLibrary&) = delete;

  // Needs the device's lock, as running the call does. Equal convolutions share their call. Where
  // cuDNN refuses one, it must still plan an ordinary one: if not, it is the installation or the
  // device that fails, and that is an error. cuDNN's own words do not tell the two apart, as they
  // list the conditions of every engine, with the names of statuses that did not occur.
  std::optional<LibraryCall> plan(const Convolution& convolution);

 private:
  void require_working();
  std::optional<LibraryCall> prepare(const Convolution& convolution, const std::string& text,
                                     std::string& why_not);
  std::optional<int64_t> choose(cudnn_frontend::graph::Graph& graph, const Convolution& convolution,
                                const std::string& text);

  Tuning* tuning_ = nullptr;
  std::optional<DeviceLife> life_;
  bool deterministic_ = true;
  size_t memory_ = 0;              // of the device
  cudaStream_t stream_ = nullptr;  // for timing proposals
  std::shared_ptr<struct ConvolutionDevice> device_;
  std::unordered_map<std::string, std::optional<LibraryCall>> planned_;  // by their description
};

}  // namespace assay::cuda
