// How gradients that arrive at one value become one: a sum, or a concatenation of parts.
#include "sdk/graph/grad_ctx.h"

#include <algorithm>

#include "sdk/graph/elementwise.h"

namespace assay {
namespace {

// A part of a gradient whose other elements are zero.
struct GradientPart {
  ValueId value;
  Dims begin, dims;
};

// The axis along which the parts of `whole`, put into their order, follow each other from one end
// to the other; -1 if they do not.
int axis_filled_by(std::vector<GradientPart>& parts, const Dims& whole) {
  int axis = 0;
  while (axis + 1 < whole.rank() && parts[0].dims[axis] == whole[axis]) ++axis;
  std::sort(parts.begin(), parts.end(), [axis](const GradientPart& a, const GradientPart& b) {
    return a.begin[axis] < b.begin[axis];
  });
  int64_t filled = 0;
  for (const GradientPart& part : parts) {
    Dims expected = whole, begin = part.begin;
    expected[axis] = part.dims[axis];
    for (int k = 0; k < whole.rank(); ++k) begin[k] = k == axis ? filled : 0;
    if (part.begin != begin || part.dims != expected) return -1;
    filled += part.dims[axis];
  }
  return filled == whole[axis] ? axis : -1;
}

// The gradients of slices as one concatenation, which needs neither zeros nor sums.
ValueId concatenated(Graph& graph, const std::vector<ValueId>& list) {
  std::vector<GradientPart> parts;
  for (const ValueId gradient : list) {
    const Node& node = graph.producer(gradient);
    const auto* placed = std::get_if<SliceGrad>(&node.op);
    if (placed == nullptr) return {};
    parts.push_back({node.inputs[0], placed->begin, graph.type(node.inputs[0]).dims});
  }
  const Dims whole = graph.type(list[0]).dims;
  const int axis = whole.rank() == 0 ? -1 : axis_filled_by(parts, whole);
  if (axis < 0) return {};
  std::vector<ValueId> values;
  values.reserve(parts.size());
  for (const GradientPart& part : parts) values.push_back(part.value);
  return graph.emit(Concat{axis}, values)[0];
}

}  // namespace

ValueId sum_contributions(Graph& graph, std::vector<ValueId>& list) {
  if (list.size() == 1) return list[0];
  ValueId sum = concatenated(graph, list);
  if (!sum.valid()) {
    sum = list[0];
    for (size_t i = 1; i < list.size(); ++i) sum = add(graph, sum, list[i]);
  }
  list = {sum};
  return sum;
}

ValueId GradCtx::dy(int i) {
  auto& list = contributions_[y(i).index];
  require(!list.empty(), Code::kInternal, op_name(graph_.node(node_).op), ": output ", i,
          " has no gradient");
  used_ |= uint64_t{1} << i;
  return sum_contributions(graph_, list);
}

void GradCtx::dx(int i, ValueId gradient) {
  if (!wants(i)) return;
  require(type(gradient) == type(x(i)), Code::kInternal, op_name(graph_.node(node_).op),
          ": gradient of input ", i, " is ", type(gradient), ", expected ", type(x(i)));
  contributions_[x(i).index].push_back(gradient);
}

}  // namespace assay
