#include "sdk/passes/pad_classes.h"

#include <algorithm>
#include <numeric>

#include "sdk/graph/uses.h"

namespace assay {
namespace {

constexpr int64_t kColumns = 64;          // of what rows become multiples
constexpr size_t kAlignment = 16;         // bytes that tensor cores want
constexpr int64_t kFewestClasses = 1024;  // below that a copy of the weights is not worth it

bool gives_unaligned_logits(const Rewriter& rewriter, NodeId id) {
  const Graph& graph = rewriter.graph();
  const Node& node = graph.node(id);
  const auto* p = std::get_if<Matmul>(&node.op);
  if (p == nullptr || !p->transpose_b || p->keep_pre) return false;
  const ValueId logits = node.outputs[0];
  const ValueType& type = graph.type(logits);
  const auto row = static_cast<size_t>(type.dims[1]) * dtype_size(type.dtype);
  if (type.dims[1] < kFewestClasses || row % kAlignment == 0) return false;
  const auto is_of_loss = [&](NodeId reader) {
    const Op& op = graph.node(reader).op;
    const auto* loss = std::get_if<SoftmaxCrossEntropy>(&op);
    const auto* grad = std::get_if<SoftmaxCrossEntropyGrad>(&op);
    return (loss != nullptr && loss->classes == 0) || (grad != nullptr && grad->classes == 0);
  };
  const auto index = static_cast<size_t>(logits.index);
  return !rewriter.uses().is_output[index] &&
         std::ranges::all_of(rewriter.uses().readers[index], is_of_loss);
}

// Nodes that it emits are to run where the nodes stand whose work they do.
class Padding {
 public:
  explicit Padding(Graph& graph) : graph_(graph), rewriter_(graph), places_(graph.nodes().size()) {
    std::iota(places_.begin(), places_.end(), 0);
  }

  bool run() {
    const auto nodes = static_cast<int32_t>(graph_.nodes().size());
    for (int32_t i = 0; i < nodes; ++i)
      if (gives_unaligned_logits(rewriter_, {i})) pad({i});
    graph_.set_scope("");
    if (places_.size() == static_cast<size_t>(nodes)) return false;
    graph_.sort(places_);
    return true;
  }

 private:
  ValueId emit(NodeId instead_of, const Op& op, const std::vector<ValueId>& inputs) {
    graph_.set_scope(graph_.node(instead_of).scope);
    const ValueId value = graph_.emit(op, inputs)[0];
    places_.resize(graph_.nodes().size(), instead_of.index);
    return value;
  }

  void pad(NodeId id) {
    const Node product = graph_.node(id);
    const int64_t classes = graph_.type(product.outputs[0]).dims[1];
    const int64_t columns = (classes + kColumns - 1) / kColumns * kColumns;
    std::vector<ValueId> inputs = product.inputs;
    for (size_t k = 1; k < inputs.size(); ++k) {
      Dims whole = graph_.type(inputs[k]).dims;
      whole[0] = columns;
      const Dims begin = whole.rank() == 1 ? Dims{0} : Dims{0, 0};
      inputs[k] = emit(id, SliceGrad{begin, whole}, {inputs[k]});
    }
    const ValueId logits = emit(id, product.op, inputs);
    for (const NodeId reader : readers_of(product.outputs[0])) {
      const Node node = graph_.node(reader);
      std::vector<ValueId> of_reader = node.inputs;
      of_reader[0] = logits;
      if (const auto* p = std::get_if<SoftmaxCrossEntropy>(&node.op)) {
        SoftmaxCrossEntropy loss = *p;
        loss.classes = classes;
        rewriter_.rewrite(reader, loss, of_reader);
      } else {
        auto grad = std::get<SoftmaxCrossEntropyGrad>(node.op);
        grad.classes = classes;
        const ValueId whole = emit(reader, grad, of_reader);
        rewriter_.rewrite(reader, Slice{{0, 0}, graph_.type(node.outputs[0]).dims}, {whole});
        read_whole_gradient(node.outputs[0], whole, product.inputs[1], inputs[1]);
      }
    }
  }

  // The product of the gradient with the weight and its sums are of all columns, the product that
  // is the gradient of the weight reads the classes alone.
  void read_whole_gradient(ValueId part, ValueId whole, ValueId weight, ValueId whole_weight) {
    for (const NodeId reader : readers_of(part)) {
      const Node node = graph_.node(reader);
      const auto* p = std::get_if<Matmul>(&node.op);
      if (p != nullptr && !p->transpose_a && !p->transpose_b && node.inputs[1] == weight) {
        std::vector<ValueId> inputs = node.inputs;
        inputs[0] = whole, inputs[1] = whole_weight;
        rewriter_.rewrite(reader, node.op, inputs);
      } else if (std::holds_alternative<SumTo>(node.op) && node.inputs.size() == 1) {
        const ValueId sums = emit(reader, SumTo{{graph_.type(whole).dims[1]}}, {whole});
        rewriter_.rewrite(reader, Slice{{0}, graph_.type(node.outputs[0]).dims}, {sums});
      }
    }
  }

  std::vector<NodeId> readers_of(ValueId value) const {
    return rewriter_.uses().readers[static_cast<size_t>(value.index)];
  }

  Graph& graph_;
  Rewriter rewriter_;
  std::vector<int32_t> places_;  // by node
};

}  // namespace

// matmul(x, w, b) ─▶ logits [T,N] ─▶ softmax_cross_entropy, softmax_cross_entropy_grad ─▶ dlogits
//   ⇒ matmul(x, w and zeros, b and zeros) [T,P] ─▶ the same of the first N columns ─▶ [T,P]
bool pad_classes(Graph& graph) { return Padding(graph).run(); }

}  // namespace assay
