// Pointwise: its code travels in the arguments of one kernel. Casts: addresses do.
#include "sdk/backend/cuda/ops/pointwise.h"

#include <algorithm>

#include "sdk/graph/elementwise.h"
#include "sdk/ops/broadcast.h"

namespace assay::cuda {
namespace {

using Kind = PointwiseOperand::Kind;

// Where an input lies on the way through y [dims].
kernels::PointwiseInput input_of(const ValueType& x, const Layout& layout, const Dims& y) {
  kernels::PointwiseInput input{};
  input.element = element_of(x);
  input.is_integer = x.dtype == DType::kI32;
  auto axes = common_axes(y, repeated_layout(layout, x.dims, y), dense_layout(y));
  if (axes.size() == 1 && axes[0].first == 1 && !input.is_integer) return input;
  if (axes.empty() && input.is_integer) axes.push_back({.size = 1, .first = 0, .second = 0});
  for (const CommonAxis& axis : axes) {
    input.size[input.axes] = axis.size;
    input.stride[input.axes] = axis.first;
    ++input.axes;
  }
  constexpr int64_t kPack = 8;
  input.has_packs = !input.is_integer && input.stride[0] == 1 && input.size[0] % kPack == 0;
  for (int axis = 1; axis < input.axes; ++axis)
    input.has_packs = input.has_packs && input.stride[axis] % kPack == 0;
  return input;
}

// Numbers of values as PointwiseArgs has them.
kernels::PointwiseArgs::Step step_of(const PointwiseStep& step) {
  kernels::PointwiseArgs::Step s{};
  s.fn = step.fn;
  for (size_t k = 0; k < 4; ++k) {
    const PointwiseOperand& operand = step.operands[k];
    s.number[k] = operand.number;
    s.operand[k] = operand.kind == Kind::kNumber  ? -1
                   : operand.kind == Kind::kInput ? operand.index
                                                  : kMostPointwiseInputs + operand.index;
  }
  return s;
}

bool reads(const PointwiseStep& step, int earlier) {
  return std::find(step.operands.begin(), step.operands.end(), PointwiseOperand::step(earlier)) !=
         step.operands.end();
}

// What only the next step reads stays in registers; the others are kept.
void set_steps(kernels::PointwiseArgs& args, const PointwiseCode& code) {
  args.steps = static_cast<int>(code.steps.size());
  for (int s = 0; s < args.steps; ++s) {
    args.step[s] = step_of(code.steps[static_cast<size_t>(s)]);
    for (int later = s + 2; later < args.steps; ++later)
      args.step[s].is_kept |= reads(code.steps[static_cast<size_t>(later)], s);
  }
}

}  // namespace

kernels::PointwiseArgs pointwise_args(const PointwiseCode& code,
                                      const std::vector<Element>& elements, int64_t n) {
  kernels::PointwiseArgs args{};
  args.n = n;
  for (const Element element : elements) args.input[args.inputs++].element = element;
  set_steps(args, code);
  return args;
}

void run_pointwise(Stream stream, kernels::PointwiseArgs args, Element y_element,
                   std::initializer_list<const void*> x, void* y) {
  int i = 0;
  for (const void* data : x) args.input[i++].data = data;
  kernels::pointwise(stream, y_element, args, y);
}

NodePlan with_activation_behind(NodePlan plan, ActivationKind kind, const Planner& c) {
  plan.kernel += " own:pointwise";
  const Element element = element_of(c.y());
  plan.bind = [=, bind = std::move(plan.bind),
               args = pointwise_args(activation_code(kind), {element}, c.y().numel())](
                  const Binding& b) -> Launch {
    Binding own = b;
    own.outputs = b.outputs.subspan(1);
    return [=, compute = bind(own), pre = b.y<void>(1), y = b.y<void>()](Queue& q) {
      compute(q);
      run_pointwise(stream_of(q), args, element, {pre}, y);
    };
  };
  return plan;
}

NodePlan plan(const Pointwise& p, const Planner& c) {
  NodePlan plan = own_plan("pointwise");
  kernels::PointwiseArgs args{};
  args.n = c.y().numel();
  args.inputs = c.n_inputs();
  for (int i = 0; i < args.inputs; ++i) args.input[i] = input_of(c.x(i), c.x_layout(i), c.y().dims);
  set_steps(args, p.code);
  plan.bind = [=, element = element_of(c.y())](const Binding& b) -> Launch {
    kernels::PointwiseArgs bound = args;
    for (int i = 0; i < args.inputs; ++i) bound.input[i].data = b.x<void>(i);
    return [=, y = b.y<void>()](Queue& q) { kernels::pointwise(stream_of(q), element, bound, y); };
  };
  return plan;
}

// x and y of any dims, dense.
NodePlan plan(const Casts& p, const Planner& c) {
  NodePlan plan = own_plan("casts");
  std::vector<int64_t> lengths;
  for (int i = 0; i < c.n_inputs(); ++i) lengths.push_back(c.x(i).numel());
  plan.bind = [=, from = element_of(c.x(0)), to = element_of(p.dtype)](const Binding& b) -> Launch {
    std::vector<kernels::CastList> lists(1);
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lists.back().append(b.inputs[i], b.outputs[i], lengths[i])) continue;
      lists.emplace_back();
      lists.back().append(b.inputs[i], b.outputs[i], lengths[i]);
    }
    return [=](Queue& q) {
      for (const kernels::CastList& list : lists) kernels::casts(stream_of(q), from, to, list);
    };
  };
  return plan;
}

}  // namespace assay::cuda
