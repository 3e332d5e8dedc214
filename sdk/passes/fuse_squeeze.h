#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool fuse_squeeze(Graph& graph);

}  // namespace assay
