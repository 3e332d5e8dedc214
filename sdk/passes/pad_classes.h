// Rows of logits that begin at aligned places, whatever the number of classes is.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// For GPUs, whose products are slow where rows of a matrix begin at odd places: 30,522 words get 6
// columns more, which belong to no class. For logits of one loss. Returns whether it changed the
// graph.
bool pad_classes(Graph& graph);

}  // namespace assay
