// The CPU backend: oneDNN for convolution and matrix products, own kernels for what memory
// bandwidth bounds.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"

namespace assay::cpu {

struct Options {
  int threads = 0;  // 0: as many as the process may use (affinity mask and cgroup quota)
};

std::unique_ptr<Backend> make_backend(const Options& options);

// Cores this process may use: the affinity mask, limited by the cgroup CPU quota, at least 1.
int usable_threads();

}  // namespace assay::cpu
