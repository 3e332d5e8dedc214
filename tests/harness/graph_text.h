// Whole graphs as text, and back.
#pragma once

#include <string>
#include <string_view>

#include "sdk/graph/graph.h"

namespace assay {

// The nodes as node_text prints them (sdk/graph/text.h), then the outputs:
//   return loss=%17, logits=%12
// A first line "tf32" stands for Graph::tf32. A name that is no word stands in quotation marks.
std::string graph_text(const Graph& graph);

// Reads what graph_text prints; types are inferred again and must agree with the printed ones.
// Fails with kFormat, the line number and what was expected.
Graph parse_graph(std::string_view text);

}  // namespace assay
