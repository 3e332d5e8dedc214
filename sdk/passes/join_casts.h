// Casts that one launch can do together.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool join_casts(Graph& graph);

}  // namespace assay
