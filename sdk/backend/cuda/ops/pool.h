// Pooling, also behind a normalisation.
#pragma once

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// x [N,H,W,C], y [N,P,Q,C]. Images of more than 2^31 elements are an error.
kernels::PoolShape pool_shape(const PoolGeometry&, const Dims& x, const Dims& y);

}  // namespace assay::cuda
