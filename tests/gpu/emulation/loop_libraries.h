// Matrix products and convolutions by their definition, for the emulated backend. Some shapes are
// refused, as cuDNN refuses some, so that what stands in for it is tested as well.
#pragma once

#include <memory>

#include "sdk/backend/cuda/libraries.h"

namespace assay::test {

std::unique_ptr<cuda::Libraries> make_loop_libraries();

}  // namespace assay::test
