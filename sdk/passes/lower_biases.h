#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool lower_biases(Graph& graph);

}  // namespace assay
