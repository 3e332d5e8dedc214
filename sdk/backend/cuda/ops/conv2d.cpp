// Conv2d and its gradients: cuDNN where it has an engine, the definition where it has none.
#include "sdk/backend/cuda/ops/epilogue.h"
#include "sdk/backend/cuda/ops/pointwise.h"
#include "sdk/graph/elementwise.h"

namespace assay::cuda {
namespace {

kernels::ConvShape shape_of(const ConvGeometry& g, const Dims& x, const Dims& w, const Dims& y) {
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .p = y[1],
          .q = y[2],
          .k = y[3],
          .r = w[1],
          .s = w[2],
          .stride = {g.stride[0], g.stride[1]},
          .pad = {g.pad_begin[0], g.pad_begin[1]},
          .dilation = {g.dilation[0], g.dilation[1]},
          .groups = g.groups};
}

Convolution convolution_of(ConvolutionKind kind, const ConvGeometry& g, const Dims& x,
                           const Dims& w, const Dims& y, DType data, const Planner& c) {
  Convolution convolution;
  convolution.kind = kind;
  convolution.geometry = g;
  convolution.x = x, convolution.w = w, convolution.y = y;
  convolution.data = convolution.out = data;
  convolution.tf32 = c.tf32() && data == DType::kF32;
  return convolution;
}

// A slow stand-in says what it stands in for.
std::string kernel_of(const LibraryAnswer& answer) {
  if (answer) return answer->kernel;
  return answer.refusal.empty() ? "own:direct" : cat("own:direct (cuDNN: ", answer.refusal, ")");
}

// A call that needs nothing around it.
void take_call(NodePlan& plan, const LibraryCall& call) {
  plan.kernel = call.kernel;
  plan.scratch_bytes = call.scratch_bytes;
  plan.bind = [run = call.run](const Binding& b) -> Launch {
    std::vector<void*> operands(b.inputs.begin(), b.inputs.end());
    operands.push_back(b.outputs[0]);
    return [=, scratch = b.scratch](Queue& q) { run(stream_of(q), operands, scratch); };
  };
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
  // For a product of dense rows.
  kernels::EpilogueArgs bound(const Binding& b, int64_t rows, int64_t channels) const {
    return {.x = nullptr,
            .bias = has_bias ? b.x<float>(2) : nullptr,
            .residual = residual >= 0 ? b.inputs[static_cast<size_t>(residual)] : nullptr,
            .y = b.outputs[0],
            .rows = rows,
            .channels = channels,
            .y_pitch = channels,
            .kind = static_cast<int>(activation),
            .pre = keeps_pre ? b.outputs[1] : nullptr};
  }
};

using DirectKernel = void (*)(Stream, Element, Element out, const kernels::ConvShape&,
                              const void* x, const void* w, void* y);

// A product of these dims by the library's call, or by its definition where there is none, then its
// epilogue.
void plan_product(NodePlan& plan, const Planner& c, const LibraryAnswer& call,
                  const ValueType& product, const kernels::ConvShape& shape, DirectKernel direct,
                  const Epilogue& p) {
  const size_t product_bytes = product == c.y() && !p.moves ? 0 : product.bytes();
  plan.kernel = cat(kernel_of(call), p.any() ? " own:epilogue" : "");
  plan.scratch_bytes = product_scratch(call, product_bytes, nullptr).bytes;
  const int64_t channels = product.dims[3], y_pitch = c.y_pitch();
  plan.bind = [=, rows = product.numel() / channels, element = element_of(c.y()),
               wide = element_of(product)](const Binding& b) -> Launch {
    const ProductScratch s = product_scratch(call, product_bytes, b.scratch);
    void* const y = product_bytes > 0 ? s.product : b.outputs[0];
    kernels::EpilogueArgs epilogue = p.bound(b, rows, channels);
    epilogue.x = y, epilogue.y_pitch = y_pitch;
    const std::vector<void*> operands{b.inputs[0], b.inputs[1], y};
    return [=, run = call ? call->run : nullptr](Queue& q) {
      const Stream stream = stream_of(q);
      if (run) {
        run(stream, operands, s.call);
      } else {
        direct(stream, element, wide, shape, operands[0], operands[1], y);
      }
      if (p.any()) kernels::epilogue(stream, wide, element, epilogue);
    };
  };
}

// Everything in one kernel of our own.
void plan_few_taps(NodePlan& plan, const Planner& c, const kernels::ConvShape& shape,
                   const Epilogue& p) {
  plan.kernel = "own:few_taps";
  plan.bind = [=, element = element_of(c.y())](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), w = b.x<void>(1),
            epilogue = p.bound(b, shape.n * shape.p * shape.q, shape.k)](Queue& q) {
      kernels::conv_forward_few_taps(stream_of(q), element, shape, x, w, epilogue);
    };
  };
}

}  // namespace

// x [N,H,W,C], w [K,R,S,C/groups], y, residual and pre [N,P,Q,K], bias [K].
NodePlan plan(const Conv2d& p, const Planner& c) {
  Convolution whole = convolution_of(ConvolutionKind::kForward, p.geometry, c.x(0).dims,
                                     c.x(1).dims, c.y().dims, c.y().dtype, c);
  NodePlan plan;
  const Convolution plain = whole;
  whole.has_bias = p.has_bias;
  whole.has_residual = p.has_residual;
  whole.relu = p.activation == ActivationKind::kRelu && !p.keep_pre;
  const bool fits = whole.relu || p.keep_pre || p.activation == ActivationKind::kNone;
  if (fits) {
    if (auto call = c.libraries().convolution(whole)) {
      take_call(plan, *call);
      return p.keep_pre ? with_activation_behind(plan, p.activation, c) : plan;
    }
  }
  const kernels::ConvShape shape = shape_of(p.geometry, plain.x, plain.w, plain.y);
  const Epilogue epilogue{.has_bias = p.has_bias,
                          .residual = p.has_residual ? p.residual_input() : -1,
                          .activation = p.activation,
                          .keeps_pre = p.keep_pre};
  if (epilogue.any() && kernels::has_few_taps(shape)) {
    plan_few_taps(plan, c, shape, epilogue);
    return plan;
  }
  // The product alone, then one pass for the rest.
  DType product{};
  const auto call = wide_call(epilogue.any(), c.y().dtype, product, [&](DType out) {
    Convolution convolution = plain;
    convolution.out = out;
    return c.libraries().convolution(convolution);
  });
  plan_product(plan, c, call, {product, plain.y}, shape, kernels::conv_forward, epilogue);
  return plan;
}

// Conv2dGradData used forwards, then one pass for bias and activation: cuDNN fuses nothing into
// strided data gradients. That pass writes to where y lies.
NodePlan plan(const Conv2dTranspose& p, const Planner& c) {
  const Convolution convolution = convolution_of(ConvolutionKind::kGradData, p.geometry, p.y_dims,
                                                 c.x(1).dims, c.x(0).dims, c.y().dtype, c);
  NodePlan plan;
  const Epilogue epilogue{.has_bias = p.has_bias,
                          .activation = p.activation,
                          .moves = !is_dense(c.y_layout(), c.y().dims)};
  DType product{};
  const auto call = wide_call(p.has_bias || p.activation != ActivationKind::kNone, c.y().dtype,
                              product, [&](DType out) {
                                Convolution wanted = convolution;
                                wanted.out = out;
                                return c.libraries().convolution(wanted);
                              });
  plan_product(plan, c, call, {product, p.y_dims},
               shape_of(p.geometry, p.y_dims, convolution.w, convolution.y),
               kernels::conv_grad_data, epilogue);
  return plan;
}

// The activation's part in cuDNN's epilogue, else in a pass of its own: relu's mask rounds nothing.
NodePlan plan(const Conv2dGradData& p, const Planner& c) {
  Convolution convolution = convolution_of(ConvolutionKind::kGradData, p.geometry, p.x_dims,
                                           c.x(1).dims, c.x(0).dims, c.y().dtype, c);
  NodePlan plan;
  convolution.has_mask = p.activation == ActivationKind::kRelu;
  auto call = c.libraries().convolution(convolution);
  if (call && (convolution.has_mask || p.activation == ActivationKind::kNone)) {
    take_call(plan, *call);
    return plan;
  }
  convolution.has_mask = false;
  if (!call) call = c.libraries().convolution(convolution);
  const bool activates = p.activation != ActivationKind::kNone;
  plan.kernel = cat(kernel_of(call), activates ? " own:pointwise" : "");
  if (call) plan.scratch_bytes = call->scratch_bytes;
  plan.bind = [=, shape = shape_of(p.geometry, p.x_dims, convolution.w, convolution.y),
               differentiate =
                   pointwise_args(activation_grad_code(p.activation),
                                  {element_of(c.y()), element_of(c.y())}, c.y().numel()),
               element = element_of(c.y())](const Binding& b) -> Launch {
    const std::vector<void*> operands{b.inputs[0], b.inputs[1], b.outputs[0]};
    return [=, run = call ? call->run : nullptr, scratch = b.scratch,
            saved = activates ? b.x<void>(2) : nullptr](Queue& q) {
      const Stream stream = stream_of(q);
      void* const dx = operands[2];
      if (run) {
        run(stream, operands, scratch);
      } else {
        kernels::conv_grad_data(stream, element, element, shape, operands[0], operands[1], dx);
      }
      if (activates) run_pointwise(stream, differentiate, element, {saved, dx}, dx);
    };
  };
  return plan;
}

namespace {

// Where the parts of a weight gradient's scratch begin: the library's own, x and dy in f32, and the
// partial sums of dbias.
struct WeightScratch {
  void *call, *x, *dy;
  double* partial;
  size_t bytes;
};
WeightScratch weight_scratch(size_t call_bytes, size_t x_bytes, size_t dy_bytes,
                             size_t partial_bytes, void* base) {
  ScratchLayout layout(base);
  WeightScratch s{};
  s.call = layout.take_bytes(call_bytes);
  s.x = layout.take_bytes(x_bytes);
  s.dy = layout.take_bytes(dy_bytes);
  s.partial = static_cast<double*>(layout.take_bytes(partial_bytes));
  s.bytes = layout.bytes();
  return s;
}

}  // namespace

// dw, and dbias as the sum of dy's rows. Where the library has no kernel that writes dw wider than
// its operands, they are widened to f32: TF32 units then lose nothing, as bf16 and f16 have no more
// bits of fraction than they keep.
NodePlan plan(const Conv2dGradWeight& p, const Planner& c) {
  Convolution convolution = convolution_of(ConvolutionKind::kGradWeight, p.geometry, c.x(0).dims,
                                           p.w_dims, c.x(1).dims, c.x(0).dtype, c);
  convolution.out = p.dtype;
  NodePlan plan;
  LibraryAnswer call = c.libraries().convolution(convolution);
  bool widens = false;
  if (!call && p.dtype == DType::kF32 && convolution.data != DType::kF32) {
    convolution.data = DType::kF32;
    convolution.tf32 = true;
    call = c.libraries().convolution(convolution);
    widens = static_cast<bool>(call);
  }
  const Element element = element_of(c.x(0)), out = element_of(p.dtype);
  const int64_t filters = p.w_dims[0], x_elems = c.x(0).numel(), dy_elems = c.x(1).numel();
  const int64_t rows = dy_elems / filters;
  const auto scratch =
      [=, call_bytes = call ? call->scratch_bytes : 0, width = widens ? sizeof(float) : 0,
       partial_bytes =
           p.has_bias ? kernels::partial_sums_bytes(element, rows, filters, 1) : 0](void* base) {
        return weight_scratch(call_bytes, static_cast<size_t>(x_elems) * width,
                              static_cast<size_t>(dy_elems) * width, partial_bytes, base);
      };
  plan.kernel =
      cat(widens ? "own:pointwise " : "", kernel_of(call), p.has_bias ? " own:channel_sums" : "");
  plan.scratch_bytes = scratch(nullptr).bytes;
  plan.bind = [=, has_bias = p.has_bias,
               shape = shape_of(p.geometry, convolution.x, p.w_dims, convolution.y),
               widen_x = pointwise_args(cast_code(), {element}, x_elems),
               widen_dy = pointwise_args(cast_code(), {element}, dy_elems),
               run = call ? call->run : nullptr](const Binding& b) -> Launch {
    const WeightScratch s = scratch(b.scratch);
    void *const x = b.inputs[0], *const dy = b.inputs[1], *const dw = b.outputs[0];
    const std::vector<void*> operands{widens ? s.x : x, widens ? s.dy : dy, dw};
    return [=, dbias = has_bias ? b.y<float>(1) : nullptr](Queue& q) {
      const Stream stream = stream_of(q);
      if (widens) {
        run_pointwise(stream, widen_x, Element::kF32, {x}, s.x);
        run_pointwise(stream, widen_dy, Element::kF32, {dy}, s.dy);
      }
      if (run) {
        run(stream, operands, s.call);
      } else {
        kernels::conv_grad_weight(stream, element, out, shape, x, dy, dw);
      }
      if (has_bias) kernels::sum_rows(stream, element, dy, rows, filters, s.partial, dbias);
    };
  };
  return plan;
}

}  // namespace assay::cuda
