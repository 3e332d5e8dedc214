/* Assay: a network of your own, described layer by layer.
 *
 * A graph is a description: inputs, layers, outputs. Every call is checked as it is made, its shapes
 * too, so that an error stands where its cause is; a call that fails changes nothing.
 * assay_graph_finish makes a model of it, which is used like any other: trained, evaluated, saved,
 * loaded and served, in every precision and on every device. Checkpoints carry the description:
 * assay_model_open makes the model again, without the code that described it, and so does
 * assay_model_named(c, "graph", ...) with the text that assay_model_report shows as config.
 *
 * Values are tensors [N, ...], N the samples of a batch, or single numbers []. Images are
 * [N,H,W,C]. In messages and reports N is 2. Numbers are f32 here; a trainer's precision decides what
 * is computed in less.
 *
 * The same description is computed in three ways: in training; in evaluation, with running
 * statistics and without dropout; in prediction, without labels. A layer that reads a label, or what
 * comes of one, is not there in predictions, nor are the outputs behind it. Nothing is computed that
 * leads to no output.
 *
 * examples/own_network.c is a complete program. The conventions are those of assay.h. */
#ifndef ASSAY_ASSAY_GRAPH_H
#define ASSAY_ASSAY_GRAPH_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_graph assay_graph; /* assay_graph_free */

/* A value of one graph. 0 is none. */
typedef uint64_t assay_value;

/* An empty graph.
 *   name   any text, for people
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_graph_create(const assay_context *c, assay_str name, assay_graph **out,
                                          assay_error **err);

/* A tensor of each batch. Batches hold inputs in the order of these calls; predictions take those
 * that are no labels.
 *   name             letters, digits and _; no layer may have it
 *   attributes_json  one JSON object; keys, with defaults:
 *     "shape"    sizes of a sample, without the batch axis, [] (one number); at most 2^40 numbers
 *     "dtype"    "f32" (default), or "i32" for numbers of classes, tokens and the like
 *     "label"    false. Known only where the answer is: predictions do without
 *     "range"    i32: [low, high), none. Integers outside are refused; needed where they number
 *                classes. In evaluations a label may also be -1: rows that only fill up a batch
 *     "padding"  i32: none. One more integer that is taken everywhere
 *   errors  ASSAY_E_INVALID, with op_path the name; ASSAY_E_BUSY
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_graph_input(assay_graph *g, assay_str name, assay_str attributes_json,
                                         assay_value *out, assay_error **err);

/* A layer on values of this graph.
 *   kind             below
 *   name             letters, digits, _ and -, with dots between; of its own. Parameters are called
 *                    "<name>.weight" and so on, and draw their first values by these names
 *   attributes_json  one JSON object, empty for all defaults; keys below
 *   in, n_in         what it reads, in the order below
 *   out, n_out       receives what it gives, one value in this version; places behind that become 0.
 *                    May be `in`; on failure as it was
 *   errors  of inputs and keys with op_path the name, argument the input ("in": not one alone) or
 *           the key, expected and actual. ASSAY_E_NOT_FOUND: no such kind, or no layer to share with, listing the
 *           names; ASSAY_E_INVALID: unknown keys, shapes that do not fit, parameters behind the
 *           output "loss" or in predictions alone, a name that is taken, a value of another graph,
 *           a graph that is finished; ASSAY_E_BUSY
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_graph_layer(assay_graph *g, assay_str kind, assay_str name,
                                         assay_str attributes_json, const assay_value *in,
                                         size_t n_in, assay_value *out, size_t n_out,
                                         assay_error **err);

/* Kinds of layers: what they read, what they give, and their keys. A layer that is computed in
 * evaluations or predictions only, and what reads it, is not there elsewhere: it can be no part of
 * the loss, and no parameter may stand behind it. Of each key its range stands in brackets,
 * its default and its meaning.
 *
 * "conv2d"  x [N,H,W,C]. Gives [N,P,Q,channels]: cross-correlation, zero padding. Parameters:
 *       weight [channels,R,S,C/groups], bias [channels]
 *   "channels"  [1, 65536]. Of the result; needed
 *   "kernel"  [1, 1023], [3, 3]. [rows, columns] of the window
 *   "stride"  [1, 1023], [1, 1]. [rows, columns]
 *   "padding"  [0, 1023], [0, 0]. [rows, columns], on both sides
 *   "same"  false. TensorFlow's SAME padding instead: ceil(size / stride) results
 *   "groups"  [1, 65536], 1. Of channels that see only each other
 *   "bias"  true. Adds one number a channel
 *   "bias_init"  [-1e+06, 1e+06], none. First biases; none: uniform in +-sqrt(1 / inputs)
 *   "init"  "kaiming_normal_fan_out". Of the weights: "kaiming_normal_fan_out",
 *         "kaiming_normal_fan_in", "uniform_fan_in", "he_truncated_normal",
 *         "lecun_truncated_normal", "bert_normal" or "glorot_uniform"
 *   "share"  "". The name of a layer before, whose parameters of the same names these are
 * "depthwise_conv2d"  x [N,H,W,C]. Gives [N,P,Q,C]: one filter for each channel. Parameters:
 *       weight [C,R,S,1], bias [C]
 *   "kernel"  [1, 1023], [3, 3]. [rows, columns] of the window
 *   "stride"  [1, 1023], [1, 1]. [rows, columns]
 *   "padding"  [0, 1023], [0, 0]. [rows, columns], on both sides
 *   "same"  false. As for "conv2d"
 *   "bias"  true. Adds one number a channel
 *   "bias_init"  [-1e+06, 1e+06], none. As for "conv2d"
 *   "init"  "kaiming_normal_fan_out". As for "conv2d"
 *   "share"  "". As for "conv2d"
 * "conv2d_transpose"  x [N,H,W,C]. Gives [N,H*stride,W*stride,channels]: the gradient of a
 *       convolution with SAME padding, used forwards. Parameters: weight [C,R,S,channels], bias
 *       [channels]
 *   "channels"  [1, 65536]. Of the result; needed
 *   "kernel"  [1, 1023], [3, 3]. [rows, columns] of the window
 *   "stride"  [1, 1023], [2, 2]. [rows, columns]
 *   "bias"  true. Adds one number a channel
 *   "bias_init"  [-1e+06, 1e+06], 0. First biases
 *   "init"  "glorot_uniform". As for "conv2d"
 *   "share"  "". As for "conv2d"
 * "batch_norm"  x [N,...,C]. Gives the like of x: normalised by mean and variance of each
 *       channel, of the batch in training and of running averages elsewhere. Parameters: weight,
 *       bias [C]; statistics: running_mean, running_var [C]
 *   "epsilon"  (0, 1), 1e-05. Added to variances
 *   "momentum"  [0, 1], 0.1. Weight of the new statistic: PyTorch's 0.1 is TensorFlow's 0.9
 *   "unbiased"  true. Running variances have the divisor n - 1
 *   "gamma"  [-1e+06, 1e+06], 1. First weights
 *   "running_var"  [0, 1e+06], 1. First running variances
 * "layer_norm"  x [N,...,C]. Gives the like of x: normalised over the last axis. Parameters:
 *       weight, bias [C]
 *   "epsilon"  (0, 1), 1e-12. Added to variances
 *   "share"  "". As for "conv2d"
 * "linear"  x [N,...,C]. Gives [N,...,features]: a product over the last axis. Parameters: weight
 *       [features,C], bias [features]
 *   "features"  [1, 2^20]. Of the result; needed
 *   "bias"  true. Adds one number a channel
 *   "bias_init"  [-1e+06, 1e+06], none. As for "conv2d"
 *   "init"  "uniform_fan_in". Of the weights: "kaiming_normal_fan_out", "kaiming_normal_fan_in",
 *         "uniform_fan_in", "he_truncated_normal", "lecun_truncated_normal" or "bert_normal"
 *   "share"  "". As for "conv2d"
 * "embedding"  index i32 [N,...]. Gives [N,...,features]: rows of a table; of a number that is no
 *       row zeros. Parameters: weight [rows,features]
 *   "rows"  [1, 2^24]. Of the table; needed
 *   "features"  [1, 2^20]. Of a row; needed
 *   "stddev"  [0, 1e+06], 0.02. Of the first weights, normal, cut at two deviations
 *   "share"  "". As for "conv2d"
 * "position_embedding"  x [N,L,C]. Gives the like of x: to token l row l of a table is added.
 *       Parameters: weight [rows,C]
 *   "rows"  [1, 2^20]. Of the table, L or more; needed
 *   "stddev"  [0, 1e+06], 0.02. As for "embedding"
 *   "share"  "". As for "conv2d"
 * "self_attention"  x [N,L,C], length i32 [N]. Gives [N,L,C]: each token's mean of the values of
 *       all tokens before its sequence's length, weighted by softmax(q k / sqrt(C/heads)); zeros
 *       behind. Parameters: query, key, value, each with weight [C,C] and bias [C]
 *   "heads"  [1, 1024], 1. A divisor of C
 *   "dropout"  [0, 1), 0. Of the weights, in training
 *   "share"  "". As for "conv2d"
 * "max_pool"  x [N,H,W,C]. Gives [N,P,Q,C]: the maximum of each window
 *   "window"  [1, 16384], 2. Rows and columns
 *   "stride"  [1, 16384], 2. Of rows and columns
 *   "padding"  [0, 1023], 0. On all sides, less than the window; it never wins
 *   "same"  false. TensorFlow's SAME padding instead
 * "average_pool"  x [N,H,W,C]. Gives [N,P,Q,C]: the mean of what each window shows of x
 *   "window"  [1, 16384], 2. Rows and columns
 *   "stride"  [1, 16384], 2. Of rows and columns
 *   "padding"  [0, 1023], 0. On all sides, less than the window
 * "global_average_pool"  x [N,H,W,C]. Gives [N,C]: the mean of each channel
 * "activation"  x [...]. Gives the like of x, element by element
 *   "function"  "relu". Elu of alpha 1, exact gelu, swish (or silu) x sigmoid(x): "relu", "elu",
 *         "tanh", "sigmoid", "gelu", "gelu_tanh" or "swish"
 * "dropout"  x [N,...]. Gives the like of x: in training elements become 0 at random, the others
 *       grow by 1 / (1 - rate)
 *   "rate"  [0, 1), 0.5. Of elements that become 0
 * "add"  a [...], b [...] and so on. Gives their sum. Shapes are aligned at the last axis; axes
 *       of size 1, or that are missing, are repeated to the other's shape
 * "subtract"  a [...], b [...]. Gives a - b, of shapes as for add
 * "multiply"  a [...], b [...] and so on. Gives their product, of shapes as for add
 * "scale"  x [...]. Gives factor x + offset
 *   "factor"  [-1e+30, 1e+30], 1. Of every element
 *   "offset"  [-1e+30, 1e+30], 0. Added to every element
 * "concat"  a [N,...], b [N,...] and so on. Gives one behind the other along an axis
 *   "axis"  [-7, 7], -1. -1 is the last
 * "slice"  x [N,...]. Gives a part of x
 *   "axis"  [-7, 7], -1. That is cut; -1 is the last
 *   "begin"  [0, 2^30], 0. Of the part
 *   "size"  [1, 2^30]. Of the part; needed
 * "centre_crop"  x [N,H,W,C]. Gives the middle; the smaller half of an odd rest is cut at the top
 *       and left
 *   "rows"  [1, 16384]. Of the result; needed
 *   "columns"  [1, 16384]. Of the result; needed
 * "resize"  x [N,H,W,C]. Gives [N,H*factor,W*factor,C]: every pixel factor by factor times
 *   "factor"  [1, 64], 2. Of rows and columns
 * "reshape"  x numbers or i32 [N,...]. Gives the elements of x in another shape
 *   "shape"  [-1, 2^30]. The result's, with -1 where the batch size is a factor, and there only;
 *         needed
 * "flatten"  x [N,...]. Gives [N,C], in the order of memory: H, W, C
 * "softmax_cross_entropy"  logits [N,C], labels i32 [N]. Gives []: the loss of classes, whose
 *       numbers are the labels; rows of label -1 add nothing. In evaluations without smoothing
 *   "label_smoothing"  [0, 1), 0. Of the target, moved to all classes alike
 *   "mean"  "rows". In training, over all rows or over those whose label is not -1: "rows" or
 *         "counted"
 * "soft_target_cross_entropy"  logits [N,...,C], target like the logits. Gives []: the loss of
 *       classes at every pixel, mean of an image's; target: weights of the classes, all 0 adds
 *       nothing
 * "soft_dice"  logits [N,...,C], target like the logits. Gives []: 1 - the DICE coefficient of
 *       probabilities and target, mean over the classes of an image
 *   "epsilon"  (0, 1], 1e-06. Added to numerator and denominator
 * "sigmoid_cross_entropy"  logits [N,...], target i32 like the logits. Gives []: the loss of
 *       answers 0 and 1; target -1 adds nothing and does not count
 * "mean"  x [N,...]. Gives []: the mean of all elements; in evaluations the sum of the means of
 *       the samples
 * "top_k_correct"  logits [N,C], labels i32 [N]. Gives []: how many labels are among the k
 *       largest logits of their rows. In evaluations only
 *   "k"  [1, 2^20], 1. 1: the largest
 * "count_targets"  target numbers or i32 [N,...]. Gives []: how many targets are no padding:
 *       integers of 0 or more, or samples of numbers that are not 0 everywhere. In evaluations
 *       only
 * "probabilities"  logits [N,...,C]. Gives the like of logits: softmax over the last axis. In
 *       predictions only
 */

/* Gives a value a name: losses, metrics, results. Training makes "loss" smaller: one number that
 * depends on a label, for predictions do without a loss, and on every parameter, so layers that have
 * some come before this call. assay_trainer_scalar gives single numbers: after an evaluation all,
 * after a step those that training computes, which "top_k_correct" and "count_targets" are not.
 * Predictors give tensors, a row for each sample, in the order of these calls. Outputs called
 * "loss", "top1" and "top5" are those of assay_eval_info, too.
 *   name             letters, digits and _; of its own among the outputs
 *   value            what a layer gives: [] or, where predictions have it, [N, ...]
 *   weight           0, or a single number: how much of an evaluation's batch the value sums up.
 *                    With 0 these are all its samples, padding too. Where a loader fills up the last
 *                    batch ("last_batch": "pad") losses and counts need "count_targets" of the label
 *                    here: what is no padding
 *   attributes_json  one JSON object; key:
 *     "reduction"    of the batches of an evaluation: "mean" (default of single numbers): the sum of
 *                    the values by the sum of the weights; "sum"; "last", of tensors alone
 *   errors  ASSAY_E_INVALID, with argument "value", "weight" or "reduction", expected and actual:
 *           other shapes; a loss without a label or that a parameter has no influence on; a name
 *           that is taken; ASSAY_E_UNSUPPORTED: a kind without gradient between a parameter and the
 *           loss; ASSAY_E_BUSY
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_graph_output(assay_graph *g, assay_str name, assay_value value,
                                          assay_value weight, assay_str attributes_json,
                                          assay_error **err);

/* What the graph is so far.
 *   report  config {name, inputs [..], layers [..], outputs [..]}, values [{name, dtype, shape [..]}]
 *           in the order of their making, N being 2
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_graph_report(const assay_graph *g, assay_report **out,
                                          assay_error **err);

/* Makes the model, without weights, as assay_model_named does; its architecture is "graph". The
 * graph takes no more calls then, but for assay_graph_report.
 *   errors  ASSAY_E_INVALID: no "loss", nothing to predict, a layer or an input without use, or the
 *           graph is finished already; ASSAY_E_BUSY. The graph may be completed then, and finished
 *           again
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_graph_finish(assay_graph *g, assay_model **out, assay_error **err);

/* since 1.0, provisional */
ASSAY_API void assay_graph_free(assay_graph *g);

#ifdef __cplusplus
}
#endif

#endif
