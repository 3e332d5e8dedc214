// Convolutions and attention on cuDNN graphs. Convolutions by kernels that are compiled already,
// none that cuDNN would compile while the program runs; of attention it has no others.
#pragma once

#include "sdk/backend/cuda/cudnn_graphs.h"
#include "sdk/backend/cuda/described_device.h"
#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace assay::cuda {

class CudnnLibrary {
 public:
  CudnnLibrary(Tuning& tuning, const DeviceState& device);
  // Plans as on such a device, which need not be there. The calls cannot run.
  CudnnLibrary(const DescribedDevice& device, bool deterministic);
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  // Needs the device's lock, as running the call does. Equal calls share one. Where cuDNN refuses
  // one, it must still plan an ordinary one of its kind: if not, it is the installation or the
  // device that fails, and that is an error. cuDNN's own words do not tell the two apart, as they
  // list the conditions of every engine, with the names of statuses that did not occur.
  std::optional<LibraryCall> plan(const Convolution& convolution);
  // Always cuDNN's first proposal: noise, on which proposals are timed, is no number of a row.
  std::optional<LibraryCall> plan(const FusedAttention& attention);

 private:
  template <class Call>
  std::optional<LibraryCall> plan_once(const Call& call);
  template <class Call>
  void require_working(const Call& ordinary);
  template <class Call>
  std::optional<LibraryCall> prepare(const Call& call, std::string& why_not);
  std::shared_ptr<cudnn_frontend::graph::Graph> make_graph() const;
  std::optional<int64_t> choose(cudnn_frontend::graph::Graph& graph, const Convolution& convolution,
                                const FindAddresses& addresses, std::string& why_not);
  std::optional<int64_t> choose(cudnn_frontend::graph::Graph& graph, const FusedAttention&,
                                const FindAddresses& addresses, std::string& why_not);

  Tuning* tuning_ = nullptr;
  std::optional<DeviceLife> life_;
  bool deterministic_ = true;
  size_t memory_ = 0;              // of the device
  cudaStream_t stream_ = nullptr;  // for timing proposals
  std::shared_ptr<struct CudnnDevice> device_;
  std::unordered_map<std::string, std::optional<LibraryCall>> planned_;  // by their description
};

}  // namespace assay::cuda
