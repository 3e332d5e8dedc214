// Conv2d and its gradients: cuDNN, all of whose operands are of one type, and passes of our own for
// what it does not take along.
#include "sdk/backend/cuda/ops/epilogue.h"
#include "sdk/backend/cuda/ops/library_convolution.h"
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
  auto call = library_convolution(c, convolution);
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
  if (const auto call = library_convolution(c, joined)) return plan_joined(*call, 2);
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
    if (const auto call = library_convolution(c, joined)) {
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

namespace {

// relu's derivative and the sum of what it passes, joined to a data gradient of f16: cuDNN has that
// compiled as what arrives at a normalisation in front of relu, which it computes again
// (decisions/0020). One by 1 and 0 leaves `saved` as it is; but what cuDNN finds to be 0 passes the
// gradient, so all numbers are half of the smallest one of f16 less.
std::optional<NodePlan> plan_relu_gradient_with_sums(const Convolution& plain, const Planner& c) {
  if (plain.data != DType::kF16) return std::nullopt;
  Convolution joined = plain;
  joined.norms = 1;
  const auto call = library_convolution(c, joined);
  // A copy of the gradient in the work space, as on an A100, moves more than the joining saves.
  if (!call || call->scratch_bytes >= c.y().bytes()) return std::nullopt;
  struct Scratch {
    void* call;
    float *zeros, *ones, *less, *unread;
    size_t bytes;
  };
  const int64_t channels = plain.x[3];
  const auto scratch = [=, call_bytes = call->scratch_bytes](void* base) {
    ScratchLayout layout(base);
    Scratch s{};
    s.call = layout.take_bytes(call_bytes);
    for (float** table : {&s.zeros, &s.ones, &s.less})
      *table = layout.take<float>(static_cast<size_t>(channels));
    s.unread = layout.take<float>(static_cast<size_t>(4 * channels));  // dgamma, and three more
    s.bytes = layout.bytes();
    return s;
  };
  NodePlan plan;
  plan.kernel = call->kernel;
  plan.scratch_bytes = scratch(nullptr).bytes;
  plan.bind = [=, run = call->run](const Binding& b) -> Launch {
    const Scratch s = scratch(b.scratch);
    std::vector<void*> operands(b.inputs.begin(), b.inputs.end());
    // gamma, beta, mean, 1 / deviation
    operands.insert(operands.end(), {s.ones, s.less, s.zeros, s.ones});
    operands.insert(operands.end(), {b.outputs[0], s.unread, b.outputs[1], s.unread + channels});
    return [=](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::fill(stream, s.zeros, 0, channels);
      kernels::fill(stream, s.ones, 1, channels);
      kernels::fill(stream, s.less, -0x1p-25f, channels);
      run(stream, operands, s.call);
    };
  };
  return plan;
}

}  // namespace

// The activation's part in a pass of its own, which may leave sums: joined to a data gradient,
// cuDNN compiles it while the program runs, for seconds (see decisions/0015), but for f16 with sums
// (0020). relu's mask rounds nothing.
NodePlan plan(const Conv2dGradData& p, const Planner& c) {
  const Convolution plain =
      convolution_of(ConvolutionKind::kGradData, p.geometry, p.x_dims, c.x(1).dims, c.x(0).dims, c);
  if (p.keep_sums) {
    if (auto joined = plan_relu_gradient_with_sums(plain, c)) return *std::move(joined);
  }
  const LibraryCall call = call_of(plain, c);
  const bool activates = p.activation != ActivationKind::kNone;
  const Element element = element_of(c.y());
  const int64_t channels = p.x_dims[3], rows = p.x_dims.numel() / channels;
  const size_t partial = p.keep_sums ? kernels::partial_sums_bytes(element, rows, channels, 1) : 0;
  NodePlan plan;
  plan.kernel = cat(call.kernel, p.keep_sums ? " own:relu_sums"
                                 : activates ? " own:pointwise"
                                             : "");
  plan.scratch_bytes = product_scratch(call, partial, nullptr).bytes;
  plan.bind = [=, run = call.run, keeps_sums = p.keep_sums,
               differentiate =
                   pointwise_args(activation_grad_code(p.activation), {element, element},
                                  c.y().numel())](const Binding& b) -> Launch {
    const ProductScratch s = product_scratch(call, partial, b.scratch);
    void* const dx = b.outputs[0];
    const std::vector<void*> operands{b.inputs[0], b.inputs[1], dx};
    return [=, saved = activates ? b.x<void>(2) : nullptr,
            sums = keeps_sums ? b.y<float>(1) : nullptr](Queue& q) {
      const Stream stream = stream_of(q);
      run(stream, operands, s.call);
      if (keeps_sums) {
        kernels::activation_grad_sums(stream, element, ActivationKind::kRelu, saved, dx, dx, rows,
                                      channels, {static_cast<double*>(s.product), arrivals_of(q)},
                                      sums);
      } else if (activates) {
        run_pointwise(stream, differentiate, element, {saved, dx}, dx);
      }
    };
  };
  return plan;
}

namespace {

// Of Conv2dGradNorm: the call's own, what a library is given or gives for nothing, and where no
// library joins it all, y and what a gradient of a normalisation takes.
struct NormScratch {
  void *call, *y;
  float *rstd, *less, *unread;
  double* partial;
  kernels::Affine affine;
  float *b, *c;
  size_t bytes;
};
NormScratch norm_scratch(const Conv2dGradNorm& p, const ValueType& g, const LibraryCall& call,
                         bool joined, void* base) {
  const auto channels = static_cast<size_t>(g.dims[3]), norms = static_cast<size_t>(p.norms);
  ScratchLayout layout(base);
  NormScratch s{};
  s.call = layout.take_bytes(call.scratch_bytes);
  if (joined) {
    s.rstd = layout.take<float>(norms * channels);
    s.less = layout.take<float>(channels);
    s.unread = layout.take<float>(3 * norms * channels);
  } else {
    s.y = layout.take_bytes(g.bytes());
    s.partial = static_cast<double*>(layout.take_bytes(
        kernels::partial_sums_bytes(element_of(g), g.numel() / g.dims[3], g.dims[3], 2)));
    for (float** table : {&s.affine.scale, &s.affine.shift, &s.b, &s.c})
      *table = layout.take<float>(channels);
  }
  s.bytes = layout.bytes();
  return s;
}

// Operands as Convolution lists them, with 1 / deviation in the place of the variance. What cuDNN
// finds to be 0 passes the gradient, so relu's argument is half of the smallest f16 less.
Launch bind_joined(const Conv2dGradNorm& p, const LibraryCall& call, const NormScratch& s,
                   int64_t channels, const Binding& b) {
  std::vector<void*> operands(b.inputs.begin(), b.inputs.end());
  const int beta = p.first_of_norm(0) + 2;
  kernels::RstdArgs deviations{.var = {},
                               .beta = b.x<float>(beta),
                               .less = s.less,
                               .norms = static_cast<int>(p.norms),
                               .epsilon = p.epsilon};
  operands[static_cast<size_t>(beta)] = s.less;
  for (int i = 0; i < deviations.norms; ++i) {
    const int var = p.first_of_norm(i) + 4;
    deviations.var[i] = b.x<float>(var);
    operands[static_cast<size_t>(var)] = s.rstd + i * channels;
  }
  operands.push_back(b.outputs[0]);
  for (int i = 0; i < deviations.norms; ++i) {
    auto* const sums = b.y<float>(1 + i);
    operands.insert(operands.end(), {sums, sums + channels});
  }
  operands.push_back(s.unread);
  return [=, run = call.run](Queue& q) {
    kernels::norm_rstd(stream_of(q), deviations, channels, s.rstd);
    run(stream_of(q), operands, s.call);
  };
}

// The product, what relu was applied to, the gradient that it passes with the first one's sums, and
// the other's.
Launch bind_apart(const Conv2dGradNorm& p, const LibraryCall& call, const NormScratch& s,
                  const ValueType& type, const Binding& b) {
  const int64_t channels = type.dims[3], rows = type.numel() / channels;
  const int norms = static_cast<int>(p.norms);
  std::vector<kernels::NormInputs> in;
  std::vector<const void*> x;
  std::vector<float*> sums;
  for (int i = 0; i < norms; ++i) {
    const int first = p.first_of_norm(i);
    x.push_back(b.x<void>(first));
    in.push_back({b.x<float>(first + 1), b.x<float>(first + 2), b.x<float>(first + 3),
                  b.x<float>(first + 4), p.epsilon});
    sums.push_back(b.y<float>(1 + i));
  }
  void* const g = b.y<void>(0);
  const kernels::NormGradArgs first{.x = x[0],
                                    .dy = g,
                                    .addend = p.has_addend ? b.x<void>(2) : nullptr,
                                    .y = s.y,
                                    .activation = ActivationKind::kRelu,
                                    .masked = g,
                                    .affine = s.affine,
                                    .b = s.b,
                                    .c = s.c};
  kernels::NormGradArgs second = first;
  second.x = x.back();
  second.addend = second.y = nullptr;
  second.activation = ActivationKind::kNone;
  second.masked = nullptr;
  const std::vector<void*> operands{b.inputs[0], b.inputs[1], g};
  return [=, run = call.run, element = element_of(type),
          residual = p.has_residual ? b.x<void>(p.residual_input()) : nullptr](Queue& q) {
    const Stream stream = stream_of(q);
    run(stream, operands, s.call);
    for (int i = 0; i < norms; ++i) {
      kernels::norm_affine(stream, in[i], channels, s.affine);
      kernels::norm_apply(stream, element, x[i], s.affine, {i == 0 ? residual : s.y},
                          ActivationKind::kNone, s.y, nullptr, rows, channels);
    }
    for (int i = 0; i < norms; ++i) {
      kernels::norm_grad_sums(stream, element, i == 0 ? first : second, in[i], rows, rows, channels,
                              {s.partial, arrivals_of(q)}, sums[i], sums[i] + channels);
    }
  };
}

}  // namespace

// dy [N,P,Q,K], w [K,R,S,C]; g, addend, residual and x [N,H,W,C]; sums [2,C], all else [C].
NodePlan plan(const Conv2dGradNorm& p, const Planner& c) {
  const ValueType type = c.y();
  const Convolution plain = convolution_of(ConvolutionKind::kGradData, p.geometry, type.dims,
                                           c.x(1).dims, c.x(0).dims, c);
  Convolution whole = plain;
  whole.norms = p.norms;
  whole.has_addend = p.has_addend;
  whole.has_residual = p.has_residual;
  const auto found = library_convolution(c, whole);
  const LibraryCall call = found ? *found : call_of(plain, c);
  NodePlan plan;
  plan.kernel = cat(call.kernel, found ? "" : " own:norm_grad_sums");
  plan.scratch_bytes = norm_scratch(p, type, call, found.has_value(), nullptr).bytes;
  plan.bind = [=, joined = found.has_value()](const Binding& b) -> Launch {
    const NormScratch s = norm_scratch(p, type, call, joined, b.scratch);
    return joined ? bind_joined(p, call, s, type.dims[3], b) : bind_apart(p, call, s, type, b);
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
