// Pointwise: types and gradient. Casts: types.
#include "sdk/graph/elementwise.h"
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/broadcast.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

using Fn = PointwiseFn;
using Operand = PointwiseOperand;
using Kind = PointwiseOperand::Kind;

Operand x(int i) { return Operand::input(i); }

void require_code(const PointwiseCode& code, const InferCtx& c) {
  const auto n = static_cast<int>(code.steps.size());
  c.require(n >= 1 && n <= kMostPointwiseSteps, "takes 1 to ", kMostPointwiseSteps, " steps, got ",
            n);
  for (int i = 0; i < n; ++i) {
    const PointwiseStep& step = code.steps[static_cast<size_t>(i)];
    for (int k = 0; k < pointwise_operands(step.fn); ++k) {
      const Operand& operand = step.operands[static_cast<size_t>(k)];
      const int limit = operand.kind == Kind::kInput ? c.n() : i;
      c.require(operand.kind == Kind::kNumber || (operand.index >= 0 && operand.index < limit),
                "step ", i, " reads ", operand.kind == Kind::kInput ? "input " : "step ",
                operand.index, ", which is not there");
    }
  }
}

Dims broadcast(const InferCtx& c, const Dims& a, const Dims& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims y = a.rank() == rank ? a : b;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t m = aligned_size(a, rank, axis), n = aligned_size(b, rank, axis);
    c.require(m == n || m == 1 || n == 1, "dims ", a, " and ", b, " do not fit together");
    y[axis] = m == 1 ? n : m;
  }
  return y;
}

// Of the inputs of data types that have the dims of y.
DType common_type(const InferCtx& c, const Dims& y) {
  const ValueType* like = nullptr;
  for (int i = 0; i < c.n(); ++i) {
    if (c.x(i).dims != y || c.x(i).dtype == DType::kI32) continue;
    if (like == nullptr) like = &c.x(i);
    c.require(*like == c.x(i), "needs the type of its result: inputs are ", *like, " and ", c.x(i));
  }
  c.require(like != nullptr, "needs the type of its result: no input is ", y);
  return like->dtype;
}

// Which steps depend on input `i`.
std::vector<bool> steps_behind(const PointwiseCode& code, int i) {
  std::vector<bool> behind;
  for (const PointwiseStep& step : code.steps) {
    bool any = false;
    for (const Operand& operand : step.operands) {
      any = any || operand == x(i) ||
            (operand.kind == Kind::kStep && behind[static_cast<size_t>(operand.index)]);
    }
    behind.push_back(any);
  }
  return behind;
}

// Appends the backward of `forward` in one of its inputs to its steps.
class Differentiator {
 public:
  // dy is the operand that holds the gradient of the last step.
  Differentiator(const PointwiseCode& forward, int input, Operand dy)
      : code_(forward), input_(x(input)), behind_(steps_behind(forward, input)) {
    gradients_.resize(forward.steps.size());
    gradients_.back() = dy;
  }

  // The gradient: an operand of `code()`.
  Operand run() {
    for (size_t i = gradients_.size(); i-- > 0;) {
      if (behind_[i] && gradients_[i])
        differentiate(code_.steps[i], Operand::step(static_cast<int>(i)), *gradients_[i]);
    }
    return result_ ? *result_ : Operand(0.0f);
  }
  PointwiseCode& code() { return code_; }

 private:
  Operand append(Fn fn, std::initializer_list<Operand> operands) {
    return code_.append(fn, operands);
  }
  Operand negative(Operand v) { return append(Fn::kMul, {v, -1.0f}); }

  void add(Operand to, Operand gradient) {
    std::optional<Operand>* sum = nullptr;
    if (to == input_) sum = &result_;
    if (to.kind == Kind::kStep && behind_[static_cast<size_t>(to.index)])
      sum = &gradients_[static_cast<size_t>(to.index)];
    if (sum != nullptr) *sum = *sum ? append(Fn::kAdd, {**sum, gradient}) : gradient;
  }
  bool wants(Operand to) const {
    return to == input_ || (to.kind == Kind::kStep && behind_[static_cast<size_t>(to.index)]);
  }

  // y = fn(a, b, c, d), g its gradient. A copy of the step: appending moves them.
  void differentiate(PointwiseStep step, Operand y, Operand g) {
    const auto [a, b, c, d] = step.operands;
    switch (step.fn) {
      case Fn::kAdd:
        add(a, g), add(b, g);
        break;
      case Fn::kSub:
        add(a, g);
        if (wants(b)) add(b, negative(g));
        break;
      case Fn::kMul:
        if (wants(a)) add(a, b == Operand(1.0f) ? g : append(Fn::kMul, {g, b}));
        if (wants(b)) add(b, append(Fn::kMul, {g, a}));
        break;
      case Fn::kDiv:
        if (wants(a)) add(a, append(Fn::kDiv, {g, b}));
        if (wants(b)) {
          const Operand product = append(Fn::kMul, {g, y});
          add(b, negative(append(Fn::kDiv, {product, b})));
        }
        break;
      case Fn::kMax:  // a where it is larger, else b
        if (wants(a)) add(a, append(Fn::kSelect, {a, b, 0.0f, g}));
        if (wants(b)) add(b, append(Fn::kSelect, {a, b, g, 0.0f}));
        break;
      case Fn::kMin:
        if (wants(a)) add(a, append(Fn::kSelect, {b, a, 0.0f, g}));
        if (wants(b)) add(b, append(Fn::kSelect, {b, a, g, 0.0f}));
        break;
      case Fn::kMulAdd:
        if (wants(a)) add(a, append(Fn::kMul, {g, b}));
        if (wants(b)) add(b, append(Fn::kMul, {g, a}));
        add(c, g);
        break;
      case Fn::kSelect:
        if (wants(c)) add(c, append(Fn::kSelect, {a, b, g, 0.0f}));
        if (wants(d)) add(d, append(Fn::kSelect, {a, b, 0.0f, g}));
        break;
      case Fn::kExp:
        add(a, append(Fn::kMul, {g, y}));
        break;
      case Fn::kExpm1:
        add(a, append(Fn::kMulAdd, {g, y, g}));
        break;
      case Fn::kTanh:
        add(a, append(Fn::kMul, {g, append(Fn::kMulAdd, {negative(y), y, 1.0f})}));
        break;
      case Fn::kSigmoid:
        add(a, append(Fn::kMul, {append(Fn::kMul, {g, y}), append(Fn::kSub, {1.0f, y})}));
        break;
      case Fn::kErf: {
        constexpr float kTwoByRootPi = 1.12837917f;
        const Operand square = append(Fn::kMul, {a, a});
        const Operand bell = append(Fn::kExp, {negative(square)});
        add(a, append(Fn::kMul, {append(Fn::kMul, {g, kTwoByRootPi}), bell}));
        break;
      }
      case Fn::kBf16:
      case Fn::kF16:  // as if it did not round
        add(a, g);
        break;
    }
  }

  PointwiseCode code_;
  Operand input_;
  std::vector<bool> behind_;
  std::vector<std::optional<Operand>> gradients_;  // by forward step
  std::optional<Operand> result_;
};

// Sums `value` [whole] down to `dims`, one block of repeated axes after the other.
ValueId sum_to(GradCtx& c, ValueId value, const Dims& dims) {
  while (c.type(value).dims != dims) {
    const Dims whole = c.type(value).dims;
    Dims next = dims;
    if (!repetition_of(dims, whole).is_one_block) {
      next = whole;
      int axis = whole.rank() - 1;
      const auto repeats = [&] { return aligned_size(dims, whole.rank(), axis) != whole[axis]; };
      while (!repeats()) --axis;
      for (; axis >= 0 && (repeats() || whole[axis] == 1); --axis) next[axis] = 1;
    }
    value = c.emit1(SumTo{next}, {value});
  }
  return value;
}

// A node for each step, of code that is too much for one: fuse_pointwise joins what it can.
ValueId emit_step_by_step(GradCtx& c, const PointwiseCode& code, const std::vector<ValueId>& inputs,
                          DType dtype) {
  std::vector<ValueId> values;  // of the steps
  for (PointwiseStep step : code.steps) {
    std::vector<ValueId> read;
    for (Operand& operand : step.operands) {
      if (operand.kind == Kind::kNumber) continue;
      const auto& from = operand.kind == Kind::kInput ? inputs : values;
      const ValueId value = from[static_cast<size_t>(operand.index)];
      const auto known = std::find(read.begin(), read.end(), value);
      operand = x(static_cast<int>(known - read.begin()));
      if (known == read.end()) read.push_back(value);
    }
    if (read.empty()) read.push_back(inputs.back());  // numbers only; a node has an input
    PointwiseCode one;
    one.steps = {step};
    const bool is_last = values.size() + 1 == code.steps.size();
    values.push_back(c.emit(Pointwise{std::move(one), is_last ? dtype : DType::kF32}, read)[0]);
  }
  return values.back();
}

// `result`, of the inputs that it reads and of dy, which has the dims of y.
ValueId emit_gradient(GradCtx& c, PointwiseCode code, Operand result, DType dtype) {
  code.keep_only(result.kind == Kind::kStep ? result : code.append(Fn::kMul, {result, 1.0f}));
  std::vector<int> place(static_cast<size_t>(c.n()) + 1);
  std::vector<ValueId> inputs;
  for (int i = 0; i <= c.n(); ++i) {
    if (i < c.n() && !code.reads(x(i))) continue;
    place[static_cast<size_t>(i)] = static_cast<int>(inputs.size());
    inputs.push_back(i < c.n() ? c.x(i) : c.dy());
  }
  code.rename_inputs(place);
  if (code.steps.size() > kMostPointwiseSteps || inputs.size() > kMostPointwiseInputs)
    return emit_step_by_step(c, code, inputs, dtype);
  return c.emit(Pointwise{std::move(code), dtype}, inputs)[0];
}

bool is_exponential(Fn fn) { return fn >= Fn::kExp && fn <= Fn::kErf; }

}  // namespace

void infer(const Pointwise& p, InferCtx& c) {
  c.require_inputs(1, kMostPointwiseInputs);
  require_code(p.code, c);
  Dims y = c.x(0).dims;
  for (int i = 0; i < c.n(); ++i) {
    if (c.x(i).dtype != DType::kI32) c.require_data_type(i);
    y = broadcast(c, y, c.x(i).dims);
  }
  const DType dtype = p.dtype ? *p.dtype : common_type(c, y);
  c.require(is_data_type(dtype), "can compute f32, bf16 or f16, not ", dtype);
  c.y({dtype, y});
}

void grad(const Pointwise& p, GradCtx& c) {
  if (const ActivationKind kind = activation_of(p); kind != ActivationKind::kNone) {
    const ValueId saved = gradient_reads_output(kind) ? c.y() : c.x(0);
    return c.dx(0, activation_grad(c, saved, c.dy(), kind));
  }
  const Dims y = c.type(c.y()).dims;
  const Operand dy = x(c.n());
  for (int i = 0; i < c.n(); ++i) {
    if (!c.wants(i)) continue;
    const ValueType type = c.type(c.x(i));
    Differentiator backward(p.code, i, dy);
    const Operand result = backward.run();
    ValueId gradient = c.dy();
    // Summed in f32, and rounded once.
    const DType dtype = type.dims == y ? type.dtype : DType::kF32;
    if (result != dy || c.type(gradient).dtype != dtype)
      gradient = emit_gradient(c, backward.code(), result, dtype);
    gradient = sum_to(c, gradient, type.dims);
    if (c.type(gradient).dtype != type.dtype) gradient = cast(c, gradient, type.dtype);
    c.dx(i, gradient);
  }
}

NodeFacts facts(const Pointwise& p, const NodeView& c) {
  double flops = 0;
  for (const PointwiseStep& step : p.code.steps)
    flops += is_exponential(step.fn) ? kFlopsPerExponential : 1;
  NodeFacts facts{flops * count_of(c.y()), traffic_of(c), {}};
  for (int i = 0; i < c.n_inputs(); ++i) {
    const ValueType& x = c.x(i);
    if (x.dims == c.y().dims && dtype_size(x.dtype) == dtype_size(c.y().dtype) &&
        is_dense(c.x_layout(i), x.dims))
      facts.in_place.push_back({0, i});
  }
  return facts;
}

void infer(const Casts& p, InferCtx& c) {
  c.require(c.n() >= 1, "needs at least one input");
  c.require(is_data_type(p.dtype), "can give f32, bf16 or f16, not ", p.dtype);
  c.require_data_type(0);
  for (int i = 0; i < c.n(); ++i) {
    c.require_dtype(i, c.x(0).dtype);
    c.y({p.dtype, c.x(i).dims});
  }
}
NodeFacts facts(const Casts&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

}  // namespace assay
