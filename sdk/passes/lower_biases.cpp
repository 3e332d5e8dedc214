#include "sdk/passes/lower_biases.h"

#include <map>

#include "sdk/graph/elementwise.h"

namespace assay {

// conv2d{bias}(x, w, b) of 16 bits   ⇒   conv2d{bias}(x, w, cast(b))
// cuDNN adds only biases of the data's type: as nodes, the casts can be joined, and those of a
// predictor are constants. One cast for each bias, however many convolutions read it.
bool lower_biases(Graph& graph) {
  std::map<ValueId, ValueId> lowered;
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId id{i};
    const auto* p = std::get_if<Conv2d>(&graph.node(id).op);
    if (p == nullptr || !p->has_bias) continue;
    const Conv2d op = *p;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    const DType data = graph.type(inputs[0]).dtype;
    if (graph.type(inputs[2]).dtype == data) continue;
    ValueId& bias = lowered[inputs[2]];
    if (!bias.valid()) {
      graph.set_scope(graph.producer(inputs[2]).scope);
      bias = cast(graph, inputs[2], data);
    }
    inputs[2] = bias;
    graph.rewrite(id, op, std::move(inputs));
    changed = true;
  }
  graph.set_scope("");
  return changed;
}

}  // namespace assay
