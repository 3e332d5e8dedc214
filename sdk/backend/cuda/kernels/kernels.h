// The kernels of the CUDA backend as functions that enqueue them: plain C++, so that what plans
// them needs no CUDA compiler.
//
// Tensors are dense device memory. Data of any element type is computed in f32 and stored rounded
// to nearest even. Addresses need only the alignment of their elements; on 16-byte boundaries the
// accesses are 16 bytes wide, with the same results. Sums have a fixed order that depends on sizes
// only: no atomics. Nothing is allocated, nothing waits; failures to launch raise kDevice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sdk/base/kernel_constants.h"

struct CUstream_st;

namespace assay::cuda {

using Stream = CUstream_st*;

enum class Element : int { kF32 = 0, kBf16 = 1, kF16 = 2 };

namespace kernels {

// ---- Elementwise (elementwise.cu) -------------------------------------------------------------
// x and y [n]. y may be the same memory as an input of the same element size.

void fill(Stream, float* y, float value, int64_t n);
// y[i] = (i mod period) * step, y [n]
void arange(Stream, int32_t* y, int64_t n, int64_t period, int64_t step);
// y[i] = index[i] + start[i / of_each], -1 where index[i] is negative; start [n / of_each]
void offset_index(Stream, const int32_t* index, const int32_t* start, int32_t* y, int64_t n,
                  int64_t of_each);
// As PackedPlaces (ops.h): length, start [sequences], source [capacity], target [sequences,
// longest]
void packed_places(Stream, const int32_t* length, int32_t* start, int32_t* source, int32_t* target,
                   int64_t sequences, int64_t longest, int64_t capacity);

// y[i] = the last step (pointwise.cu), i < n. Values are numbered: inputs from 0 on, then steps
// from kMostPointwiseInputs on; a negative operand is the step's number.
struct PointwiseInput {
  const void* data;
  Element element;
  bool is_integer;  // i32, and no `element`; has axes
  int axes;         // 0: dense like y; else where element i of y stands, innermost first:
  int64_t size[8], stride[8];
  bool has_packs;  // elements of y from a multiple of 8 to the next lie as close as there
};
struct PointwiseArgs {
  int64_t n;
  int inputs, steps;
  PointwiseInput input[kMostPointwiseInputs];
  struct Step {
    PointwiseFn fn;
    int operand[4];
    float number[4];
    bool is_kept;  // another step than the next one reads it
  } step[kMostPointwiseSteps];
};
void pointwise(Stream, Element y_element, const PointwiseArgs&, void* y);

// y[i] = x[i] of every run. As with RunList below, addresses travel in the kernel's arguments.
struct CastList {
  struct Run {
    const void* x;
    void* y;
    int64_t length;
    int32_t first_block;
    bool whole;  // both lie on 16-byte boundaries
  };
  static constexpr int kMostRuns = 120;
  Run runs[kMostRuns];
  int32_t count = 0, blocks = 0;
  // False if the list is full.
  bool append(const void* x, void* y, int64_t length);
};
void casts(Stream, Element x, Element y, const CastList&);

// y = drawn >= drop_below ? x * scale : 0, where element e draws word e % 4 of
// philox4x32({low(e / 4), high(e / 4), low(*step), high(*step)}, key).
struct DropoutArgs {
  uint32_t key[2];
  uint32_t drop_below;
  float scale;
};
void dropout(Stream, Element, const DropoutArgs&, const int64_t* step, const void* x, void* y,
             int64_t n);

// y[r,c] = act(x[r,c] + bias[c] + residual[r,c]): what a library's product could not take along.
// bias and residual may be null; `kind` is an ActivationKind; x is f32 or of y's type. y may be x
// or residual if the element sizes and the lengths of their rows agree.
struct EpilogueArgs {
  const void* x;
  const void* bias;
  bool bias_is_like_y;   // of the element type of y; else f32
  const void* residual;  // of the element type of y
  void* y;
  int64_t rows, channels;
  int64_t y_pitch;  // elements from one row of y to the next
  int kind;
  void* pre;  // what act is applied to, dense, of the element type of y; null: nobody wants it
};
void epilogue(Stream, Element x, Element y, const EpilogueArgs&);

// ---- Per-channel sums (channel_sums.cu, batch_norm.cu) ----------------------------------------
// x, residual, dy, dx, masked and the y of normalisations are [rows, channels]; every other pointer
// is [channels] unless it says more, the gate one number.

constexpr int kArrivals = 16384;
struct PartialSums {
  double* sums;        // scratch of partial_sums_bytes
  uint32_t* arrivals;  // kArrivals of them, 0 between launches; of one stream
};
size_t partial_sums_bytes(Element, int64_t rows, int64_t channels, int kinds);

// Of x, or of x * times unless that is null.
void sum_rows(Stream, Element, const void* x, const void* times, int64_t rows, int64_t channels,
              PartialSums, float* y);
// dx = dy * f' from saved (see differentiate), in place of dy if wanted; y: its sums.
void activation_grad_sums(Stream, Element, ActivationKind, const void* saved, const void* dy,
                          void* dx, int64_t rows, int64_t channels, PartialSums, float* y);
// y[slab, channels] of x[slabs, rows, channels], likewise, in f64: for many slabs of few elements.
void sum_slabs(Stream, Element, const void* x, const void* times, int64_t slabs, int64_t rows,
               int64_t channels, float* y);

// scale and shift of y = x * scale + shift; [channels]. Gradients recompute from them what the
// activation read, to the bit.
struct Affine {
  float *scale, *shift;
};
struct NormInputs {
  const float *gamma, *beta, *mean, *var;
  float epsilon;
};
void norm_affine(Stream, const NormInputs&, int64_t channels, Affine);

// mean and biased var of x, and the affine map from them; in.mean and in.var are `mean` and `var`.
void norm_statistics(Stream, Element, const void* x, int64_t rows, int64_t channels, PartialSums,
                     const NormInputs& in, float* mean, float* var, Affine);
// The same in two steps, through sums [2, channels] of x, of f16, and of its squares.
void norm_sums(Stream, const void* x, int64_t rows, int64_t channels, PartialSums, float* sums);
void norm_finish(Stream, const float* sums, int64_t rows, int64_t channels, const NormInputs& in,
                 float* mean, float* var, Affine);
// What is added to a normalisation, or nothing; of f16 behind a map of its own, unless that is
// null.
struct NormResidual {
  const void* x = nullptr;
  Affine affine{};
};
// y = act(x * scale + shift + residual), which may be x or the residual's. `mask`, null but behind
// a residual and relu, and of full packs only, takes a byte for each pack of y.
void norm_apply(Stream, Element, const void* x, Affine, const NormResidual&, ActivationKind,
                void* y, uint8_t* mask, int64_t rows, int64_t channels);

struct NormGradArgs {
  const void *x, *dy;
  const void* addend = nullptr;   // dy is its sum with this, if not null; then `masked` is not
  const void* y = nullptr;        // relu mask from y > 0
  const uint8_t* mask = nullptr;  // the same as norm_apply left it; neither: by a forward again
  ActivationKind activation;      // none, relu or swish
  // Takes the masked gradient; may be dy or y. Null: nobody wants it, and y and mask are null.
  void* masked = nullptr;
  Affine affine;
  float *b, *c;  // [channels], scratch: dx = scale * g + b * x + c
};
// dgamma, dbeta, b, c and the affine map of the normalisation of `rows`. x and dy are [summed,
// channels]: all rows, or those alone that a gradient arrives at.
void norm_grad_sums(Stream, Element, const NormGradArgs&, const NormInputs&, int64_t rows,
                    int64_t summed, int64_t channels, PartialSums, float* dgamma, float* dbeta);
// dx, which may be x or dy. Reads `masked` instead of dy and y if there is one.
void norm_grad_apply(Stream, Element, const NormGradArgs&, void* dx, int64_t rows,
                     int64_t channels);

// rstd [norms, channels] = 1 / sqrt(var + epsilon) of one or two normalisations; less [channels] =
// beta - 2^-25, half of the smallest f16.
struct RstdArgs {
  const float* var[2];
  const float* beta;
  float* less;
  int norms;
  float epsilon;
};
void norm_rstd(Stream, const RstdArgs&, int64_t channels, float* rstd);
// dx of f16 where dgamma and dbeta are known: sums [2, channels], which are copied. Of one
// normalisation, or of two that the same g arrives at, if the second has an x. A dx may be x or g.
struct SummedNorm {
  const void* x;
  NormInputs in;
  const float* sums;
  float *dgamma, *dbeta;
  void* dx;
};
void norm_grad_apply_summed(Stream, const void* g, const SummedNorm& first,
                            const SummedNorm& second, int64_t rows, int64_t channels);

// Of images one below the other; no more than kMostImages, which the grid has room for.
struct ImageRows {
  int64_t images, rows, channels;  // rows of an image
};
constexpr int64_t kMostImages = 32768;
size_t image_sums_bytes(Element, const ImageRows&);
// y = swish(x * scale + shift), which may be x; squeezed [images, channels], its means, of x's
// type.
void squeezed_norm_apply(Stream, Element, const void* x, Affine, const ImageRows&, double* sums,
                         void* y, void* squeezed);
// As norm_grad_sums and norm_grad_apply with swish, where dy * gate + dsqueezed / rows arrives;
// both [images, channels] of x's type.
struct Gate {
  const void *gate, *dsqueezed;
};
void squeezed_norm_grad_sums(Stream, Element, const NormGradArgs&, const Gate&, const NormInputs&,
                             const ImageRows&, PartialSums, float* dgamma, float* dbeta);
void squeezed_norm_grad_apply(Stream, Element, const NormGradArgs&, const Gate&, const ImageRows&,
                              void* dx);

// w' and bias' of FoldBatchNorm; w is [filters, size], folded may be w.
void fold_norm(Stream, const float* w, const NormInputs&, float* folded, float* bias,
               int64_t filters, int64_t size);

// Of several normalisations, each with its number of channels.
struct RunningArgs {
  const float* gate;
  double momentum, unbias;
  struct Norm {
    const float *mean, *var;
    float *running_mean, *running_var;
    int32_t channels;
    int32_t first_block;  // set by append
  };
  static constexpr int kMostNorms = 80;
  Norm norms[kMostNorms];
  int32_t count = 0, blocks = 0;
  // False if there is no room.
  bool append(Norm norm);
};
void running_statistics(Stream, const RunningArgs&);

// ---- Weighted fusion (fusion.cu) ----------------------------------------------------------------

// y = act(sum of x w / (sum of w + epsilon)), act none or swish. Images [rows, columns, channels],
// rows those of all images of a batch, or halved ones, in which a pixel stands for two by two.
struct FusionArgs {
  int count;  // of images: 2 or 3
  const float* w;
  const void* x[kMostFusedImages];
  bool is_half[kMostFusedImages];
  void* dx[kMostFusedImages];  // of the gradient, and null else; each may be its x or dy
  int64_t rows, columns, channels;
  float epsilon;
  ActivationKind activation;
};
void weighted_fusion(Stream, Element, const FusionArgs&, void* y);  // y may be an x
size_t weighted_fusion_sums_bytes();                                // of PartialSums::sums
void weighted_fusion_grad(Stream, Element, const FusionArgs&, const void* dy, PartialSums,
                          float* dw);

// ---- Layer normalisation (layer_norm.cu) -------------------------------------------------------
// x, residual, y, z, dy, dz and dx [rows, channels]; mean and rstd [rows]; every other pointer is
// [channels].

struct RowDropout {
  DropoutArgs args;
  const int64_t* step;  // null: nothing is dropped
};
struct LayerNormArgs {
  int64_t rows, channels;
  float epsilon;
  RowDropout dropout;
  const void *x, *residual;  // null: none
  const float *gamma, *beta;
  void *y, *z;  // z is null if it is x, and may be x or residual
  float *mean, *rstd;
};
void layer_norm(Stream, Element, const LayerNormArgs&);

struct LayerNormGradArgs {
  int64_t rows, channels;
  RowDropout dropout;
  const void *z, *dy;
  const void* addend;  // the gradient is the sum of dy and this, unless it is null
  const float *gamma, *mean, *rstd;
  void *dz, *dx;  // dz may be z, dy or the addend; dx is null without dropout
  float *dgamma, *dbeta;
  float* sums;  // of dx, or of dz without one; null: nobody wants them
};
size_t layer_norm_sums_bytes(int64_t rows, int64_t channels);  // of `partial`
void layer_norm_grad(Stream, Element, const LayerNormGradArgs&, float* partial);

// ---- Attention (attention.cu) ------------------------------------------------------------------
// qkv and dqkv [tokens, 3, heads, size], context and dcontext [tokens, heads, size], logsumexp
// [tokens, heads].

struct AttentionShape {
  int64_t tokens, sequences, heads, size, longest;
  float scale;
  // Key j of a query draws word (token * heads + head) * L + j, L = longest rounded up to a
  // multiple of 4.
  RowDropout dropout;
};
// bounds[sequences + 1][2] = beginning and end of the tokens that a sequence owns, and of none.
void attention_bounds(Stream, const AttentionShape&, const int32_t* start, const int32_t* length,
                      int64_t* bounds);

// The same as cuDNN wants it.
struct AttentionRows {
  int64_t* bounds;
  // In elements, where the rows of a sequence begin, and where the tensor ends; [sequences + 1].
  int64_t *qkv, *context, *logsumexp;
  int32_t* length;   // [sequences]
  int64_t* dropout;  // seed and offset, of this step's masks; null: nothing is dropped
};
void attention_rows(Stream, const AttentionShape&, const int32_t* start, const int32_t* length,
                    const AttentionRows&);
// Zeros in rows that no sequence owns: x [tokens, width] of 16-bit elements, logsumexp unless null.
void clear_unowned(Stream, const AttentionShape&, const int64_t* bounds, void* x, int64_t width,
                   float* logsumexp);

constexpr int kMostHeadSize = 128;  // of what follows
void attention(Stream, Element, const AttentionShape&, const int64_t* bounds, const void* qkv,
               void* context, float* logsumexp);
// `delta` [heads, tokens] is scratch.
void attention_grad(Stream, Element, const AttentionShape&, const int64_t* bounds, const void* qkv,
                    const void* context, const void* dcontext, const float* logsumexp, float* delta,
                    void* dqkv);

// ---- Rows of tables (gather_rows.cu)
// -------------------------------------------------------------

struct GatherArgs {
  int64_t places, size;  // y is [places, size]
  int tables;
  const void* table[kMostTables];  // [rows, size]
  int64_t rows[kMostTables];
  const int32_t* index[kMostTables];  // [places]
};
// Element types are of the tables and of y.
void gather_rows(Stream, Element x, Element y_element, const GatherArgs&, void* y);

struct CollectArgs {
  int64_t rows, places, size;  // y and addend [rows, size], dy [places, size], index [places]
  const int32_t* index;
  const void *dy, *addend;  // null: nothing is added to
};
struct Places {
  int32_t *row, *place;  // [places]
};
struct CollectScratch {
  Places places[2];
  int32_t* counts;  // [digit_counts(places)]
  int32_t* bounds;  // [rows, 2]
  float* partial;   // [chunk_sums(places, size)]
};
int64_t digit_counts(int64_t places);
int64_t chunk_sums(int64_t places, int64_t size);
// y = addend + what the places that ask for a row have in dy, ascending, where there are many of
// them, or they lie across a multiple of 64 in the list of all, in chunks; y may be the addend.
void collect_rows(Stream, Element x, Element y_element, const CollectArgs&, const CollectScratch&,
                  void* y);

// ---- Pooling (pool.cu, batch_norm_max_pool.cu) -------------------------------------------------

struct PoolShape {
  int64_t n, h, w, c;  // x
  int64_t p, q;        // y is [n, p, q, c]
  int64_t window[2], stride[2], pad[2];
};
// x, dx [n, h, w, c], y, dy [n, p, q, c].
void max_pool(Stream, Element, const PoolShape&, const void* x, void* y);
// What is joined to the gradient of a maximum; see MaxPoolGrad.
struct JoinedGradient {
  const void* addend;  // null: none. [size, c], of the images, rows and columns from `begin` on
  int64_t begin[3], size[3];
  int64_t pitch;  // elements from one pixel of the addend to the next
  int kind;       // an ActivationKind
};
// Whether the windows tile the image in squares of 2x2, which needs no scratch.
bool tiles_2x2(const PoolShape&);
// `which` is scratch: one uint16 per element of dy, unless tiles_2x2. dx may be x.
void max_pool_grad(Stream, Element, const PoolShape&, const void* x, const void* dy,
                   const JoinedGradient&, uint16_t* which, void* dx);
// The maxima y of relu(x * scale + shift), peaks of x where these stand, and which places of their
// windows that is: y, peaks, winners [n, p, q, c].
void norm_max_pool(Stream, Element, const PoolShape&, const void* x, Affine, void* y, void* peaks,
                   uint8_t* winners);
// As norm_grad_apply with relu, where the maxima have dy [n, p, q, c]. dx may be x.
void norm_max_pool_grad(Stream, Element, const PoolShape&, const NormGradArgs&,
                        const uint8_t* winners, void* dx);
void avg_pool(Stream, Element, const PoolShape&, const void* x, void* y);
void avg_pool_grad(Stream, Element, const PoolShape&, const void* dy, void* dx);

// ---- Depthwise convolutions (depthwise.cu) ------------------------------------------------------
// Windows of 3x3 or 5x5, strides of 1 or 2, the same on both axes; pad: at most the window less 1.
// x, dx [n, h, w, c], fewer than 2^31 pixels, y, dy [n, p, q, c], w, dw [c, window, window]; c a
// multiple of 8, all on 16-byte boundaries.

void depthwise(Stream, Element, const PoolShape&, const void* x, const void* w, void* y);
void depthwise_grad(Stream, Element, const PoolShape&, const void* dy, const void* w, void* dx);
// `partial` is scratch of depthwise_grad_weight_bytes.
size_t depthwise_grad_weight_bytes(Element, const PoolShape&);
void depthwise_grad_weight(Stream, Element, const PoolShape&, const void* x, const void* dy,
                           double* partial, void* dw);

// ---- Tokens drawn, sampled and replaced (token_replacement.cu) --------------------------------
// All ids i32. ids, masked, corrupted and replaced [sequences, tokens], length [sequences],
// positions, labels and samples [sequences, slots], step [].

struct TokenMasking {
  int64_t sequences, tokens, slots;
  double fraction;
  float shown;
  int32_t cls, sep, mask;
  uint32_t key[2];
};
void mask_tokens(Stream, const TokenMasking&, const int32_t* ids, const int32_t* length,
                 const int64_t* step, int32_t* masked, int32_t* positions, int32_t* labels);
struct DrawKey {
  uint32_t key[2];
};
// logits [rows, classes], y [rows]
void sample_tokens(Stream, Element, const DrawKey&, const void* logits, const int64_t* step,
                   int32_t* y, int64_t rows, int64_t classes);
struct TokenSlots {
  int64_t sequences, tokens, slots;
};
void replace_tokens(Stream, const TokenSlots&, const int32_t* ids, const int32_t* length,
                    const int32_t* positions, const int32_t* labels, const int32_t* samples,
                    int32_t* corrupted, int32_t* replaced);

// ---- Copies of views (copy.cu) ----------------------------------------------------------------

// `runs` runs of bytes that lie together in both tensors, placed by the axes outside of them,
// innermost first; steps in bytes.
struct StridedCopy {
  int64_t run_bytes, runs;
  int axes;
  int64_t size[8], source_step[8], target_step[8];
};
// From and to the addresses of the first elements; without a source, zeros.
void copy_strided(Stream, const StridedCopy&, const void* source, void* target);

// So many pixels of `bytes` (at most 14, even) become pixels of kFilledPixel bytes: zeros follow.
inline constexpr int64_t kFilledPixel = 16;
void fill_pixels(Stream, const void* source, int64_t bytes, int64_t pixels, void* target);

// ---- Losses over pixels (soft_target_loss.cu)
// ------------------------------------------------------- x and target are [images, pixels,
// classes]; at most 65535 images.

struct PixelShape {
  int64_t images, pixels, classes;
};
size_t pixel_sums_bytes(const PixelShape&);  // of `partial`
// *loss = factor * sum over all pixels
void soft_target_cross_entropy(Stream, Element, const PixelShape&, const void* x,
                               const float* target, double factor, double* partial, float* loss);
void soft_target_cross_entropy_grad(Stream, Element, const PixelShape&, const void* x,
                                    const float* target, float factor, const float* dloss,
                                    void* dx);
size_t overlap_sums_bytes(const PixelShape&);  // of `partial`
// sums [images, 3, classes]; *loss = factor * sum over the images of the mean of 1 - D
void soft_dice(Stream, Element, const PixelShape&, const void* x, const float* target,
               double epsilon, double factor, double* partial, float* loss, float* sums);
// Of factor' * sum of D, factor' = *dloss * factor. `slopes` is scratch, [images, 2, classes].
void soft_dice_grad(Stream, Element, const PixelShape&, const void* x, const float* target,
                    const float* sums, double epsilon, double factor, const float* dloss,
                    float* slopes, void* dx);

// ---- From a batch as given to what a network reads (image.cu) ----------------------------------

struct PlacedImages {
  int64_t rows, height, width;
  int channels, target_channels;  // 1 to 4
  const uint8_t* pixels;          // [rows, height, width, channels]
  const int32_t* placements;      // [rows, 4]: dy, dx, mirror_y, mirror_x
  float scale, mean[4], stddev[4];
};
// y [rows, height, width, target_channels]
void place_images(Stream, const PlacedImages&, float* y);
// x, y [rows, elems], w [rows]
void mix_rows(Stream, const float* x, const float* w, int64_t rows, int64_t elems, float* y);
// targets [rows, classes]
void mix_targets(Stream, const int32_t* labels, const float* weights, float smoothing, int64_t rows,
                 int64_t classes, float* targets);
// *count = rows of x [rows, elems] that are not zero everywhere; `partial` [rows].
void count_rows(Stream, const float* x, int64_t rows, int64_t elems, double* partial, float* count);
// *count = elements of x [n] that are not negative; `partial` has a place for each of n at most.
void count_labels(Stream, const int32_t* x, int64_t n, double* partial, float* count);

// ---- Softmax (softmax.cu) ---------------------------------------------------------------------

// x, y and dx are [rows, classes], labels [rows]; a label of -1 is padding.
void softmax(Stream, Element, const void* x, bool log, float* y, int64_t rows, int64_t classes);
// value and column [rows, k], k <= classes.
void top_k(Stream, Element, const void* x, int64_t k, float* value, int32_t* column, int64_t rows,
           int64_t classes);
// *y = factor * sum of partial[0, n), in a fixed order.
void sum_partials(Stream, const double* partial, int64_t n, double factor, float* y);
size_t row_sums_bytes(int64_t rows, int64_t classes);  // of `partial` below
// Of a cross-entropy x and dx have rows of `columns`, of which the first are classes.
// *loss = factor * sum of the rows' losses; logsumexp [rows], 0 in padding, unless null.
void cross_entropy(Stream, Element, const void* x, const int32_t* labels, float smoothing,
                   double factor, int64_t rows, int64_t classes, int64_t columns, double* partial,
                   float* logsumexp, float* loss);
// *count = labels that are not negative, and *loss /= *count + epsilon; `partial` has a place for
// each of n at most.
void average_counted(Stream, const int32_t* labels, int64_t n, float epsilon, double* partial,
                     float* count, float* loss);
// What a loss's gradient is multiplied by: *dloss * constant, over *count + epsilon if there is
// one.
struct LossFactor {
  float constant;
  const float *dloss, *count;
  float epsilon;
};
// dx = factor * (softmax(x) - q), 0 from `classes` on; dx may be x.
void cross_entropy_grad(Stream, Element, const void* x, const int32_t* labels, float smoothing,
                        const LossFactor& factor, void* dx, int64_t rows, int64_t classes,
                        int64_t columns);
void top_k_correct(Stream, Element, const void* x, const int32_t* labels, int64_t k, int64_t rows,
                   int64_t classes, double* partial, float* count);

// ---- Sigmoid (sigmoid.cu)
// ------------------------------------------------------------------------

// x and dx [n], targets 0, 1 or -1, which adds nothing; `partial` has a place for each of n at
// most. *loss = sum of -log sigmoid(x) or -log sigmoid(-x).
void sigmoid_cross_entropy(Stream, Element, const void* x, const int32_t* target, int64_t n,
                           double* partial, float* loss);
// dx = factor * (sigmoid(x) - target); dx may be x.
void sigmoid_cross_entropy_grad(Stream, Element, const void* x, const int32_t* target,
                                const LossFactor& factor, void* dx, int64_t n);

// ---- Boxes (detection_loss.cu, detections.cu) -------------------------------------------------
// See ops.h. Tensors of the levels follow one another; boxes [images, places, 4], counts [images],
// anchors [anchors, 4], match [images, anchors].

constexpr int kMostLevels = 8;
struct LevelTensors {
  int n;
  int64_t images;
  const void* data[kMostLevels];
  int64_t first[kMostLevels + 1];  // numbers of an image before each level, and of all of them
};

struct AnchorCells {
  int64_t rows, columns;  // of one level
  double stride, height[9], width[9];
};
void anchors(Stream, const AnchorCells&, float* y);

struct BoxMatching {
  int64_t images, places, anchors;
  float threshold;
};
// `best` is scratch [images, places].
void match_anchors(Stream, const BoxMatching&, const float* boxes, const int32_t* counts,
                   const float* anchor, int32_t* best, int32_t* match, float* positives);

struct DetectionTruth {
  int64_t places, anchors, classes;
  const float* boxes;
  const int32_t* labels;  // [images, places]
  const float* anchor;
  const int32_t* match;
  const float* positives;
};
struct DetectionLossArgs {
  float alpha, gamma, delta, box_weight;
};
size_t detection_loss_bytes(int64_t images, int64_t anchors);  // of `partial`
void detection_loss(Stream, Element, const LevelTensors& logits, const LevelTensors& codes,
                    const DetectionTruth&, const DetectionLossArgs&, double* partial, float* loss,
                    float* class_loss, float* box_loss);
// dlogits and dcodes [n levels]; each may be its input.
struct LevelGradients {
  void *logits[kMostLevels], *codes[kMostLevels];
};
void detection_loss_grad(Stream, Element, const LevelTensors& logits, const LevelTensors& codes,
                         const DetectionTruth&, const DetectionLossArgs&, const float* dloss,
                         const LevelGradients&);

size_t top_candidates_bytes(int64_t images, int64_t numbers, int64_t count);  // of `scratch`
void top_candidates(Stream, Element, const LevelTensors&, int64_t count, void* scratch,
                    float* value, int32_t* pair);
// pair [images, candidates], y [images, candidates, 4]
void decode_boxes(Stream, Element, const LevelTensors& codes, const float* anchor,
                  const int32_t* pair, int64_t candidates, int64_t classes, float* y);

struct Suppression {
  int64_t images, candidates, classes, count;
};
// boxes [images, candidates, 4], score and pair [images, candidates].
struct Candidates {
  const float *boxes, *score;
  const int32_t* pair;
};
// [images, count, 4], [images, count], [images, count]
struct Detections {
  float *box, *score;
  int32_t* label;
};
size_t soft_suppression_bytes(const Suppression&);  // of `scratch`
void soft_suppression(Stream, const Suppression&, float sigma, float least, const Candidates&,
                      void* scratch, const Detections&);
// `free` is scratch [images, candidates].
void hard_suppression(Stream, const Suppression&, float most, float least, const float (&limit)[2],
                      const Candidates&, uint8_t* free, const Detections&);

// ---- Updates (update.cu) ----------------------------------------------------------------------
// All f32; `skip` [] says that nothing may change. Many tensors go into one launch: their addresses
// travel in the kernel's arguments, which a captured graph keeps.

// A run of elements at the same place of every role (value, gradient, moments, ...).
struct Run {
  float* at[4];
  int64_t length;
  int32_t variable;
  int32_t first_block;  // set by RunList
};
constexpr int kRunElems = 4096;  // elements of one block
constexpr int kMostRuns = 64;    // in one launch
struct RunList {
  Run runs[kMostRuns];
  int32_t count = 0;
  int32_t blocks = 0;       // of all runs
  int32_t first_piece = 0;  // number of the first block among those of all lists
  // False if the list is full.
  bool append(Run run);
};

void add_to(Stream, float* y, const float* x, int64_t n);  // y += x

// partial[first_piece + block] = sum of squares of at[0] over the block.
void sum_squares(Stream, const RunList&, double* partial);
// at[1] += weight_decay * loss_scale * accumulate * at[0].
struct DecayArgs {
  const float* loss_scale;
  double weight_decay, accumulate;
};
void decay(Stream, const RunList&, const DecayArgs&);
// Scales each run's at[0], one whole variable, down to the norm clip_norm * loss_scale * accumulate
// by the `partial` sums of squares; one that is not finite stays. `factors` [variables] is scratch.
struct ClipArgs {
  const double* partial;
  double* factors;
  const float* loss_scale;
  double clip_norm, accumulate;
};
void clip(Stream, const RunList&, const ClipArgs&);
struct GradientNormArgs {
  const double* partial;
  int64_t pieces;
  const float* loss_scale;
  double clip_norm, accumulate;
  float *norm, *multiplier, *skip;
};
void gradient_norm(Stream, const GradientNormArgs&);

void count_step(Stream, int64_t* step, const float* skip);
struct LossScaleArgs {
  float growth, backoff, minimum, maximum;
  int64_t interval;
  float* scale;
  int32_t* good;
  const float* skip;
};
void loss_scale_update(Stream, const LossScaleArgs&);

// The scalars every optimizer reads.
struct Control {
  const float *rate, *multiplier, *skip;
  const int64_t* step;  // null for SGD
};
struct SgdConstants {
  float momentum, weight_decay, lr_scale;
  bool nesterov, sutskever, has_moment;
};
void sgd(Stream, const RunList&, const Control&, const SgdConstants&);

// beta and its complement are the decimal numbers that were meant (see as_written).
struct AdamConstants {
  double beta1, beta2;
  float one_minus_beta1, one_minus_beta2;
  float epsilon, weight_decay, lr_scale;
  bool hat;  // the epsilon-hat form
  bool corrected, decoupled;
};
void adam(Stream, const RunList&, const Control&, const AdamConstants&);

// LAMB in three launches; `squares` [pieces][2] and `rates` [variables] are f64 scratch. In the
// middle one, list.first_piece counts as in sum_squares, and each run is one whole variable.
void lamb_moments(Stream, const RunList&, const Control&, const AdamConstants&, double* squares);
void lamb_rates(Stream, const RunList&, const Control&, const AdamConstants&, bool use_trust_ratio,
                const double* squares, double* rates);
void lamb_apply(Stream, const RunList&, const Control&, const AdamConstants&, const double* rates);

// at[0] = d * at[0] + (1 - d) * at[1]; d = decay, or min(decay, (1 + t) / (10 + t)) if there is a
// step t.
void ema(Stream, const RunList&, const float* skip, const int64_t* step, double decay);

// ---- Between devices (between_devices.cu) -----------------------------------------------------
// What stands around the exchanges of a sum over devices.

// y[i] = copies[0, i] + copies[1, i] + ..., in this order; copies [ranks, n], y [n]
void add_in_order(Stream, Element, const void* copies, int ranks, int64_t n, void* y);
// x, y [n]; y of f16 or x of f16
void to_f16(Stream, const float* x, void* y, int64_t n);
void from_f16(Stream, const void* x, float* y, int64_t n);
// If words[0] is not 0: words[1] = 1, and *data is no number any more. The words are in pinned
// memory of the host; data may be null.
void spoil_if_ended(Stream, int32_t* words, float* data);

}  // namespace kernels
}  // namespace assay::cuda
