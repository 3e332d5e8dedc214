// Conv2d and its gradients, most of them on oneDNN: activations pinned to NHWC, weights in oneDNN's
// own layout.
#include "sdk/backend/cpu/onednn.h"
#include "sdk/backend/cpu/ops/channel_sums.h"
#include "sdk/backend/cpu/ops/conv_product.h"
#include "sdk/backend/cpu/ops/conv_slabs.h"
#include "sdk/backend/cpu/ops/depthwise.h"
#include "sdk/backend/cpu/ops/panel_convolution.h"
#include "sdk/backend/cpu/ops/parity_taps.h"
#include "sdk/backend/cpu/ops/pixel_sum.h"
#include "sdk/backend/cpu/ops/pointwise.h"
#include "sdk/backend/cpu/ops/winograd.h"
#include "sdk/graph/elementwise.h"

namespace assay::cpu {
namespace {

using dnnl::algorithm;
using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::prop_kind;
using Desc = dnnl::memory::desc;

// [N,H,W,C] in memory, which oneDNN describes as sizes N, C, H, W with strides.
Desc image_desc(const Dims& d, DType dtype) {
  return {{d[0], d[3], d[1], d[2]}, dnnl_type(dtype), dnnl::memory::format_tag::nhwc};
}

// [K,R,S,C/groups] in memory: sizes (groups, K/groups,) C/groups, R, S.
Desc weight_desc(const Dims& d, int64_t groups, DType dtype) {
  const int64_t k = d[0] / groups, r = d[1], s = d[2], c = d[3];
  if (groups == 1) return {{k, c, r, s}, dnnl_type(dtype), {r * s * c, 1, s * c, c}};
  return {{groups, k, c, r, s}, dnnl_type(dtype), {k * r * s * c, r * s * c, 1, s * c, c}};
}

Desc any_layout(const Desc& desc) {
  return {desc.dims(), desc.data_type(), dnnl::memory::format_tag::any};
}

Desc bias_desc(int64_t channels) {
  return {{channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x};
}

// Geometry as oneDNN wants it; its dilation counts the gaps.
struct Geometry {
  dnnl::memory::dims stride, dilation, pad_begin, pad_end;
  explicit Geometry(const ConvGeometry& g)
      : stride{g.stride[0], g.stride[1]},
        dilation{g.dilation[0] - 1, g.dilation[1] - 1},
        pad_begin{g.pad_begin[0], g.pad_begin[1]},
        pad_end{g.pad_end[0], g.pad_end[1]} {}
};

// oneDNN 2.6 tries its batch-reduce kernels ("brgconv:...") first. They make one small matrix
// product of a row of the output; the direct kernels ("jit:...") behind them are faster where that
// product is too small. Measured on one core of an EPYC with AVX-512, f32 / bf16, direct over
// batch-reduce: 1.1-1.8 / 1.7-2.1 times at 2-4 columns, 1.1-1.2 / 1.1-1.4 times at 1-8 channels,
// 0.8-1.05 / 0.9-1.1 times in other shapes. With one image and few columns, reading the weights
// takes the time, which the batch-reduce kernels do better: 0.7 times at 512 channels.
bool prefers_direct(const ConvGeometry& geometry, const Desc& x, const Desc& y) {
  constexpr int64_t kFewColumns = 4, kFewChannels = 8, kSeveralImages = 2;
  const bool few_columns = y.dims()[3] <= kFewColumns && y.dims()[0] >= kSeveralImages;
  return few_columns || (geometry.groups == 1 && x.dims()[1] <= kFewChannels);
}

// Moves on to the direct kernel of the same instruction set, if it comes next.
void take_direct_kernel(convolution_forward::primitive_desc& desc) {
  const std::string first = desc.impl_info_str();
  if (!first.starts_with("brgconv:")) return;
  convolution_forward::primitive_desc next = desc;
  if (!next.next_impl()) return;
  const std::string second = next.impl_info_str();
  const std::string isa = first.substr(first.find(':'));
  if (second.starts_with("jit") && second.ends_with(isa)) desc = next;
}

// oneDNN 2.6's kernels of 1x1 for AVX2 ("jit_1x1:avx2") gather the pixels that a stride leaves by
// whole vectors of channels. Of a last vector that is not full they write what lies behind their
// work space, and sum up what they find there.
template <class PrimitiveDesc>
void avoid_gathering_parts_of_vectors(PrimitiveDesc& desc, const ConvGeometry& geometry,
                                      const Desc& x) {
  constexpr int64_t kVector = 8;
  const bool gathers = geometry.stride[0] != 1 || geometry.stride[1] != 1;
  if (!gathers || x.dims()[1] % kVector == 0) return;
  while (desc.impl_info_str() == std::string_view("jit_1x1:avx2") && desc.next_impl()) {
  }
}

convolution_forward::primitive_desc forward_desc(const ConvGeometry& geometry, const Desc& x,
                                                 const Desc& w, const Desc& y, bool has_bias,
                                                 prop_kind kind,
                                                 const dnnl::primitive_attr& attributes) {
  const Geometry g(geometry);
  using Descriptor = convolution_forward::desc;
  const Descriptor desc =
      has_bias ? Descriptor(kind, algorithm::convolution_direct, x, any_layout(w),
                            bias_desc(y.dims()[1]), y, g.stride, g.dilation, g.pad_begin, g.pad_end)
               : Descriptor(kind, algorithm::convolution_direct, x, any_layout(w), y, g.stride,
                            g.dilation, g.pad_begin, g.pad_end);
  convolution_forward::primitive_desc chosen(desc, attributes, dnnl_engine());
  if (prefers_direct(geometry, x, y)) take_direct_kernel(chosen);
  avoid_gathering_parts_of_vectors(chosen, geometry, x);
  return chosen;
}

// The backward descriptors ask for a forward one as a hint.
convolution_forward::primitive_desc forward_hint(const ConvGeometry& geometry, const Desc& x,
                                                 const Desc& w, const Desc& y) {
  return forward_desc(geometry, x, w, y, false, prop_kind::forward_training, dnnl_attributes());
}

// The residual is added by accumulating onto y, which holds it before: no copy when y takes over
// its memory, as it does unless somebody reads the residual later. (As a binary post-op it may not
// share y's memory: kernels built on GEMM write y before they read it.)
convolution_forward::primitive_desc fused_forward_desc(const Conv2d& p, const Desc& x,
                                                       const Desc& w, const Desc& y) {
  dnnl::post_ops ops;
  if (p.has_residual) ops.append_sum(1);
  append_activation(ops, p.activation);
  dnnl::primitive_attr attributes = dnnl_attributes();
  attributes.set_post_ops(ops);
  return forward_desc(p.geometry, x, w, y, p.has_bias, prop_kind::forward_inference, attributes);
}

// x [N,H,W,C], w [K,R,S,C/groups], y and residual [N,P,Q,K], bias [K].
NodePlan plan_forward(const Conv2d& p, const Planner& c, DType compute) {
  const Desc x = image_desc(c.x(0).dims, compute);
  const Desc w = weight_desc(c.x(1).dims, p.geometry.groups, compute);
  const Desc y = image_desc(c.y().dims, compute);
  const auto desc = fused_forward_desc(p, x, w, y);

  DnnlChain chain(c, Conv2d::kName);
  chain.allow_preparing(1);
  const auto result = chain.output(0, image_desc(c.y().dims, c.y().dtype));
  const auto work = chain.before(result, y);
  const auto images = chain.as(chain.input(0, image_desc(c.x(0).dims, c.x(0).dtype)), x);
  const auto plain_weights =
      chain.input(1, weight_desc(c.x(1).dims, p.geometry.groups, c.x(1).dtype));
  DnnlChain::Arguments arguments{{DNNL_ARG_SRC, images},
                                 {DNNL_ARG_WEIGHTS, chain.as(plain_weights, desc.weights_desc())},
                                 {DNNL_ARG_DST, work}};
  if (p.has_bias) arguments.push_back({DNNL_ARG_BIAS, chain.input(2, bias_desc(c.y().dims[3]))});
  if (p.has_residual)
    chain.copy(chain.input(p.residual_input(), image_desc(c.y().dims, c.y().dtype)), work);
  chain.add<convolution_forward>(desc, arguments);
  chain.copy(work, result);
  NodePlan plan = chain.finish(desc.impl_info_str());
  if (p.has_residual) plan.in_place = {{0, p.residual_input()}};
  return plan;
}

// dy [N,P,Q,K], w [K,R,S,C/groups], dx [N,H,W,C].
NodePlan plan_grad_data(const Conv2dGradData& p, const Planner& c, DType compute) {
  const Desc dx = image_desc(p.x_dims, compute);
  const Desc w = weight_desc(c.x(1).dims, p.geometry.groups, compute);
  const Desc dy = image_desc(c.x(0).dims, compute);
  const Geometry g(p.geometry);
  const auto hint = forward_hint(p.geometry, dx, w, dy);  // desc reads it when it moves on
  convolution_backward_data::primitive_desc desc({algorithm::convolution_direct, dx, any_layout(w),
                                                  dy, g.stride, g.dilation, g.pad_begin, g.pad_end},
                                                 dnnl_attributes(), dnnl_engine(), hint);
  avoid_gathering_parts_of_vectors(desc, p.geometry, dx);

  DnnlChain chain(c, Conv2dGradData::kName);
  chain.allow_preparing(1);  // a predictor's transposed convolutions
  const auto result = chain.output(0, image_desc(p.x_dims, c.y().dtype));
  const auto work = chain.before(result, dx);
  const auto gradient = chain.as(chain.input(0, image_desc(c.x(0).dims, c.x(0).dtype)), dy);
  const auto plain_weights =
      chain.input(1, weight_desc(c.x(1).dims, p.geometry.groups, c.x(1).dtype));
  const auto weights = chain.as(plain_weights, desc.weights_desc());
  chain.add<convolution_backward_data>(
      desc,
      {{DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, work}});
  chain.copy(work, result);
  return chain.finish(desc.impl_info_str());
}

// ---- A data gradient of stride 2, in tiles ----

// Measured on one thread of a Sapphire Rapids, the time of oneDNN's data gradient over that of the
// parts, for the channels of dx in U-Net's transposed convolutions: 2.5 at 512, 1.7 to 1.9 at
// 256, 1.1 to 1.3 at 128, 0.9 at 64, where putting the parts together takes as long as they do.
bool prefers_four_parts(const Conv2dGradData& p, const Planner& c) {
  const Dims& w = c.x(1).dims;
  constexpr int64_t kManyChannels = 128;
  if (!has_tiles(c.x(0).dtype) || w[3] < kManyChannels || !has_four_parts(p.geometry, p.x_dims, w))
    return false;
  // Every other row of several images is at two distances then.
  if (p.x_dims[0] > 1 && p.x_dims[1] % 2 != 0) return false;
  for (const size_t axis : {0, 1}) {
    for (const int64_t parity : {0, 1}) {
      const Taps taps(p.geometry, p.x_dims, w, axis, parity);
      const int64_t rows = c.x(0).dims[static_cast<int>(axis) + 1];
      if (taps.pad_begin < 0 || taps.pad_end(rows) < 0) return false;
    }
  }
  return true;
}

NodePlan plan_four_parts(const Conv2dGradData& p, const Planner& c) {
  const DType dtype = c.x(0).dtype;
  const Dims &dims = p.x_dims, &dy_dims = c.x(0).dims, &w_dims = c.x(1).dims;
  const int64_t inputs = w_dims[0], outputs = w_dims[3];  // of the convolutions
  const Desc dy = image_desc(dy_dims, dtype), dx = image_desc(dims, dtype);
  const dnnl::memory::dims tap_strides = {1, w_dims[1] * w_dims[2] * outputs, w_dims[2] * outputs,
                                          outputs};
  const Desc all_taps{{outputs, inputs, w_dims[1], w_dims[2]}, dnnl_type(dtype), tap_strides};
  DnnlChain chain(c, Conv2dGradData::kName);
  chain.allow_preparing(1);  // a predictor's transposed convolutions
  const auto result = chain.output(0, dx);
  const auto images = chain.input(0, dy), taps = chain.input(1, all_taps);
  const auto whole =
      chain.scratch(image_desc({dims[0], (dims[1] + 1) / 2, (dims[2] + 1) / 2, outputs}, dtype));
  std::string implementation;
  for (const int64_t row_parity : {0, 1}) {
    for (const int64_t column_parity : {0, 1}) {
      const Taps rows(p.geometry, dims, w_dims, 0, row_parity);
      const Taps columns(p.geometry, dims, w_dims, 1, column_parity);
      const Desc w{{outputs, inputs, rows.count, columns.count},
                   dnnl_type(dtype),
                   dnnl::memory::format_tag::any};
      const Desc y = image_desc({dims[0], rows.size, columns.size, outputs}, dtype);
      const ConvGeometry geometry{
          .pad_begin = {rows.pad_begin, columns.pad_begin},
          .pad_end = {rows.pad_end(dy_dims[1]), columns.pad_end(dy_dims[2])}};
      const auto desc =
          forward_desc(geometry, dy, w, y, false, prop_kind::forward_inference, dnnl_attributes());
      implementation = desc.impl_info_str();
      const Desc weights_desc = desc.weights_desc();
      const auto weights = chain.room_for(taps, weights_desc);
      const dnnl::memory::dims one{outputs, inputs, 1, 1};
      for (int64_t r = 0; r < rows.count; ++r) {
        for (int64_t s = 0; s < columns.count; ++s)
          chain.copy(
              chain.part(taps, all_taps.submemory_desc(one, {0, 0, rows.tap(r), columns.tap(s)})),
              chain.part(weights, weights_desc.submemory_desc(one, {0, 0, r, s})));
      }
      const auto work = chain.part(whole, y);
      chain.add<convolution_forward>(
          desc, {{DNNL_ARG_SRC, images}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, work}});
      Desc every_other(y.dims(), y.data_type(),
                       {dims[1] * dims[2] * outputs, 1, 2 * dims[2] * outputs, 2 * outputs});
      every_other.data.offset0 = (row_parity * dims[2] + column_parity) * outputs;
      chain.copy(work, chain.part(result, every_other));
    }
  }
  NodePlan plan = chain.finish(implementation);
  plan.kernel += " in four parts";
  return plan;
}

convolution_backward_weights::primitive_desc grad_weight_desc(const ConvGeometry& geometry,
                                                              const Desc& x, const Desc& w,
                                                              const Desc& dw, const Desc& dy,
                                                              bool has_bias) {
  const Geometry g(geometry);
  using Descriptor = convolution_backward_weights::desc;
  const Descriptor descriptor =
      has_bias ? Descriptor(algorithm::convolution_direct, x, dw, bias_desc(dy.dims()[1]), dy,
                            g.stride, g.dilation, g.pad_begin, g.pad_end)
               : Descriptor(algorithm::convolution_direct, x, dw, dy, g.stride, g.dilation,
                            g.pad_begin, g.pad_end);
  const auto hint = forward_hint(geometry, x, w, dy);  // desc reads it when it moves on
  convolution_backward_weights::primitive_desc desc(descriptor, dnnl_attributes(), dnnl_engine(),
                                                    hint);
  avoid_gathering_parts_of_vectors(desc, geometry, x);
  return desc;
}

// ---- The gradient of the filters of large images, in slabs ----

struct SlabGradient {
  Slab slab;
  Desc x, dy;  // of its rows
  convolution_backward_weights::primitive_desc desc;
};

// Slabs of a large image, each with rows for all threads, and few enough that their sums have half
// of its bytes at most.
std::vector<SlabGradient> slab_gradients(const Conv2dGradWeight& p, const Planner& c) {
  constexpr int64_t kLargeImage = 8 << 20, kSlab = 4 << 20, kRowsOfThread = 16;
  const DType dtype = c.x(0).dtype;
  const Dims &x = c.x(0).dims, &dy = c.x(1).dims;
  const int64_t bytes = (x.numel() + dy.numel()) / dy[0] * static_cast<int64_t>(dtype_size(dtype));
  const int64_t sum = p.w_dims.numel() * static_cast<int64_t>(sizeof(float));
  const int64_t count = std::min(
      {quotient_up(bytes, kSlab), bytes / (2 * sum), dy[1] / (kRowsOfThread * c.threads())});
  if (bytes < kLargeImage || count < 2) return {};

  const Desc w = weight_desc(p.w_dims, p.geometry.groups, dtype);
  Desc dw = any_layout(weight_desc(p.w_dims, p.geometry.groups, DType::kF32));
  std::vector<SlabGradient> gradients;
  for (const Slab& slab : slabs_of(p.geometry, x, p.w_dims, dy, count)) {
    const Desc x_rows = image_desc({1, slab.x_rows, x[2], x[3]}, dtype);
    const Desc dy_rows = image_desc({1, slab.y_rows, dy[2], dy[3]}, dtype);
    const auto desc = grad_weight_desc(slab.geometry, x_rows, w, dw, dy_rows, false);
    gradients.push_back({slab, x_rows, dy_rows, desc});
    dw = desc.diff_weights_desc();  // the first one chooses
  }
  return gradients;
}

// oneDNN's kernels of bf16 first bring all of an image of x and of dy into another order, for each
// thread (decisions/0035). Slabs must spare most of that, and have no other kernels.
bool prefers_slabs(const std::vector<SlabGradient>& slabs,
                   const convolution_backward_weights::primitive_desc& whole) {
  constexpr size_t kSpared = 2;
  const std::string kernel = whole.impl_info_str();
  size_t scratch = 0;
  for (const SlabGradient& part : slabs) {
    if (part.desc.impl_info_str() != kernel) return false;
    scratch = std::max(scratch, part.desc.scratchpad_desc().get_size());
  }
  return !slabs.empty() && kSpared * scratch < whole.scratchpad_desc().get_size();
}

// The sum of all slabs of all images, and the gradient of the bias from all of dy.
NodePlan plan_in_slabs(const Conv2dGradWeight& p, const Planner& c,
                       const std::vector<SlabGradient>& slabs) {
  const Dims &x = c.x(0).dims, &dy = c.x(1).dims;
  const int64_t groups = p.geometry.groups;
  DnnlChain chain(c, Conv2dGradWeight::kName);
  const auto result = chain.output(0, weight_desc(p.w_dims, groups, p.dtype));
  const auto plain = chain.before(result, weight_desc(p.w_dims, groups, DType::kF32));
  const auto sum = chain.before(plain, slabs[0].desc.diff_weights_desc());
  const auto term = chain.scratch(slabs[0].desc.diff_weights_desc());
  for (const SlabGradient& part : slabs) {
    for (int64_t n = 0; n < dy[0]; ++n) {
      const bool is_first = n == 0 && part.slab.y_first == 0;
      const auto x_rows = chain.input_from(0, (n * x[1] + part.slab.x_first) * x[2] * x[3], part.x);
      const auto dy_rows =
          chain.input_from(1, (n * dy[1] + part.slab.y_first) * dy[2] * dy[3], part.dy);
      chain.add<convolution_backward_weights>(part.desc,
                                              {{DNNL_ARG_SRC, x_rows},
                                               {DNNL_ARG_DIFF_DST, dy_rows},
                                               {DNNL_ARG_DIFF_WEIGHTS, is_first ? sum : term}});
      if (!is_first) chain.accumulate(term, sum);
    }
  }
  chain.copy(sum, plain);
  chain.copy(plain, result);
  NodePlan plan = chain.finish(slabs[0].desc.impl_info_str());
  plan.kernel += cat(" in ", slabs.size(), " slabs");
  return p.has_bias ? with_bias_gradient(std::move(plan), c) : plan;
}

// x [N,H,W,C], dy [N,P,Q,K], dw [K,R,S,C/groups], dbias [K].
NodePlan plan_grad_weight(const Conv2dGradWeight& p, const Planner& c, DType compute) {
  const DType out_type = compute == DType::kF32 ? DType::kF32 : p.dtype;
  const Desc x = image_desc(c.x(0).dims, compute);
  const Desc w = weight_desc(p.w_dims, p.geometry.groups, compute);
  const Desc dw = weight_desc(p.w_dims, p.geometry.groups, out_type);
  const Desc dy = image_desc(c.x(1).dims, compute);
  const auto desc = grad_weight_desc(p.geometry, x, w, any_layout(dw), dy, p.has_bias);
  if (compute == DType::kBf16) {
    const auto slabs = slab_gradients(p, c);
    if (prefers_slabs(slabs, desc)) return plan_in_slabs(p, c, slabs);
  }

  DnnlChain chain(c, Conv2dGradWeight::kName);
  const auto result = chain.output(0, weight_desc(p.w_dims, p.geometry.groups, p.dtype));
  const auto plain = chain.before(result, dw);
  const auto work = chain.before(plain, desc.diff_weights_desc());
  const auto images = chain.as(chain.input(0, image_desc(c.x(0).dims, c.x(0).dtype)), x);
  const auto gradient = chain.as(chain.input(1, image_desc(c.x(1).dims, c.x(1).dtype)), dy);
  DnnlChain::Arguments arguments{
      {DNNL_ARG_SRC, images}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_WEIGHTS, work}};
  if (p.has_bias)
    arguments.push_back({DNNL_ARG_DIFF_BIAS, chain.output(1, bias_desc(p.w_dims[0]))});
  chain.add<convolution_backward_weights>(desc, arguments);
  chain.copy(work, plain);
  chain.copy(plain, result);
  return chain.finish(desc.impl_info_str());
}

}  // namespace

NodePlan plan(const Conv2d& p, const Planner& c) {
  if (p.has_bias && c.x(2).dtype != DType::kF32)
    fail(Code::kInternal, cat("convolution at ", c.scope(), ": a bias of ", c.x(2).dtype));
  if (p.keep_pre) {
    Conv2d product = p;
    product.keep_pre = false, product.activation = ActivationKind::kNone;
    return with_activation_behind(plan(product, c), p.activation, c);
  }
  if (prefers_winograd(p, c)) return plan_winograd(p, c);
  if (prefers_panels(p, c)) return plan_in_panels(p, c);
  return plan_with_dnnl(c, Conv2d::kName,
                        [&](DType compute) { return plan_forward(p, c, compute); });
}

namespace {

NodePlan plan_grad_data(const Conv2dGradData& p, const Planner& c) {
  if (prefers_winograd(p, c)) return plan_winograd(p, c);
  if (prefers_panels(p, c)) return plan_in_panels(p, c);
  return plan_with_dnnl(c, Conv2dGradData::kName, [&](DType compute) {
    if (prefers_product(p, c)) return plan_product(p, c, compute);
    const bool in_parts = compute == c.x(0).dtype && prefers_four_parts(p, c);
    return in_parts ? plan_four_parts(p, c) : plan_grad_data(p, c, compute);
  });
}

}  // namespace

// The activation's part in a second pass: oneDNN joins nothing to data gradients.
NodePlan plan(const Conv2dGradData& p, const Planner& c) {
  require(!p.keep_sums, Code::kUnsupported, "convolution at ", c.scope(),
          ": sums of a gradient are kept on GPUs only");
  NodePlan plan = plan_grad_data(p, c);
  if (p.activation == ActivationKind::kNone) return plan;
  plan.kernel += " own:pointwise";
  const PointwiseFunction differentiate(activation_grad_code(p.activation), {c.x(2), c.y()}, c.y(),
                                        c.scope());
  plan.bind = [=, bind = std::move(plan.bind), threads = c.threads()](const Binding& b) -> Launch {
    return [=, convolve = bind(b), saved = b.x<void>(2), dx = b.y<void>()](Queue& q) {
      convolve(q);
      const void* const x[] = {saved, dx};
      differentiate.run(threads, x, dx);
    };
  };
  return plan;
}

NodePlan plan(const Conv2dGradNorm& p, const Planner& c) { fail_gpu_only(c, p.kName); }

NodePlan plan(const Conv2dGradWeight& p, const Planner& c) {
  if (prefers_depthwise(p, c)) return plan_depthwise(p, c);
  if (prefers_winograd(p, c)) return plan_winograd(p, c);
  const bool in_product = prefers_product(p, c);
  if (!in_product && prefers_pixel_sum(p, c)) return plan_pixel_sum(p, c);
  return plan_with_dnnl(c, Conv2dGradWeight::kName, [&](DType compute) {
    return in_product ? plan_product(p, c, compute) : plan_grad_weight(p, c, compute);
  });
}

}  // namespace assay::cpu
