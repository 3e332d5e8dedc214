// What the ops of convolutions ask the library for.
#pragma once

#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {

// The library's call; nothing if it has none, or none that may be used.
//
// Sums are not to be had where every run must give the same bits: cuDNN adds up the parts that
// blocks give in the order in which they end, and does not say so (decisions/0024).
//
// On tensor cores the channels of a pixel must fill 16 bytes, or cuDNN takes several times as long:
// where x has fewer, and no few pixels, copies of x and w in the call's scratch do, with zeros.
std::optional<LibraryCall> library_convolution(const Planner& planner, const Convolution& asked);

}  // namespace assay::cuda
