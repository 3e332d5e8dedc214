#include "sdk/backend/cuda/cudnn_graphs.h"

#include "sdk/backend/cuda/cudnn_frontend.h"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return fe::DataType_t::BFLOAT16;
    case DType::kF16:
      return fe::DataType_t::HALF;
    default:
      return fe::DataType_t::FLOAT;
  }
}

// [N,H,W,C] or [K,R,S,C] in memory, which cuDNN describes as sizes N, C, H, W with strides.
std::vector<int64_t> sizes_of(const Dims& d) { return {d[0], d[3], d[1], d[2]}; }
std::vector<int64_t> strides_of(const Dims& d) {
  return {d[1] * d[2] * d[3], 1, d[2] * d[3], d[3]};
}

// Where a tensor lies: so many bytes into an operand of the call. Tensors are numbered from
// kFirstUid in the order of their places.
struct Place {
  size_t operand, bytes;
};
constexpr int64_t kFirstUid = 1;

FindAddresses addresses_at(std::vector<Place> places) {
  return [places = std::move(places)](std::span<void* const> operands) {
    Addresses addresses;
    for (size_t i = 0; i < places.size(); ++i)
      addresses[kFirstUid + static_cast<int64_t>(i)] =
          static_cast<char*>(operands[places[i].operand]) + places[i].bytes;
    return addresses;
  };
}

void compute_in_f32(Graph& graph, DType data) {
  graph.set_io_data_type(data_type(data))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

template <class Attributes>
Attributes geometry_of(const ConvGeometry& g) {
  return Attributes()
      .set_pre_padding({g.pad_begin[0], g.pad_begin[1]})
      .set_post_padding({g.pad_end[0], g.pad_end[1]})
      .set_stride({g.stride[0], g.stride[1]})
      .set_dilation({g.dilation[0], g.dilation[1]});
}

class ConvolutionGraph {
 public:
  ConvolutionGraph(const Convolution& c, Graph& graph) : c_(c), graph_(graph) {
    compute_in_f32(graph, c.data);
  }

  std::vector<Place> build() {
    switch (c_.kind) {
      case ConvolutionKind::kForward:
        forward();
        break;
      case ConvolutionKind::kGradData:
        c_.norms > 0 ? grad_norm() : result(grad_data(), c_.x);
        break;
      case ConvolutionKind::kGradWeight:
        result(grad_weight(), c_.w);
        break;
    }
    return places_;
  }

 private:
  // Gives the tensor a place in the last operand.
  Tensor at(Tensor tensor, size_t bytes = 0) {
    places_.push_back({operands_ - 1, bytes});
    tensor->set_uid(kFirstUid + static_cast<int64_t>(places_.size()) - 1);
    return tensor;
  }
  static void describe(const Tensor& tensor, const Dims& dims, DType dtype) {
    tensor->set_dim(sizes_of(dims)).set_stride(strides_of(dims)).set_data_type(data_type(dtype));
  }

  Tensor operand(const char* name, const Dims& dims, DType dtype) {
    ++operands_;
    const Tensor tensor = at(graph_.tensor(fe::graph::Tensor_attributes().set_name(name)));
    describe(tensor, dims, dtype);
    return tensor;
  }
  Tensor operand(const char* name, const Dims& dims) { return operand(name, dims, c_.data); }
  void result(const Tensor& tensor, const Dims& dims) {
    ++operands_;
    describe(at(tensor), dims, c_.data);
    tensor->set_output(true);
  }
  // Numbers by channel, one kind behind the other in the last operand.
  void numbers(std::initializer_list<Tensor> kinds, int64_t channels, size_t first = 0) {
    for (const Tensor& kind : kinds) {
      at(kind, first++ * static_cast<size_t>(channels) * sizeof(float));
      kind->set_output(true).set_data_type(fe::DataType_t::FLOAT);
    }
  }

  // The residual first: with the bias before it cuDNN has no kernel that is compiled already.
  void forward() {
    const Tensor x = operand("x", c_.x), w = operand("w", c_.w);
    const Tensor bias = c_.has_bias ? operand("bias", {1, 1, 1, c_.y[3]}) : nullptr;
    Tensor y = graph_.conv_fprop(x, w, geometry_of<fe::graph::Conv_fprop_attributes>(c_.geometry));
    if (c_.has_residual) y = sum(y, operand("residual", c_.y));
    if (c_.has_bias) y = sum(y, bias);
    if (c_.relu) {
      y = graph_.pointwise(
          y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    }
    result(y, c_.y);
    if (!c_.keeps_sums) return;
    const auto [sum, squares] = graph_.genstats(y, fe::graph::Genstats_attributes());
    ++operands_;
    numbers({sum, squares}, c_.y[3]);
  }

  Tensor grad_data() {
    const Tensor dy = operand("dy", c_.y), w = operand("w", c_.w);
    return graph_.conv_dgrad(dy, w, geometry_of<fe::graph::Conv_dgrad_attributes>(c_.geometry));
  }

  // As cuDNN knows it: what relu was applied to is computed again, step by step.
  void grad_norm() {
    const Tensor product = grad_data();
    describe(product, c_.x, DType::kF32);
    const Tensor dy = c_.has_addend ? sum(product, operand("addend", c_.x)) : product;
    Tensor y = c_.has_residual ? operand("residual", c_.x) : nullptr;
    struct Norm {
      Tensor x, gamma, beta, mean, rstd;
    };
    std::vector<Norm> norms;
    for (int64_t i = 0; i < c_.norms; ++i) {
      const Dims channels{1, 1, 1, c_.x[3]};
      Norm n;
      n.x = operand("x", c_.x);
      n.gamma = operand("gamma", channels, DType::kF32);
      n.beta = operand("beta", channels, DType::kF32);
      n.mean = operand("mean", channels, DType::kF32);
      n.rstd = operand("rstd", channels, DType::kF32);
      const Tensor xhat = product_of(difference(n.x, n.mean), n.rstd);
      const Tensor normalised = sum(product_of(xhat, n.gamma), n.beta);
      y = y ? sum(normalised, y) : normalised;
      norms.push_back(n);
    }
    const Tensor g = pointwise(fe::PointwiseMode_t::RELU_BWD, dy, y);
    result(g, c_.x);
    std::vector<std::array<Tensor, 5>> sums;
    for (const Norm& n : norms) {
      sums.push_back(
          graph_.dbn_weight(g, n.x, n.mean, n.rstd, n.gamma, fe::graph::DBN_weight_attributes()));
      for (const int of : {0, 1}) {  // dgamma, dbeta
        ++operands_;
        numbers({sums.back()[of]}, c_.x[3]);
      }
    }
    ++operands_;
    for (size_t i = 0; i < sums.size(); ++i)
      numbers({sums[i][2], sums[i][3], sums[i][4]}, c_.x[3], 3 * i);
  }

  Tensor grad_weight() {
    const Tensor x = operand("x", c_.x), dy = operand("dy", c_.y);
    return graph_.conv_wgrad(dy, x, geometry_of<fe::graph::Conv_wgrad_attributes>(c_.geometry));
  }

  Tensor pointwise(fe::PointwiseMode_t mode, const Tensor& a, const Tensor& b) {
    return graph_.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(mode));
  }
  Tensor sum(const Tensor& a, const Tensor& b) { return pointwise(fe::PointwiseMode_t::ADD, a, b); }
  Tensor difference(const Tensor& a, const Tensor& b) {
    return pointwise(fe::PointwiseMode_t::SUB, a, b);
  }
  Tensor product_of(const Tensor& a, const Tensor& b) {
    return pointwise(fe::PointwiseMode_t::MUL, a, b);
  }

  const Convolution& c_;
  Graph& graph_;
  size_t operands_ = 0;
  std::vector<Place> places_;
};

class AttentionGraph {
 public:
  AttentionGraph(const FusedAttention& a, Graph& graph, bool deterministic)
      : a_(a), graph_(graph), deterministic_(deterministic) {
    compute_in_f32(graph, a.data);
  }

  std::vector<Place> build() {
    const Tensor q = part(new_input(), kQkv, 0), k = part(new_input(), kQkv, 1),
                 v = part(new_input(), kQkv, 2);
    if (a_.is_gradient) {
      const Tensor context = of_heads(new_input(), kContext), sums = of_sums(new_input(), kSums),
                   dcontext = of_heads(new_input(), kDcontext);
      auto options = with_rows(fe::graph::SDPA_backward_attributes())
                         .set_deterministic_algorithm(deterministic_)
                         .set_max_total_seq_len_q(a_.tokens)
                         .set_max_total_seq_len_kv(a_.tokens);
      const auto parts = graph_.sdpa_backward(q, k, v, context, dcontext, sums, options);
      for (size_t i = 0; i < parts.size(); ++i) part(result(parts[i]), results_, i);
    } else {
      // Not the newer of the frontend's two forms, which has no dropout in cuDNN 9.19.
      auto options = with_rows(fe::graph::SDPA_attributes())
                         .set_implementation(fe::AttentionImplementation_t::COMPOSITE)
                         .set_generate_stats(true);
      const auto [context, sums] = graph_.sdpa(q, k, v, options);
      of_heads(result(context), results_);
      of_sums(result(sums), results_ + 1);
    }
    return places_;
  }

 private:
  // Operands by their order in FusedAttention.
  static constexpr size_t kQkv = 0, kContext = 1, kSums = 2, kDcontext = 3;

  Tensor new_input() { return graph_.tensor({}); }
  static Tensor result(const Tensor& made) {
    made->set_output(true);
    return made;
  }

  Tensor at(const Tensor& tensor, size_t operand, size_t bytes = 0) {
    places_.push_back({operand, bytes});
    tensor->set_uid(kFirstUid + static_cast<int64_t>(places_.size()) - 1);
    return tensor;
  }
  Tensor numbers(size_t operand, int64_t count, fe::DataType_t type) {
    Tensor tensor = at(new_input(), operand);
    tensor->set_dim({count, 1, 1, 1}).set_stride({1, 1, 1, 1}).set_data_type(type);
    return tensor;
  }
  // [sequences, heads, longest, size], whose tokens lie `pitch` elements apart.
  Tensor rows(const Tensor& tensor, int64_t pitch, const Tensor& begins) const {
    tensor->set_dim({a_.sequences, a_.heads, a_.longest, a_.size})
        .set_stride({a_.longest * pitch, a_.size, pitch, 1})
        .set_data_type(data_type(a_.data))
        .set_ragged_offset(begins);
    return tensor;
  }
  // q, k or v.
  Tensor part(const Tensor& tensor, size_t operand, size_t i) {
    const int64_t width = a_.heads * a_.size;
    return rows(at(tensor, operand, i * static_cast<size_t>(width) * dtype_size(a_.data)),
                3 * width, of_qkv_);
  }
  Tensor of_heads(const Tensor& tensor, size_t operand) {
    return rows(at(tensor, operand), a_.heads * a_.size, of_context_);
  }
  Tensor of_sums(const Tensor& tensor, size_t operand) {
    at(tensor, operand)
        ->set_dim({a_.sequences, a_.heads, a_.longest, 1})
        .set_stride({a_.heads * a_.longest, 1, a_.heads, 1})
        .set_data_type(fe::DataType_t::FLOAT)
        .set_ragged_offset(of_logsumexp_);
    return tensor;
  }

  template <class Options>
  Options with_rows(Options options) {
    options.set_attn_scale(a_.scale).set_padding_mask(true).set_seq_len_q(length_).set_seq_len_kv(
        length_);
    if (a_.rate > 0) {
      options.set_dropout(a_.rate, numbers(first_rows_ + 4, 1, fe::DataType_t::INT64),
                          numbers(first_rows_ + 5, 1, fe::DataType_t::INT64));
    }
    return options;
  }

  const FusedAttention& a_;
  Graph& graph_;
  const bool deterministic_;
  std::vector<Place> places_;
  const size_t first_rows_ = a_.is_gradient ? 4 : 1;
  const size_t results_ = first_rows_ + (a_.rate > 0 ? 6 : 4);
  const Tensor of_qkv_ = numbers(first_rows_, a_.sequences + 1, fe::DataType_t::INT64),
               of_context_ = numbers(first_rows_ + 1, a_.sequences + 1, fe::DataType_t::INT64),
               of_logsumexp_ = numbers(first_rows_ + 2, a_.sequences + 1, fe::DataType_t::INT64),
               length_ = numbers(first_rows_ + 3, a_.sequences, fe::DataType_t::INT32);
};

}  // namespace

FindAddresses describe(Graph& graph, const Convolution& c, bool) {
  return addresses_at(ConvolutionGraph(c, graph).build());
}
FindAddresses describe(Graph& graph, const FusedAttention& a, bool deterministic) {
  return addresses_at(AttentionGraph(a, graph, deterministic).build());
}

}  // namespace assay::cuda
