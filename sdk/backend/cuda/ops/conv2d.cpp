// Conv2d and its gradients: cuDNN, all of whose operands are of one type, and passes of our own for
// what it does not take along.
#include "sdk/backend/cuda/ops/epilogue.h"
#include "sdk/backend/cuda/ops/pointwise.h"
#include "sdk/graph/elementwise.h"

namespace assay::cuda {
namespace {

Convolution convolution_of(ConvolutionKind kind, const ConvGeometry& g, const Dims& x,
                           const Dims& w, const Dims& y, const Planner& c) {
  Convolution convolution;
  convolution.kind = kind;
  convolution.geometry = g;
  convolution.x = x, convolution.w = w, convolution.y = y;
  convolution.data = c.x(0).dtype;
  convolution.tf32 = c.tf32() && convolution.data == DType::kF32;
  return convolution;
}

// The call of a convolution that nothing is joined to, which cuDNN has for every shape.
LibraryCall call_of(const Convolution& convolution, const Planner& c) {
  auto call = c.libraries().convolution(convolution);
  require(call.has_value(), Code::kUnsupported, "convolution at ", c.scope(),
          ": cuDNN has no kernel for images ", convolution.x, ", filters ", convolution.w,
          " and outputs ", convolution.y, " of ", convolution.data);
  return *std::move(call);
}

// Its results are the first outputs of the node.
NodePlan plan_joined(const LibraryCall& call, int results = 1) {
  NodePlan plan;
  plan.kernel = call.kernel;
  plan.scratch_bytes = call.scratch_bytes;
  plan.bind = [results, run = call.run](const Binding& b) -> Launch {
    std::vector<void*> operands(b.inputs.begin(), b.inputs.end());
    operands.insert(operands.end(), b.outputs.begin(), b.outputs.begin() + results);
    return [=, scratch = b.scratch](Queue& q) { run(stream_of(q), operands, scratch); };
  };
  return plan;
}

// What follows a product in one more pass, which may write rows at a distance.
struct Epilogue {
  bool has_bias = false;
  int residual = -1;  // its input, if there is one
  ActivationKind activation = ActivationKind::kNone;
  bool moves = false;
  bool keeps_pre = false;
  bool any() const {
    return has_bias || residual >= 0 || activation != ActivationKind::kNone || moves;
  }
};

// A product, then its epilogue, in place where it does not move.
NodePlan plan_product(const Planner& c, const LibraryCall& call, const Dims& dims,
                      const Epilogue& p) {
  const ValueType product{c.y().dtype, dims};
  const size_t product_bytes = p.moves ? product.bytes() : 0;
  NodePlan plan;
  plan.kernel = cat(call.kernel, p.any() ? " own:epilogue" : "");
  plan.scratch_bytes = product_scratch(call, product_bytes, nullptr).bytes;
  plan.bind = [=, y_pitch = c.y_pitch(),
               bias_is_like_y = p.has_bias && c.x(2).dtype == product.dtype,
               element = element_of(product)](const Binding& b) -> Launch {
    const ProductScratch s = product_scratch(call, product_bytes, b.scratch);
    void* const y = p.moves ? s.product : b.outputs[0];
    const kernels::EpilogueArgs epilogue{
        .x = y,
        .bias = p.has_bias ? b.x<void>(2) : nullptr,
        .bias_is_like_y = bias_is_like_y,
        .residual = p.residual >= 0 ? b.inputs[static_cast<size_t>(p.residual)] : nullptr,
        .y = b.outputs[0],
        .rows = product.numel() / dims[3],
        .channels = dims[3],
        .y_pitch = y_pitch,
        .kind = static_cast<int>(p.activation),
        .pre = p.keeps_pre ? b.outputs[1] : nullptr};
    const std::vector<void*> operands{b.inputs[0], b.inputs[1], y};
    return [=, run = call.run](Queue& q) {
      run(stream_of(q), operands, s.call);
      if (p.any()) kernels::epilogue(stream_of(q), element, element, epilogue);
    };
  };
  return plan;
}

// Where cuDNN does not take the sums along, they are a pass over y.
NodePlan plan_with_sums(const Convolution& plain, const Planner& c) {
  Convolution joined = plain;
  joined.keeps_sums = true;
  if (const auto call = c.libraries().convolution(joined)) return plan_joined(*call, 2);
  const LibraryCall call = call_of(plain, c);
  const int64_t filters = plain.y[3], rows = plain.y.numel() / filters;
  const size_t partial = kernels::partial_sums_bytes(Element::kF16, rows, filters, 2);
  NodePlan plan;
  plan.kernel = cat(call.kernel, " own:norm_sums");
  plan.scratch_bytes = product_scratch(call, partial, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const ProductScratch s = product_scratch(call, partial, b.scratch);
    const std::vector<void*> operands{b.inputs[0], b.inputs[1], b.outputs[0]};
    return [=, run = call.run, y = b.y<void>(0), sums = b.y<float>(1)](Queue& q) {
      run(stream_of(q), operands, s.call);
      kernels::norm_sums(stream_of(q), y, rows, filters,
                         {static_cast<double*>(s.product), arrivals_of(q)}, sums);
    };
  };
  return plan;
}

}  // namespace

// x [N,H,W,C], w [K,R,S,C/groups], y, residual and pre [N,P,Q,K], bias [K], sums [2,K].
NodePlan plan(const Conv2d& p, const Planner& c) {
  const Convolution plain = convolution_of(ConvolutionKind::kForward, p.geometry, c.x(0).dims,
                                           c.x(1).dims, c.y().dims, c);
  if (p.keep_sums) return plan_with_sums(plain, c);
  Convolution joined = plain;
  joined.has_bias = p.has_bias;
  joined.has_residual = p.has_residual;
  joined.relu = p.activation == ActivationKind::kRelu && !p.keep_pre;
  const bool takes_bias = !p.has_bias || c.x(2).dtype == plain.data;
  if (takes_bias && (joined.relu || p.keep_pre || p.activation == ActivationKind::kNone)) {
    if (const auto call = c.libraries().convolution(joined)) {
      const NodePlan plan = plan_joined(*call);
      return p.keep_pre ? with_activation_behind(plan, p.activation, c) : plan;
    }
  }
  return plan_product(c, call_of(plain, c), plain.y,
                      {.has_bias = p.has_bias,
                       .residual = p.has_residual ? p.residual_input() : -1,
                       .activation = p.activation,
                       .keeps_pre = p.keep_pre});
}

// Conv2dGradData used forwards, then one pass for bias and activation: cuDNN fuses nothing into
// strided data gradients. That pass writes to where y lies.
NodePlan plan(const Conv2dTranspose& p, const Planner& c) {
  const Convolution convolution =
      convolution_of(ConvolutionKind::kGradData, p.geometry, p.y_dims, c.x(1).dims, c.x(0).dims, c);
  return plan_product(c, call_of(convolution, c), p.y_dims,
                      {.has_bias = p.has_bias,
                       .activation = p.activation,
                       .moves = !is_dense(c.y_layout(), c.y().dims)});
}

// The activation's part in a pass of its own: joined to a data gradient, cuDNN compiles it while
// the program runs, for seconds (see decisions/0015). relu's mask rounds nothing.
NodePlan plan(const Conv2dGradData& p, const Planner& c) {
  const LibraryCall call = call_of(
      convolution_of(ConvolutionKind::kGradData, p.geometry, p.x_dims, c.x(1).dims, c.x(0).dims, c),
      c);
  const bool activates = p.activation != ActivationKind::kNone;
  NodePlan plan;
  plan.kernel = cat(call.kernel, activates ? " own:pointwise" : "");
  plan.scratch_bytes = call.scratch_bytes;
  plan.bind = [=, run = call.run, element = element_of(c.y()),
               differentiate = pointwise_args(activation_grad_code(p.activation),
                                              {element_of(c.y()), element_of(c.y())},
                                              c.y().numel())](const Binding& b) -> Launch {
    void* const dx = b.outputs[0];
    const std::vector<void*> operands{b.inputs[0], b.inputs[1], dx};
    return [=, scratch = b.scratch, saved = activates ? b.x<void>(2) : nullptr](Queue& q) {
      run(stream_of(q), operands, scratch);
      if (activates) run_pointwise(stream_of(q), differentiate, element, {saved, dx}, dx);
    };
  };
  return plan;
}

// dw, and dbias as the sum of dy's rows. A dw of another type than the data's is cast.
NodePlan plan(const Conv2dGradWeight& p, const Planner& c) {
  const Convolution convolution = convolution_of(ConvolutionKind::kGradWeight, p.geometry,
                                                 c.x(0).dims, p.w_dims, c.x(1).dims, c);
  const LibraryCall call = call_of(convolution, c);
  const bool casts = p.dtype != convolution.data;
  const Element element = element_of(convolution.data), out = element_of(p.dtype);
  const int64_t filters = p.w_dims[0], rows = c.x(1).numel() / filters;
  struct Scratch {
    void *call, *dw;
    double* partial;
    size_t bytes;
  };
  const auto scratch = [=, call_bytes = call.scratch_bytes,
                        dw_bytes = casts ? ValueType{convolution.data, p.w_dims}.bytes() : 0,
                        partial_bytes = p.has_bias
                                            ? kernels::partial_sums_bytes(element, rows, filters, 1)
                                            : 0](void* base) {
    ScratchLayout layout(base);
    Scratch s{};
    s.call = layout.take_bytes(call_bytes);
    s.dw = layout.take_bytes(dw_bytes);
    s.partial = static_cast<double*>(layout.take_bytes(partial_bytes));
    s.bytes = layout.bytes();
    return s;
  };
  NodePlan plan;
  plan.kernel =
      cat(call.kernel, casts ? " own:pointwise" : "", p.has_bias ? " own:channel_sums" : "");
  plan.scratch_bytes = scratch(nullptr).bytes;
  plan.bind = [=, has_bias = p.has_bias, run = call.run,
               cast = pointwise_args(cast_code(), {element}, p.w_dims.numel())](
                  const Binding& b) -> Launch {
    const Scratch s = scratch(b.scratch);
    void *const x = b.inputs[0], *const dy = b.inputs[1], *const dw = b.outputs[0];
    const std::vector<void*> operands{x, dy, casts ? s.dw : dw};
    return [=, dbias = has_bias ? b.y<float>(1) : nullptr](Queue& q) {
      const Stream stream = stream_of(q);
      run(stream, operands, s.call);
      if (casts) run_pointwise(stream, cast, out, {s.dw}, dw);
      if (has_bias)
        kernels::sum_rows(stream, element, dy, nullptr, rows, filters, {s.partial, arrivals_of(q)},
                          dbias);
    };
  };
  return plan;
}

}  // namespace assay::cuda
