// Plain facts about a device, as far as they change graphs or the choice of kernels. Passes and
// plans read them instead of a backend, so that those of any device can be made, printed and
// compared on a machine without it.
#pragma once

#include <cstdint>
#include <string>

namespace assay {

struct Target {
  enum class Kind : int32_t { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  std::string name = "CPU";    // "NVIDIA H200"
  int compute_capability = 0;  // CUDA: 90 is 9.0
  bool has_tf32 = false;       // matrix units that round f32 operands to 10 bits of fraction
  bool has_f16 = false;        // kernels for f16 data
  bool deterministic = true;   // kernels must give the same bits on every run

  // What plans for an H200 are made from where there is none.
  static Target h200() { return {Kind::kCuda, "NVIDIA H200", 90, true, true}; }
};

}  // namespace assay
