// What happens to an NVIDIA GPU while something is timed on it: clock, throttling and other
// processes, ten times a second, asked of the driver's own library (NVML), which is opened only
// then.
#pragma once

#include <memory>
#include <string>

#include "tools/recipe_run/statistics/noise.h"

namespace reciperun {

inline constexpr char kNvml[] = "libnvidia-ml.so.1";

class GpuWatch {
 public:
  // `device`: "cuda:0", counted as CUDA does; CUDA_VISIBLE_DEVICES is heeded where it lists
  // numbers. Other devices are not watched, and result() says so, as where the library is missing.
  explicit GpuWatch(const std::string& device, const std::string& library = kNvml);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Ends the watch.
  GpuWindow result();

 private:
  class Sampler;
  std::unique_ptr<Sampler> sampler_;
  std::string unwatched_;
};

}  // namespace reciperun
