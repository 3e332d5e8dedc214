// Walks the nodes backwards and lets each op emit its gradient. What arrives at a value from
// several readers is summed in the order of arrival when its producer is reached: the same graph
// every time.
#include "sdk/graph/autodiff.h"

#include "sdk/graph/grad_ctx.h"

namespace assay {
namespace {

using Contributions = std::vector<std::vector<ValueId>>;  // by value index

bool arrives(const Contributions& contributions, ValueId value) {
  return !contributions[value.index].empty();
}

[[noreturn]] void fail_lost(const Node& node, size_t output) {
  ErrorDetail detail;
  detail.op_path = node.scope;
  fail(Code::kUnsupported,
       cat(op_name(node.op), node.scope.empty() ? "" : " at ", node.scope,
           " passes no gradient through its output ", output, ", but the loss depends on it"),
       std::move(detail));
}

// Does the backward pass reach this node? Gradients enter by the first output.
bool has_gradient(const Node& node, const Contributions& contributions,
                  const std::vector<bool>& needed) {
  const bool is_leaf = node.inputs.empty();
  if (is_leaf || node.outputs.empty() || !needed[node.outputs[0].index]) return false;
  if (arrives(contributions, node.outputs[0])) return true;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (arrives(contributions, node.outputs[i])) fail_lost(node, i);
  }
  return false;
}

void require_all_used(const Node& node, const Contributions& contributions,
                      const GradCtx& context) {
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (arrives(contributions, node.outputs[i]) && !context.used(static_cast<int>(i)))
      fail_lost(node, i);
  }
}

}  // namespace

std::vector<ValueId> append_backward(Graph& graph, ValueId loss, ValueId seed,
                                     std::span<const ValueId> wanted) {
  require(graph.type(loss) == ValueType{DType::kF32, {}}, Code::kInvalid,
          "the loss must be a f32 scalar, got ", graph.type(loss));
  const auto n_values = graph.values().size();
  const auto n_nodes = static_cast<int32_t>(graph.nodes().size());

  // A value needs a gradient if it is wanted or depends on something wanted.
  std::vector<bool> needed(n_values, false);
  for (const ValueId value : wanted) needed[value.index] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (const ValueId input : node.inputs) any = any || needed[input.index];
    if (any) {
      for (const ValueId output : node.outputs) needed[output.index] = true;
    }
  }

  Contributions contributions(n_values);
  contributions[loss.index].push_back(seed);
  const std::string scope = graph.scope();
  const Phase phase = graph.phase();
  graph.set_phase(Phase::kBackward);
  for (int32_t i = n_nodes - 1; i >= 0; --i) {
    const NodeId id{i};
    if (!has_gradient(graph.node(id), contributions, needed)) continue;
    graph.set_scope(graph.node(id).scope);
    GradCtx context(graph, id, contributions, needed);
    const Op op = graph.node(id).op;  // a copy: emitting may move the nodes
    std::visit(
        [&](const auto& o) {
          if constexpr (requires { grad(o, context); }) {
            grad(o, context);
          } else {
            no_gradient(o);
          }
        },
        op);
    require_all_used(graph.node(id), contributions, context);
  }
  graph.set_scope(scope);

  std::vector<ValueId> gradients;
  for (const ValueId value : wanted) {
    auto& list = contributions[value.index];
    gradients.push_back(list.empty() ? ValueId{} : sum_contributions(graph, list));
  }
  graph.set_phase(phase);
  return gradients;
}

}  // namespace assay
