// The encoder of BERT and ELECTRA: blocks of self-attention and a feed-forward network over the
// tokens of a batch of sequences, under the names of Hugging Face's checkpoints.
//
// Tokens of all sequences are the rows of one tensor [T,H]; which sequence owns which rows is said
// beside it, so that padded and packed sequences are the same network.
#pragma once

#include <string_view>

#include "sdk/nn/builder.h"

namespace assay::nn {

// Sequence b of B owns the rows start[b] to start[b] + length[b] - 1 (see Attention in ops.h).
struct Sequences {
  ValueId start, length;  // [B] i32
  int64_t longest = 0;    // tokens
};

struct TransformerConfig {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t inner = 3072;  // width of the feed-forward network
  float dropout = 0.1f;
  float attention_dropout = 0.1f;  // of the weights that a token gives to others
  float epsilon = 1e-12f;          // of layer norms
  ActivationKind activation = ActivationKind::kGelu;
};

// Normal with sd 0.02, redrawn outside two standard deviations: all weights and tables of BERT.
Initializer bert_normal(const Dims& weight);

// x [..., C] normalised over its last axis. Parameters: weight, bias [C].
ValueId layer_norm(Builder& b, std::string_view name, ValueId x, float epsilon);
// layer_norm(dropout(x) + residual)
ValueId residual_norm(Builder& b, std::string_view name, ValueId x, ValueId residual, float dropout,
                      float epsilon);

// x [N,C] -> [N,features], of bert_normal weights and zero biases.
ValueId bert_linear(Builder& b, std::string_view name, ValueId x, int64_t features);

// x [T,H] -> context [T,H] of `heads` heads, which divide H; with dropout of the weights that a
// token gives to others. Parameters: query, key and value, each with weight [H,H] and bias [H].
ValueId self_attention(Builder& b, std::string_view name, ValueId x, const Sequences& sequences,
                       int64_t heads, float dropout);

// x [T,H] -> [T,H] through layer.0, layer.1, ... of the scope that is open. With `rows` [R] i32
// only these rows are wanted -> [R,H]: behind the last attention nothing is computed for others.
ValueId transformer_layers(Builder& b, ValueId x, const Sequences& sequences,
                           const TransformerConfig& config, ValueId rows = {});

// The rows of x [T,C] that `index` [R] i32 names.
ValueId rows_of(Builder& b, ValueId x, ValueId index);

}  // namespace assay::nn
