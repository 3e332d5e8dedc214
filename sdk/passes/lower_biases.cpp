#include "sdk/passes/lower_biases.h"

#include <map>
#include <utility>

#include "sdk/graph/elementwise.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {
namespace {

// Input 2 of a convolution or a product.
bool has_bias(const Op& op) {
  if (const auto* conv = std::get_if<Conv2d>(&op)) return conv->has_bias;
  const auto* product = std::get_if<Matmul>(&op);
  return product != nullptr && product->has_bias;
}

}  // namespace

// conv2d{bias}(x, w, b) of 16 bits   ⇒   conv2d{bias}(x, w, cast(b)), and so of matmul
// cuDNN and cuBLASLt add only biases of the result's type: as nodes, the casts can be joined, and
// those of a predictor are constants. One cast for each bias, however many nodes read it.
bool lower_biases(Graph& graph) {
  std::map<std::pair<ValueId, DType>, ValueId> lowered;
  const bool changed = rewrite_each(graph, [&](NodeId id) {
    if (!has_bias(graph.node(id).op)) return false;
    const Op op = graph.node(id).op;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    const DType data = graph.type(graph.node(id).outputs[0]).dtype;
    if (graph.type(inputs[2]).dtype == data) return false;
    ValueId& bias = lowered[{inputs[2], data}];
    if (!bias.valid()) {
      graph.set_scope(graph.producer(inputs[2]).scope);
      bias = cast(graph, inputs[2], data);
    }
    inputs[2] = bias;
    graph.rewrite(id, op, std::move(inputs));
    return true;
  });
  graph.set_scope("");
  return changed;
}

}  // namespace assay
