// Sums of gradients over devices, begun while the backward pass still computes others.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

// Gradients travel in buckets of at least so many bytes: small enough that the first leaves early,
// large enough that the way costs more than the start.
inline constexpr size_t kBucketBytes = size_t{8} << 20;

// Emits, on the queue for communication, the sums of the stored gradients over all devices, cut
// into buckets from the last variable to the first, which is the order in which a backward pass
// finishes them. Returns the sums, in the order of `stored`. `wire` as of AllReduce.
std::vector<ValueId> append_all_reduce(Graph& graph, std::span<const ValueId> stored,
                                       std::optional<DType> wire = {},
                                       size_t bucket_bytes = kBucketBytes);

// Moves each sum, and the stores that it waits for, to where its last gradient is ready.
void begin_reductions_early(Graph& graph);

}  // namespace assay
