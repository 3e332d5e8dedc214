// Nodes as text: what golden tests compare and people read.
//
//   %3 = conv2d(%0, %1) {stride=[1,1], ..., activation=none} : f32[128,28,28,32]  # conv1
//
// What is a view of other memory, or is placed in it, says where it lies, in elements:
// "f32[8,4] in %3 +4 [12,1]" (see layout.h).
#pragma once

#include <string>
#include <string_view>

#include "sdk/graph/graph.h"

namespace assay {

std::string node_text(const Graph& graph, NodeId id);
// In quotation marks, with a backslash before those and itself.
std::string quoted(std::string_view text);

// The printed name of an enumerator in attributes: "relu", "f32", "value", ...
std::string_view to_text(ActivationKind kind);
std::string_view to_text(ScalarKind kind);
std::string_view to_text(MomentumConvention convention);
std::string_view to_text(EpsilonForm form);
std::string_view to_text(Reduction reduction);
std::string_view to_text(QueueId queue);
std::string_view to_text(PointwiseFn fn);

}  // namespace assay
