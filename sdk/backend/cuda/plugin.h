// What libassay and the CUDA plug-in, libassay_cuda.so, know of each other.
//
// The plug-in is a shared object of its own, so that libassay depends on no CUDA library. Both
// sides speak C++ across the border (Backend, Graph, Error), so they must come from one build:
// `fingerprint` is compared first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"

namespace assay::cuda {

struct Options {
  int index = 0;
  // Only kernels that give the same bits on every run.
  bool deterministic = true;
  // Runs programs launch by launch instead of as CUDA graphs: for debuggers and sanitizers.
  bool capture = true;
  // Takes own kernels of depthwise convolutions without comparing them with cuDNN's: for tests.
  bool own_depthwise = false;
};

struct Device {
  DeviceInfo info;
  Target target;
  std::string unavailable_reason;  // empty: backends can be made on it
};

struct PluginTable {
  const char* fingerprint;
  // All devices of the machine; if there are none or the driver does not work, none and `reason`.
  std::vector<Device> (*devices)(std::string& reason);
  std::unique_ptr<Backend> (*make_backend)(const Options& options);
  // Bytes of a device that are free now; 0: the process does not use it yet, or it does not answer.
  uint64_t (*memory_free)(int index);
  // A backend that plans for `target` without a device: it cannot run anything.
  std::unique_ptr<Backend> (*make_planner)(const Target& target);
};

// The plug-in's only exported symbol: const PluginTable* assay_cuda_plugin().
inline constexpr const char* kPluginSymbol = "assay_cuda_plugin";
inline constexpr const char* kPluginFile = "libassay_cuda.so.1";

// Differs between builds that do not fit together: other releases, compilers, or headers of what
// crosses the border.
std::string fingerprint();

}  // namespace assay::cuda
