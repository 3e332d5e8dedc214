// Depthwise convolutions by kernels of our own, in the form of a library's call.
#pragma once

#include <optional>

#include "sdk/backend/cuda/libraries.h"
#include "sdk/backend/cuda/tuning.h"

namespace assay::cuda {

// Nothing for what kernels::depthwise does not take: other convolutions, other windows, and those
// to which something is joined.
std::optional<LibraryCall> depthwise_convolution(const Convolution& convolution);

// Which of the two calls for such a convolution takes less time on the device, now or when that was
// asked before (tuning.h).
LibraryCall faster_of(Tuning& tuning, cudaStream_t stream, const Convolution& convolution,
                      const LibraryCall& library, const LibraryCall& own);

}  // namespace assay::cuda
