// The CUDA backend without CUDA: the same plans and kernels, run by cuda_emulation.h, with matrix
// products and convolutions as loops. Knows no streams and no graphs.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"

namespace assay::test {

std::unique_ptr<Backend> make_emulated_backend();

}  // namespace assay::test
