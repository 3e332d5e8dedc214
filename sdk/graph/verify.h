// Checks the invariants of a graph after each pass.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// Fails with kInternal and the node's text unless: ids exist and agree with each other; inputs are
// produced before they are read; every output has the type its op infers and lies where it says;
// a variable has one leaf for each role; and nobody reads a value after a node that updates its
// memory in place.
void verify(const Graph& graph);

}  // namespace assay
