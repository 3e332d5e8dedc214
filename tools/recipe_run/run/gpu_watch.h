// What happens to an NVIDIA GPU while something is timed on it: clock, throttling and other
// processes, ten times a second, asked of the driver's own library (NVML), which is opened only
// then.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/stats/noise.h"

namespace reciperun {

inline constexpr char kNvml[] = "libnvidia-ml.so.1";

// Whether a process that is not of this program computes on the GPU, as its driver lists them. Of
// this program are this process, the ones that it started, and those of the same executable that it
// was started by, with all that they started. In a container the driver's numbers may be those of
// the host, where none of ours can be found among them: then nothing is known.
std::optional<bool> foreign_process(const std::vector<int>& listed, bool in_container, int self,
                                    const std::function<int(int)>& parent_of,
                                    const std::function<bool(int)>& is_this_program);

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
