// Kinds of layers with parameters.
#include "sdk/graph/elementwise.h"
#include "sdk/nn/layer_kind.h"
#include "sdk/nn/layers.h"
#include "sdk/nn/transformer.h"

namespace assay::nn {
namespace {

constexpr Interval kChannels{1, 65536, true};
constexpr Interval kWidths{1, 1 << 20, true};
constexpr Interval kRates{0, 1};
constexpr Interval kNumbers{-1e6, 1e6, true};

// Ways to draw first weights.
struct NamedInit {
  std::string_view name;
  Initializer (*init)(const Dims& weight);
};
constexpr std::array kInits{NamedInit{"kaiming_normal_fan_out", kaiming_normal_fan_out},
                            NamedInit{"kaiming_normal_fan_in", kaiming_normal_fan_in},
                            NamedInit{"uniform_fan_in", uniform_fan_in},
                            NamedInit{"he_truncated_normal", he_truncated_normal},
                            NamedInit{"lecun_truncated_normal", lecun_truncated_normal},
                            NamedInit{"bert_normal", bert_normal}};
// That of four axes alone.
constexpr std::string_view kGlorot = "glorot_uniform";

void declare_init(ConfigFields& f, std::string& init, bool with_glorot) {
  std::vector<std::string_view> names;
  for (const NamedInit& known : kInits) names.push_back(known.name);
  if (with_glorot) names.push_back(kGlorot);
  f("init", init, "of the weights").one_of(names);
}

Initializer (*init_of(const std::string& name))(const Dims& weight) {
  for (const NamedInit& known : kInits) {
    if (known.name == name) return known.init;
  }
  return glorot_uniform;
}

void declare_share(ConfigFields& f, std::string& share) {
  f("share", share, "the name of a layer before, whose parameters of the same names these are");
}

void declare_bias(ConfigFields& f, bool& bias, std::optional<double>& bias_init) {
  f("bias", bias, "adds one number a channel");
  f("bias_init", bias_init, "first biases; none: uniform in +-sqrt(1 / inputs)").in(kNumbers);
}

// [rows, columns] of windows and strides.
std::array<int64_t, 2> pair(const std::string& name, std::string_view key,
                            const std::vector<int64_t>& sizes) {
  expect(sizes.size() == 2, {name, key}, cat(sizes.size(), " numbers"), "[rows, columns]");
  return {sizes[0], sizes[1]};
}

// Sizes that weights are computed of must not overflow before the graph looks at them.
void check_channels(const std::string& name, int64_t channels) {
  expect(channels <= (1 << 24), {name, "x"}, cat(channels, " channels"), "at most 2^24");
}

void check_window(const std::string& name, std::array<int64_t, 2> window,
                  std::array<int64_t, 2> padding, const Dims& x) {
  const Dims padded{x[1] + 2 * padding[0], x[2] + 2 * padding[1]};
  expect(window[0] <= padded[0] && window[1] <= padded[1], {name, "kernel"},
         Dims{window[0], window[1]}, "at most ", padded,
         ", rows and columns of x with its padding");
}

struct Conv2dKeys {
  int64_t channels = kNotGiven<int64_t>;
  std::vector<int64_t> kernel{3, 3}, stride{1, 1}, padding{0, 0};
  bool same = false, bias = true;
  std::optional<double> bias_init;
  std::string init = "kaiming_normal_fan_out";
  std::string share;

  void window_fields(ConfigFields& f) {
    f("kernel", kernel, "[rows, columns] of the window").in({1, 1023, true}).not_empty();
    f("stride", stride, "[rows, columns]").in({1, 1023, true}).not_empty();
    f("padding", padding, "[rows, columns], on both sides").in({0, 1023, true}).not_empty();
    f("same", same, "TensorFlow's SAME padding instead: ceil(size / stride) results");
  }
  void weight_fields(ConfigFields& f) {
    declare_bias(f, bias, bias_init);
    declare_init(f, init, true);
    declare_share(f, share);
  }
  void require_clear(const std::string& name) const {
    require_one_padding(name, same, std::ranges::count(padding, 0) < std::ssize(padding));
  }
  ValueId emit_conv(Builder& b, const std::string& name, ValueId x, int64_t results,
                    int64_t groups) const {
    check_channels(name, b.dims(x)[3]);
    const auto window = pair(name, "kernel", kernel), around = pair(name, "padding", padding);
    if (!same) check_window(name, window, around, b.dims(x));
    const int64_t in = b.dims(x)[3];
    expect(in % groups == 0 && results % groups == 0, {name, "groups"}, groups, "a divisor of the ",
           in, " channels of x and of the ", results, " results");
    return conv2d(b, name, x,
                  {.channels = results,
                   .kernel = window,
                   .stride = pair(name, "stride", stride),
                   .padding = around,
                   .same = same,
                   .groups = groups,
                   .bias = bias,
                   .init = init_of(init),
                   .bias_init = bias_init});
  }
};

struct Conv2dLayer : Conv2dKeys {
  static constexpr LayerText kText{"conv2d",
                                   "Gives [N,P,Q,channels]: cross-correlation, zero padding. "
                                   "Parameters: weight [channels,R,S,C/groups], bias [channels]"};
  static constexpr std::array kInputs{images("x")};
  int64_t groups = 1;
  void fields(ConfigFields& f) {
    f("channels", channels, "of the result; needed").in(kChannels);
    window_fields(f);
    f("groups", groups, "of channels that see only each other").in(kChannels);
    weight_fields(f);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    return emit_conv(b, name, x[0], channels, groups);
  }
};

struct DepthwiseConv2dLayer : Conv2dKeys {
  static constexpr LayerText kText{"depthwise_conv2d",
                                   "Gives [N,P,Q,C]: one filter for each channel. Parameters: "
                                   "weight [C,R,S,1], bias [C]"};
  static constexpr std::array kInputs{images("x")};
  void fields(ConfigFields& f) {
    window_fields(f);
    weight_fields(f);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const int64_t all = b.dims(x[0])[3];
    return emit_conv(b, name, x[0], all, all);
  }
};

struct Conv2dTransposeLayer {
  static constexpr LayerText kText{
      "conv2d_transpose",
      "Gives [N,H*stride,W*stride,channels]: the gradient of a convolution with SAME padding, used "
      "forwards. Parameters: weight [C,R,S,channels], bias [channels]"};
  static constexpr std::array kInputs{images("x")};
  int64_t channels = kNotGiven<int64_t>;
  std::vector<int64_t> kernel{3, 3}, stride{2, 2};
  bool bias = true;
  double bias_init = 0;
  std::string init = std::string(kGlorot);
  std::string share;
  void fields(ConfigFields& f) {
    f("channels", channels, "of the result; needed").in(kChannels);
    f("kernel", kernel, "[rows, columns] of the window").in({1, 1023, true}).not_empty();
    f("stride", stride, "[rows, columns]").in({1, 1023, true}).not_empty();
    f("bias", bias, "adds one number a channel");
    f("bias_init", bias_init, "first biases").in(kNumbers);
    declare_init(f, init, true);
    declare_share(f, share);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    check_channels(name, b.dims(x[0])[3]);
    return conv2d_transpose(b, name, x[0],
                            {.channels = channels,
                             .kernel = pair(name, "kernel", kernel),
                             .stride = pair(name, "stride", stride),
                             .bias = bias,
                             .init = init_of(init),
                             .bias_init = bias_init});
  }
};

struct BatchNormLayer {
  static constexpr LayerText kText{
      "batch_norm",
      "Gives the like of x: normalised by mean and variance of each channel, of the batch in "
      "training and of running averages elsewhere. Parameters: weight, bias [C]; statistics: "
      "running_mean, running_var [C]"};
  static constexpr std::array kInputs{with_channels("x")};
  double epsilon = 1e-5, momentum = 0.1, gamma = 1, running_var = 1;
  bool unbiased = true;
  void fields(ConfigFields& f) {
    f("epsilon", epsilon, "added to variances").in({0, 1, false, false});
    f("momentum", momentum, "weight of the new statistic: PyTorch's 0.1 is TensorFlow's 0.9")
        .in({0, 1, true});
    f("unbiased", unbiased, "running variances have the divisor n - 1");
    f("gamma", gamma, "first weights").in(kNumbers);
    f("running_var", running_var, "first running variances").in({0, 1e6, true});
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    return batch_norm(b, name, x[0],
                      {.epsilon = static_cast<float>(epsilon),
                       .momentum = static_cast<float>(momentum),
                       .unbiased = unbiased,
                       .gamma = gamma,
                       .running_var = running_var});
  }
};

struct LayerNormLayer {
  static constexpr LayerText kText{"layer_norm",
                                   "Gives the like of x: normalised over the last axis. "
                                   "Parameters: weight, bias [C]"};
  static constexpr std::array kInputs{with_channels("x")};
  double epsilon = 1e-12;
  std::string share;
  void fields(ConfigFields& f) {
    f("epsilon", epsilon, "added to variances").in({0, 1, false, false});
    declare_share(f, share);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    return layer_norm(b, name, x[0], static_cast<float>(epsilon));
  }
};

// Of x [..., C] as [rows, C], and back with the last axis that the result has.
template <class Emit>
ValueId on_rows(Builder& b, ValueId x, const Emit& emit) {
  Dims dims = b.dims(x);
  if (dims.rank() == 2) return emit(x);
  const ValueId flat = b.graph().emit1(Reshape{{dims.numel() / dims.back(), dims.back()}}, {x});
  const ValueId y = emit(flat);
  dims[dims.rank() - 1] = b.dims(y).back();
  return b.graph().emit1(Reshape{dims}, {y});
}

struct LinearLayer {
  static constexpr LayerText kText{"linear",
                                   "Gives [N,...,features]: a product over the last axis. "
                                   "Parameters: weight [features,C], bias [features]"};
  static constexpr std::array kInputs{with_channels("x")};
  int64_t features = kNotGiven<int64_t>;
  bool bias = true;
  std::optional<double> bias_init;
  std::string init = "uniform_fan_in";
  std::string share;
  void fields(ConfigFields& f) {
    f("features", features, "of the result; needed").in(kWidths);
    declare_bias(f, bias, bias_init);
    declare_init(f, init, false);
    declare_share(f, share);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    return on_rows(b, x[0], [&](ValueId flat) {
      return linear(b, name, flat, features,
                    {.bias = bias, .init = init_of(init), .bias_init = bias_init});
    });
  }
};

struct EmbeddingLayer {
  static constexpr LayerText kText{"embedding",
                                   "Gives [N,...,features]: rows of a table; of a number that is "
                                   "no row zeros. Parameters: weight [rows,features]"};
  static constexpr std::array kInputs{integers("index", "[N,...]", 1)};
  int64_t rows = kNotGiven<int64_t>, features = kNotGiven<int64_t>;
  double stddev = 0.02;
  std::string share;
  void fields(ConfigFields& f) {
    f("rows", rows, "of the table; needed").in({1, 1 << 24, true});
    f("features", features, "of a row; needed").in(kWidths);
    f("stddev", stddev, "of the first weights, normal, cut at two deviations").in({0, 1e6, true});
    declare_share(f, share);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    Graph& g = b.graph();
    const ValueId table =
        b.parameter("weight", {rows, features}, {Initializer::Kind::kTruncatedNormal, stddev},
                    VariableKind::kEmbedding);
    const Dims dims = b.dims(x[0]);
    expect(dims.rank() < Dims::kMaxRank, {name, "index"}, dims, "one axis less");
    std::vector<int64_t> sizes(dims.span().begin(), dims.span().end());
    sizes.push_back(features);
    const ValueId flat = g.emit1(Reshape{{dims.numel()}}, {x[0]});
    return g.emit1(Reshape{Dims(sizes)}, {g.emit1(GatherRows{}, {table, flat})});
  }
};

struct PositionEmbeddingLayer {
  static constexpr LayerText kText{"position_embedding",
                                   "Gives the like of x: to token l row l of a table is added. "
                                   "Parameters: weight [rows,C]"};
  static constexpr std::array kInputs{tokens("x")};
  int64_t rows = kNotGiven<int64_t>;
  double stddev = 0.02;
  std::string share;
  void fields(ConfigFields& f) {
    f("rows", rows, "of the table, L or more; needed").in({1, 1 << 20, true});
    f("stddev", stddev, "of the first weights, normal, cut at two deviations").in({0, 1e6, true});
    declare_share(f, share);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    const int64_t length = b.dims(x[0])[1], channels = b.dims(x[0])[2];
    expect(rows >= length, {name, "rows"}, rows, "the ", length, " tokens of x, or more");
    const ValueId table =
        b.parameter("weight", {rows, channels}, {Initializer::Kind::kTruncatedNormal, stddev},
                    VariableKind::kEmbedding);
    const ValueId used =
        b.graph().emit1(Slice{.begin = {0, 0}, .dims = {length, channels}}, {table});
    return add(b.graph(), x[0], used);
  }
};

struct SelfAttentionLayer {
  static constexpr LayerText kText{
      "self_attention",
      "Gives [N,L,C]: each token's mean of the values of all tokens before its sequence's length, "
      "weighted by softmax(q k / sqrt(C/heads)); zeros behind. Parameters: query, key, value, each "
      "with weight [C,C] and bias [C]"};
  static constexpr std::array kInputs{tokens("x"), integers("length", "[N]", 1, 1)};
  int64_t heads = 1;
  double dropout = 0;
  std::string share;
  void fields(ConfigFields& f) {
    f("heads", heads, "a divisor of C").in({1, 1024, true});
    f("dropout", dropout, "of the weights, in training").in(kRates);
    declare_share(f, share);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    Graph& g = b.graph();
    const Dims dims = b.dims(x[0]);
    expect(b.dims(x[1])[0] == dims[0], {name, "length"}, b.dims(x[1]), Dims{dims[0]},
           ", one for each of x");
    expect(dims[2] % heads == 0, {name, "heads"}, heads, "a divisor of the ", dims[2],
           " numbers of a token");
    const ValueId flat = g.emit1(Reshape{{dims[0] * dims[1], dims[2]}}, {x[0]});
    const ValueId start = g.emit1(Arange{.count = dims[0], .period = dims[0], .step = dims[1]}, {});
    const ValueId context =
        self_attention(b, name, flat, {start, x[1], dims[1]}, heads, static_cast<float>(dropout));
    return g.emit1(Reshape{dims}, {context});
  }
};

}  // namespace

std::span<const LayerKind> weight_layers() {
  static const std::array kTable{
      kind_of<Conv2dLayer>(),    kind_of<DepthwiseConv2dLayer>(),   kind_of<Conv2dTransposeLayer>(),
      kind_of<BatchNormLayer>(), kind_of<LayerNormLayer>(),         kind_of<LinearLayer>(),
      kind_of<EmbeddingLayer>(), kind_of<PositionEmbeddingLayer>(), kind_of<SelfAttentionLayer>()};
  return kTable;
}

}  // namespace assay::nn
