// Blocks of a transformer as the nodes they stand for. Queries, keys and values are three
// parameters each and one product: they are declared one behind the other, and so lie in memory.
#include "sdk/nn/transformer.h"

#include <array>
#include <cmath>

#include "sdk/nn/layers.h"

namespace assay::nn {
namespace {

struct Norm {
  ValueId gamma, beta;
};

Norm norm_parameters(Builder& b, int64_t channels) {
  const auto kind = VariableKind::kLayerNorm;
  return {b.parameter("weight", {channels}, constant(1), kind),
          b.parameter("bias", {channels}, constant(0), kind)};
}

// The parameters `name` of query, key and value as one.
ValueId joined(Builder& b, const std::string& name, const Dims& dims, Initializer init,
               VariableKind kind) {
  std::vector<ValueId> parts;
  for (const char* part : {"query", "key", "value"}) {
    const auto scope = b.scope(part);
    parts.push_back(b.parameter(name, dims, init, kind));
  }
  return b.graph().emit(Concat{0}, parts)[0];
}

}  // namespace

ValueId self_attention(Builder& b, std::string_view name, ValueId x, const Sequences& sequences,
                       int64_t heads, float dropout) {
  const auto scope = b.scope(name);
  Graph& g = b.graph();
  const int64_t hidden = b.dims(x)[1], head = hidden / heads;
  const Dims weight{hidden, hidden};
  const ValueId w = joined(b, "weight", weight, bert_normal(weight), VariableKind::kKernel);
  const ValueId bias = joined(b, "bias", {hidden}, constant(0), VariableKind::kBias);
  const ValueId qkv = g.emit1(
      Matmul{.transpose_b = true, .has_bias = true, .dtype = g.type(x).dtype}, {x, w, bias});
  Attention op{.heads = heads,
               .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head))),
               .longest = sequences.longest};
  std::vector<ValueId> inputs{qkv, sequences.start, sequences.length};
  if (b.training() && dropout > 0) {
    op.rate = dropout;
    op.seed = b.seed();
    op.stream = b.stream("dropout");
    inputs.push_back(b.random_step());
  }
  return g.emit(op, inputs)[0];
}

namespace {

// Of `rows`, if they are given.
ValueId block(Builder& b, ValueId x, const Sequences& sequences, const TransformerConfig& config,
              ValueId rows) {
  const int64_t hidden = b.dims(x)[1];
  {
    const auto attention = b.scope("attention");
    ValueId context =
        self_attention(b, "self", x, sequences, config.heads, config.attention_dropout);
    if (rows.valid()) {
      context = rows_of(b, context, rows);
      x = rows_of(b, x, rows);
    }
    const auto scope = b.scope("output");
    x = residual_norm(b, "LayerNorm", bert_linear(b, "dense", context, hidden), x, config.dropout,
                      config.epsilon);
  }
  ValueId inner;
  {
    const auto scope = b.scope("intermediate");
    inner = activation(b, config.activation, bert_linear(b, "dense", x, config.inner));
  }
  const auto scope = b.scope("output");
  return residual_norm(b, "LayerNorm", bert_linear(b, "dense", inner, hidden), x, config.dropout,
                       config.epsilon);
}

}  // namespace

Initializer bert_normal(const Dims&) { return {Initializer::Kind::kTruncatedNormal, 0.02}; }

ValueId layer_norm(Builder& b, std::string_view name, ValueId x, float epsilon) {
  const auto scope = b.scope(name);
  const Norm norm = norm_parameters(b, b.dims(x).back());
  return b.graph().emit(LayerNorm{.epsilon = epsilon}, {x, norm.gamma, norm.beta})[0];
}

ValueId residual_norm(Builder& b, std::string_view name, ValueId x, ValueId residual, float dropout,
                      float epsilon) {
  const auto scope = b.scope(name);
  const Norm norm = norm_parameters(b, b.dims(x).back());
  LayerNorm op{.epsilon = epsilon, .has_residual = true};
  std::vector<ValueId> inputs{x, norm.gamma, norm.beta, residual};
  if (b.training() && dropout > 0) {
    op.rate = dropout;
    op.seed = b.seed();
    op.stream = b.stream("dropout");
    inputs.push_back(b.random_step());
  }
  return b.graph().emit(op, inputs)[0];
}

ValueId bert_linear(Builder& b, std::string_view name, ValueId x, int64_t features) {
  return linear(b, name, x, features, {.init = bert_normal, .bias_init = 0});
}

ValueId rows_of(Builder& b, ValueId x, ValueId index) {
  return b.graph().emit1(GatherRows{.dtype = b.graph().type(x).dtype}, {x, index});
}

ValueId transformer_layers(Builder& b, ValueId x, const Sequences& sequences,
                           const TransformerConfig& config, ValueId rows) {
  for (int64_t i = 0; i < config.layers; ++i) {
    const auto layers = b.scope("layer");
    const auto scope = b.scope(cat(i));
    x = block(b, x, sequences, config, i + 1 == config.layers ? rows : ValueId{});
  }
  return x;
}

}  // namespace assay::nn
