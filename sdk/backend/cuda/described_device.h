// GPUs that cuDNN plans for where they are not.
#pragma once

#include <cstddef>
#include <string_view>

namespace assay::cuda {

struct DescribedDevice {
  std::string_view name;
  int major;                    // of its compute capability
  size_t memory;                // bytes
  std::string_view properties;  // JSON, as cudnn_frontend::DeviceProperties serialises it
};

// The one of that name, as the driver calls it. Fails with kUnsupported, and the list, if it is not
// described.
const DescribedDevice& described_device(std::string_view name);

}  // namespace assay::cuda
