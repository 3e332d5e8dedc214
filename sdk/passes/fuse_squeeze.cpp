#include "sdk/passes/fuse_squeeze.h"

#include <optional>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {
namespace {

bool is_of_whole_image(const PoolGeometry& g, const Dims& image) {
  constexpr std::array<int64_t, 2> kNone{};
  return g.window[0] == image[1] && g.window[1] == image[2] && g.pad_begin == kNone &&
         g.pad_end == kNone;
}

// What arrives at y behind the normalisation: dproduct * gate + dsqueezed / (H * W).
struct Arriving {
  ValueId dproduct, gate, dsqueezed;
};
std::optional<Arriving> find_arriving(const Rewriter& rewriter, ValueId dy, NodeId reader) {
  const Graph& graph = rewriter.graph();
  const Node& sum = graph.producer(dy);
  const ValueType type = graph.type(dy);
  if (!is_add(sum.op) || !rewriter.uses().only_reader(dy, reader)) return {};
  for (const int first : {0, 1}) {
    const ValueId product = sum.inputs[first], share = sum.inputs[1 - first];
    const Node &times = graph.producer(product), &shares = graph.producer(share);
    const auto* pool = std::get_if<AvgPoolGrad>(&shares.op);
    if (!is_product(times.op) || pool == nullptr || graph.type(product) != type) continue;
    if (!is_of_whole_image(pool->geometry, type.dims)) continue;
    for (const int gate : {0, 1}) {
      const Arriving arriving{times.inputs[1 - gate], times.inputs[gate], shares.inputs[0]};
      if (graph.type(arriving.dproduct) == type &&
          graph.type(arriving.gate) == graph.type(arriving.dsqueezed))
        return arriving;
    }
  }
  return {};
}

// The gradient of a normalisation that has these inputs first.
std::optional<NodeId> find_gradient(const Rewriter& rewriter, const Node& norm) {
  const Graph& graph = rewriter.graph();
  for (const NodeId reader : rewriter.uses().readers[static_cast<size_t>(norm.outputs[1].index)]) {
    const Node& node = graph.node(reader);
    if (std::holds_alternative<BatchNormGrad>(node.op) && node.inputs[0] == norm.inputs[0] &&
        node.inputs[3] == norm.outputs[1])
      return reader;
  }
  return {};
}

}  // namespace

// batch_norm{swish} ─▶ y ─▶ avg_pool of the whole image   ⇒   squeezed_batch_norm
// add(dproduct * gate, avg_pool_grad(dsqueezed)) ─▶ batch_norm_grad{swish}
//   ⇒ squeezed_batch_norm_grad(dproduct, gate, dsqueezed)
// Squeeze-and-excitation in training. Saves reading y once forward, and backward four passes over
// as much: the share of the mean in every pixel, and the sum, are nowhere written.
bool fuse_squeeze(Graph& graph) {
  Rewriter rewriter(graph);
  return rewrite_each<AvgPool>(graph, [&](NodeId pool, const AvgPool& p) {
    const ValueId y = graph.node(pool).inputs[0];
    const Node norm = graph.producer(y);
    const auto* n = std::get_if<BatchNorm>(&norm.op);
    if (n == nullptr || n->has_residual || n->activation != ActivationKind::kSwish) return false;
    if (!is_of_whole_image(p.geometry, graph.type(y).dims)) return false;
    const auto gradient = find_gradient(rewriter, norm);
    if (!gradient) return false;
    std::vector<ValueId> inputs = graph.node(*gradient).inputs;
    const auto arriving = find_arriving(rewriter, inputs[5], *gradient);
    if (!arriving) return false;
    inputs[5] = arriving->dproduct;
    inputs.insert(inputs.end(), {arriving->gate, arriving->dsqueezed});
    rewriter.rewrite(*gradient, SqueezedBatchNormGrad{n->epsilon}, std::move(inputs));
    rewriter.rewrite(pool, SqueezedBatchNorm{n->epsilon}, norm.inputs, norm.outputs);
    return true;
  });
}

}  // namespace assay
