// Joins the code of Pointwise nodes that follow one another, in their order: a chain grows by one
// node at a time.
#include "sdk/passes/fuse_pointwise.h"

#include <algorithm>
#include <optional>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {
namespace {

using Kind = PointwiseOperand::Kind;

// Longer ones keep more values alive than registers hold.
constexpr size_t kMostSteps = 12;

// A node's code, with the values that it reads.
struct Chain {
  PointwiseCode code;
  std::vector<ValueId> inputs;

  PointwiseOperand input(ValueId value) {
    const auto found = std::find(inputs.begin(), inputs.end(), value);
    const auto i = static_cast<int>(found - inputs.begin());
    if (found == inputs.end()) inputs.push_back(value);
    return PointwiseOperand::input(i);
  }

  // Appends `more`, whose input i is operands[i]; gives its result.
  PointwiseOperand append(const PointwiseCode& more,
                          const std::vector<PointwiseOperand>& operands) {
    if (more == cast_code()) return operands[0];
    const auto first = static_cast<int>(code.steps.size());
    for (PointwiseStep step : more.steps) {
      for (PointwiseOperand& operand : step.operands) {
        if (operand.kind == Kind::kStep) {
          operand.index += first;
        } else if (operand.kind == Kind::kInput) {
          operand = operands[static_cast<size_t>(operand.index)];
        }
      }
      code.steps.push_back(step);
    }
    return PointwiseOperand::step(static_cast<int>(code.steps.size()) - 1);
  }

  // As if the value had been stored in this type and read again.
  PointwiseOperand round(PointwiseOperand value, DType dtype) {
    if (dtype == DType::kF32) return value;
    return code.append(dtype == DType::kBf16 ? PointwiseFn::kBf16 : PointwiseFn::kF16, {value});
  }
};

// The code of `node` with that of the producers of its inputs in front, as far as nobody else reads
// them and they have its dims: a smaller one would be computed many times. What forward left to
// backward in one value stays one: joined, all that it was made of would have to wait.
std::optional<Chain> joined(const Graph& graph, const Uses& uses, NodeId id,
                            const PointwiseCode& last) {
  const Node& node = graph.node(id);
  Chain chain;
  std::vector<PointwiseOperand> operands;
  bool any = false;
  for (const ValueId value : node.inputs) {
    const NodeId producer = graph.value(value).producer;
    const auto* first = std::get_if<Pointwise>(&graph.node(producer).op);
    if (first == nullptr || !uses.only_reader(value, id) ||
        graph.node(producer).queue != node.queue || graph.node(producer).phase != node.phase ||
        graph.type(value).dims != graph.type(node.outputs[0]).dims) {
      operands.push_back(chain.input(value));
      continue;
    }
    std::vector<PointwiseOperand> inputs;
    for (const ValueId input : graph.node(producer).inputs) inputs.push_back(chain.input(input));
    operands.push_back(chain.round(chain.append(first->code, inputs), graph.type(value).dtype));
    any = true;
  }
  const PointwiseOperand result = chain.append(last, operands);
  if (result.kind != Kind::kStep) chain.code = cast_code();
  if (!any || chain.code.steps.size() > kMostSteps || chain.inputs.size() > kMostPointwiseInputs)
    return std::nullopt;
  return chain;
}

}  // namespace

// x * times (f32) ─▶ sum_to   ⇒   sum_to(x, times)
// The gradient of a factor that is repeated: saves a write and a read of the product, which is
// f32 whatever its factors are.
bool fuse_product_sum(Graph& graph) {
  Rewriter rewriter(graph);
  return rewrite_each(graph, [&](NodeId id) {
    if (!std::holds_alternative<SumTo>(graph.node(id).op) || graph.node(id).inputs.size() > 1)
      return false;
    const ValueId y = graph.node(id).inputs[0];
    const Node& factors = graph.producer(y);
    if (!is_product(factors.op) || factors.inputs.size() != 2 ||
        graph.type(y).dtype != DType::kF32 || !rewriter.uses().only_reader(y, id))
      return false;
    const std::vector<ValueId> inputs = factors.inputs;
    const auto is_whole = [&](ValueId factor) {  // neither repeated nor a view that would be copied
      return is_data_type(graph.type(factor).dtype) &&
             graph.type(factor) == graph.type(inputs[0]) &&
             graph.type(factor).dims == graph.type(y).dims &&
             graph.value(factor).layout == graph.value(y).layout;
    };
    if (!is_whole(inputs[0]) || !is_whole(inputs[1])) return false;
    const SumTo sum = std::get<SumTo>(graph.node(id).op);
    rewriter.rewrite(id, sum, inputs);
    return true;
  });
}

// pointwise ─▶ pointwise   ⇒   pointwise
// Saves a write and a read of what stood between, and rounds it as if it had been stored.
bool fuse_pointwise(Graph& graph) {
  Rewriter rewriter(graph);
  return rewrite_each<Pointwise>(graph, [&](NodeId id, const Pointwise& last) {
    auto chain = joined(graph, rewriter.uses(), id, last.code);
    if (!chain) return false;
    const DType dtype = graph.type(graph.node(id).outputs[0]).dtype;
    rewriter.rewrite(id, Pointwise{std::move(chain->code), dtype}, std::move(chain->inputs));
    return true;
  });
}

}  // namespace assay
