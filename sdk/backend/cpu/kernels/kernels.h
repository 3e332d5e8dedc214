// The inner loops of the CPU backend's own ops, compiled once per instruction set.
//
// Every kernel is a serial function over a range; partitioning and threads are the caller's
// (sdk/backend/cpu/ops/). The files of this folder are compiled several times with different -m
// flags, each time into the namespace ASSAY_ISA, and reached only through this table, which is
// chosen once at run time. So the library starts on any x86-64 (or another architecture, then with
// the baseline only) and still uses AVX2 or AVX-512 where present.
//
// Rule for all files of this folder but select.cpp: include nothing but <stdint.h>, <immintrin.h>
// (whose functions always become part of their callers), this folder's headers and
// sdk/base/kernel_constants.h. An inline function or template of the standard library,
// compiled here for AVX-512 and merged by the linker with its twin from an ordinary file, would
// bring AVX-512 code into functions that must run everywhere.
//
// Tensors are dense; `[2]` is indexed by Element. Data of either type is computed in f32 and stored
// rounded to nearest even. No kernel reads or writes outside its range; alignment is not required.
#pragma once

#include <stdint.h>

#include "sdk/base/kernel_constants.h"

namespace assay::cpu {

enum Element : int { kElementF32 = 0, kElementBf16 = 1 };
constexpr int64_t size_of(Element element) { return element == kElementF32 ? 4 : 2; }

// ---- Elementwise ------------------------------------------------------------------------------
// x and y [n]. y may be the same memory as an input, element for element, unless the sizes of the
// types differ.

struct ElementwiseKernels {
  void (*cast[2][2])(const void* x, void* y, int64_t n);  // [type of x][type of y]
};

// An operand of a pointwise step, or its result: n elements.
struct PointwiseRange {
  void* data;
  Element element;
};
struct PointwiseKernels {
  // y = fn of as many operands as fn takes. Those of kMulAdd, and b and c of kSelect, are f32; a
  // and d of kSelect are of the type of y. y may be any operand of its type.
  void (*step)(PointwiseFn fn, const PointwiseRange* operands, PointwiseRange y, int64_t n);
};

// y = drawn >= drop_below ? x * scale : 0, where element e draws word e of the Philox sequence of
// (key, step): philox4x32({low(e / 4), high(e / 4), low(step), high(step)}, key)[e % 4].
struct DropoutRange {
  uint32_t key[2];
  uint64_t step;
  uint64_t first;  // index of x[0] in the whole tensor, a multiple of 4
  uint32_t drop_below;
  float scale;
};
struct DropoutKernels {
  // x, y [n]; y may be x.
  void (*apply[2])(const DropoutRange& range, const void* x, void* y, int64_t n);
};

// ---- Per-channel sums and affine maps ---------------------------------------------------------
// Data is n elements, of which element i belongs to lane i % lanes; scale, shift, mean, b, c and
// sums are [lanes]. The caller folds rows together so that lanes is a multiple of the vector width
// for any number of channels, and expands its tables to `lanes`.

// Sums of g and of g * (x - mean), and the input gradient from them; see ops/batch_norm.cpp.
// g = dy times the derivative of the activation: none, relu or swish.
struct NormGradArgs {
  const void *x, *dy;
  const void* y;  // relu mask from y > 0; null: from the recomputed forward, as of swish
  ActivationKind activation;
  const float *scale, *shift, *mean;  // [lanes]
  // [lanes]; with swish dy * gate + gate_shift is what arrives. Null: dy is.
  const float *gate = nullptr, *gate_shift = nullptr;
};

struct ChannelKernels {
  // sum[lane] and sum_squares[lane] of x, f64.
  void (*moments[2])(const void* x, int64_t n, int64_t lanes, double* sum, double* sum_squares);
  // sum[lane] of x, f64; of x * times unless that is null.
  void (*sums[2])(const void* x, const void* times, int64_t n, int64_t lanes, double* sum);
  // y = act(x * scale + shift + residual); residual may be null; y may be x or residual.
  void (*affine[2])(const void* x, const float* scale, const float* shift, const void* residual,
                    ActivationKind activation, void* y, int64_t n, int64_t lanes);
  // g (also written to `masked` unless null, which may be dy or y itself);
  // sum_g[lane] = sum g, sum_gx[lane] = sum g * (x - mean).
  void (*grad_sums[2])(const NormGradArgs& args, void* masked, int64_t n, int64_t lanes,
                       double* sum_g, double* sum_gx);
  // dx = scale*g + b*x + c per lane; dx may be x or dy.
  void (*grad_apply[2])(const NormGradArgs& args, const float* b, const float* c, void* dx,
                        int64_t n, int64_t lanes);
};

// ---- Weighted fusion ----------------------------------------------------------------------------
// Images [rows, width, channels] of one size, rows those of all images of a batch, or halved ones
// [rows / 2, width / 2, channels], in which a pixel stands for two by two. Rows [begin, end) of the
// full size are worked on, in pairs where one is halved. y = act(sum of share * x), act none or
// swish.

struct FusionArgs {
  int count;  // of images
  const void* x[kMostFusedImages];
  float share[kMostFusedImages];
  bool is_half[kMostFusedImages];
  int64_t width, channels;
  ActivationKind activation;
};
struct FusionKernels {
  void (*forward[2])(const FusionArgs& args, void* y, int64_t begin, int64_t end);  // y may be an x
  // g = dy times the derivative of act; dx = share * g, of a halved image their sum over two by
  // two; sums[count] = sum of x * g, f64. Each dx may be its x or dy.
  void (*backward[2])(const FusionArgs& args, const void* dy, void* const* dx, int64_t begin,
                      int64_t end, double* sums);
};

// ---- Layer normalisation ----------------------------------------------------------------------
// x, residual, y, z, dy, dz and dx [rows, channels]; mean and rstd [rows]; every other pointer is
// [channels]. Rows [first, first + rows) are worked on, each alone.

struct LayerNormArgs {
  int64_t channels;
  float epsilon;
  const DropoutRange* dropout;  // of x, its `first` not looked at; null: x is taken as it is
  const void *x, *residual;     // null: none
  const float *gamma, *beta;
  void *y, *z;  // z is null if it is x, and may be x or residual
  float *mean, *rstd;
};
struct LayerNormGradArgs {
  int64_t channels;
  const DropoutRange* dropout;
  const void *z, *dy;
  const float *gamma, *mean, *rstd;
  void *dz, *dx;  // dz may be z or dy; dx is null without dropout
};
struct LayerNormKernels {
  void (*forward[2])(const LayerNormArgs& args, int64_t first, int64_t rows);
  // dgamma and dbeta take the sums over these rows.
  void (*backward[2])(const LayerNormGradArgs& args, int64_t first, int64_t rows, float* dgamma,
                      float* dbeta);
};

// ---- Attention --------------------------------------------------------------------------------
// qkv and dqkv [tokens, 3, heads, size], context and dcontext [tokens, heads, size], logsumexp
// [tokens, heads]. One head of the sequence of tokens [begin, end), at least one of them and
// `longest` at most, is worked on, alone; `work` has as many floats as forward_work or
// backward_work say.

struct AttentionShape {
  int64_t tokens, heads, size, longest;
  float scale;
  // Its `first` is not looked at; null: nothing is dropped. Key j of a query draws word
  // (token * heads + head) * L + j, L = longest rounded up to a multiple of 4.
  const DropoutRange* dropout;
};
struct AttentionArgs {
  AttentionShape shape;
  const void* qkv;
  void* context;
  float* logsumexp;
};
struct AttentionGradArgs {
  AttentionShape shape;
  const void *qkv, *context, *dcontext;
  const float* logsumexp;
  void* dqkv;  // may be qkv
};
struct AttentionKernels {
  int64_t (*forward_work)(int64_t size, int64_t longest);
  int64_t (*backward_work)(int64_t size, int64_t longest);
  void (*forward[2])(const AttentionArgs& args, int64_t head, int64_t begin, int64_t end,
                     float* work);
  void (*backward[2])(const AttentionGradArgs& args, int64_t head, int64_t begin, int64_t end,
                      float* work);
};

// ---- Rows of tables -----------------------------------------------------------------------------

struct GatherKernels {
  // y [size] = the sum of n rows, in their order; a row that is null adds nothing.
  void (*sum[2][2])(const void* const* rows, int64_t n, void* y, int64_t size);  // [rows][y]
  // y [size] = addend, of its type, or 0 if that is null, + rows[0] to rows[n - 1] of x, in their
  // order; y may be the addend.
  void (*collect[2][2])(const void* x, int64_t pitch, const int32_t* rows, int64_t n,
                        const void* addend, void* y, int64_t size);  // [x][y]
};

// ---- Pooling ----------------------------------------------------------------------------------

struct PoolShape {
  int64_t n, h, w, c;  // x
  int64_t p, q;        // y is [n, p, q, c]
  int64_t window[2], stride[2], pad[2];
};

// x and dx are [n, h, w, c], y, dy and `which` [n, p, q, c]. Output rows [begin, end) are of the
// n*p rows of y, input rows of the n*h rows of x or dx.
struct PoolKernels {
  void (*max[2])(const PoolShape& s, const void* x, void* y, int64_t begin, int64_t end);
  // For 2x2 windows, stride 2, no padding: dx of the inputs of output rows [begin, end), the
  // uncovered edge included. dx may be x.
  void (*max_grad_2x2[2])(const PoolShape& s, const void* x, const void* dy, void* dx,
                          int64_t begin, int64_t end);
  // which[n,p,q,c] = row-major position in its window of the first maximum.
  void (*max_position[2])(const PoolShape& s, const void* x, uint16_t* which, int64_t begin,
                          int64_t end);
  void (*max_grad[2])(const PoolShape& s, const uint16_t* which, const void* dy, void* dx,
                      int64_t begin, int64_t end);
  void (*avg[2])(const PoolShape& s, const void* x, void* y, int64_t begin, int64_t end);
  void (*avg_grad[2])(const PoolShape& s, const void* dy, void* dx, int64_t begin, int64_t end);
};

// ---- Winograd's convolution -------------------------------------------------------------------
// Windows of taps x taps, 3x3 or 5x5, stride 1, in tiles of 4x4 or 2x2 results; see winograd.cpp.
// Those of 5x5 are of f32, and have no gradient of filters. Channels are multiples of `lanes`.
// "Planes" are the 36 points, each a matrix of tiles or filters by channels.

// The image whose tiles are read or written; tile (i, j) starts at pixel outputs * (i, j) - pad.
struct WinogradImage {
  int64_t h, w, c;
  int64_t tile_rows, tile_columns;  // of each image
  int64_t pad[2];
};
// Channels lie side by side, or panels of so many of them apart: element (point, row, channel) is
// data[point * plane + row * row_pitch + channel / panel * panel_pitch + channel % panel].
struct WinogradPlanes {
  float* data;
  int64_t plane, row_pitch, panel_pitch;
};
struct WinogradEpilogue {
  const float* bias;     // [c], or null
  const void* residual;  // like the result, or null; may be it
  bool relu;
};

struct WinogradKernels {
  int64_t taps, outputs;  // of a window and a tile, along each axis
  int64_t lanes, panel;
  // Tiles [begin, end) of an image, row 0 of the planes being tile `begin`: 6x6 pixels each, ...
  void (*image[2])(const WinogradImage& s, const void* x, const WinogradPlanes& planes,
                   int64_t begin, int64_t end);
  // ... and a tile's own pixels, of the gradient of the result.
  void (*result_gradient[2])(const WinogradImage& s, const void* dy, const WinogradPlanes& planes,
                             int64_t begin, int64_t end);
  // y = act(planes back at their pixels + bias + residual).
  void (*result[2])(const WinogradImage& s, const WinogradPlanes& planes,
                    const WinogradEpilogue& epilogue, void* y, int64_t begin, int64_t end);
  // w [k][taps][taps][c] to u[point][panel of k][c][panel], panels [begin, end) of them.
  void (*filters[2])(const void* w, int64_t k, int64_t c, float* u, int64_t begin, int64_t end);
  // The same for the gradient of the image: u[point][panel of c][k][panel].
  void (*filters_turned[2])(const void* w, int64_t k, int64_t c, float* u, int64_t begin,
                            int64_t end);
  // Planes of rows k and columns c to dw [k][taps][taps][c], filters [begin, end).
  void (*filter_gradient[2])(const WinogradPlanes& planes, void* dw, int64_t c, int64_t begin,
                             int64_t end);
  // m[rows][panel] = v[rows][steps] u[steps][panel].
  void (*product)(const float* v, int64_t ldv, int64_t rows, const float* u, int64_t steps,
                  float* m, int64_t ldm);
  // out[rows][panel] = (itself if add) + sum over steps of d[step][row] * v[step][panel].
  void (*outer_product)(const float* d, int64_t ldd, int64_t rows, const float* v, int64_t ldv,
                        int64_t steps, bool add, float* out, int64_t ldo);
};

// ---- Depthwise convolution --------------------------------------------------------------------
// Windows of 3x3 or 5x5, one filter for each channel.

struct DepthwiseShape {
  int64_t h, w, c;  // of an image x
  int64_t p, q;     // of an image of results
  int64_t window;   // 3 or 5
  int64_t stride[2], pad[2];
};
struct DepthwiseKernels {
  int64_t lanes;                                             // channels of a vector
  int64_t (*weight_gradient_work)(const DepthwiseShape& s);  // floats
  // sums[window][window][lanes] over the rows [begin, end) of dy, for the vector of channels that
  // begins at `channel`. x and dy are of one image.
  void (*weight_gradient[2])(const DepthwiseShape& s, const void* x, const void* dy,
                             int64_t channel, int64_t begin, int64_t end, float* work, float* sums);
};

// ---- Softmax ----------------------------------------------------------------------------------

struct SoftmaxKernels {
  // x, y and dx [rows, classes], labels [rows]; -1 is padding, which adds nothing.
  void (*softmax[2])(const void* x, float* y, int64_t rows, int64_t classes);
  void (*log_softmax[2])(const void* x, float* y, int64_t rows, int64_t classes);
  // Of a cross-entropy x and dx have rows of `columns`, of which the first are classes.
  // Sum over the rows of their losses, f64; logsumexp [rows], 0 in padding, unless null.
  double (*cross_entropy[2])(const void* x, const int32_t* labels, float smoothing, int64_t rows,
                             int64_t classes, int64_t columns, float* logsumexp);
  // dx = factor * (softmax(x) - q), 0 from `classes` on; dx may be x.
  void (*cross_entropy_grad[2])(const void* x, const int32_t* labels, float smoothing, float factor,
                                void* dx, int64_t rows, int64_t classes, int64_t columns);
  // value and column [rows, k], k <= classes.
  void (*top_k[2])(const void* x, int64_t k, float* value, int32_t* column, int64_t rows,
                   int64_t classes);
  int64_t (*top_k_correct[2])(const void* x, const int32_t* labels, int64_t k, int64_t rows,
                              int64_t classes);
};

// ---- Sigmoid ----------------------------------------------------------------------------------

struct SigmoidKernels {
  // x and dx [n], targets 0, 1 or -1, which adds nothing. Sum of the losses, f64.
  double (*cross_entropy[2])(const void* x, const int32_t* target, int64_t n);
  // dx = factor * (sigmoid(x) - target); dx may be x.
  void (*cross_entropy_grad[2])(const void* x, const int32_t* target, float factor, void* dx,
                                int64_t n);
  // The focal loss (1 - p)^gamma -log p, p = sigmoid(x) if `hit`, else sigmoid(-x). Sum over x [n],
  // f64.
  double (*focal[2])(const void* x, bool hit, float gamma, int64_t n);
  // dx = factor * its derivative; dx may be x.
  void (*focal_grad[2])(const void* x, bool hit, float gamma, float factor, void* dx, int64_t n);
};

// ---- Losses over pixels -------------------------------------------------------------------------
// x and dx [pixels, classes], targets f32 of the same shape; p = softmax of a row.

struct SoftTargetLossKernels {
  // Sum over the pixels of -sum_c t log p.
  double (*cross_entropy[2])(const void* x, const float* target, int64_t pixels, int64_t classes);
  // dx = factor * (p * sum_c t - t); dx may be x, here and below.
  void (*cross_entropy_grad[2])(const void* x, const float* target, float factor, void* dx,
                                int64_t pixels, int64_t classes);
  // sums[3, classes] = sum of p t, of p^2, of t^2.
  void (*overlap[2])(const void* x, const float* target, int64_t pixels, int64_t classes,
                     double* sums);
  // dx = the gradient in x when that in p is by_target[c] * t + by_p[c] * p.
  void (*overlap_grad[2])(const void* x, const float* target, const float* by_target,
                          const float* by_p, void* dx, int64_t pixels, int64_t classes);
};

// ---- Anchors of a detector --------------------------------------------------------------------

// The anchor that a box overlaps most, counted from the first that was looked at; the first of
// several.
struct BestAnchor {
  float overlap;
  int32_t anchor;
};
struct AnchorKernels {
  // box [boxes, 4], anchor [anchors, 4]: top, left, bottom, right. match [anchors]: the box that an
  // anchor overlaps most, the first of several, -1 below `threshold` or if it meets none.
  // best [boxes].
  void (*match)(const float* box, int64_t boxes, const float* anchor, int64_t anchors,
                float threshold, int32_t* match, BestAnchor* best);
};

// ---- Updates (all f32) ------------------------------------------------------------------------

struct SgdStep {
  float momentum, learning_rate, multiplier, weight_decay;
  bool nesterov, sutskever;
};
struct AdamStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float multiplier;    // of the gradient
  float weight_decay;  // added to the gradient
  float keep;          // p is multiplied by it first: 1 - lr * decoupled weight decay
  float rate;          // learning rate, bias corrections of numerator folded in
  float inverse_root;  // factor of sqrt(v)
  float epsilon;
};
struct LambStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float multiplier, weight_decay;
  float inverse_bias1;  // 1 / (1 - beta1^t)
  float inverse_root;   // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

struct UpdateKernels {
  double (*sum_squares)(const float* x, int64_t n);
  // p, g, m, v and ema [n]; p, m, v and ema are changed in place.
  void (*sgd)(const SgdStep& s, float* p, const float* g, float* m, int64_t n);  // m may be null
  void (*adam)(const AdamStep& s, float* p, const float* g, float* m, float* v, int64_t n);
  // Updates m and v; returns sum p^2 and sum u^2 of the direction u.
  void (*lamb_moments)(const LambStep& s, const float* p, const float* g, float* m, float* v,
                       int64_t n, double* p_squares, double* u_squares);
  // p -= rate * u, u computed again from the updated moments.
  void (*lamb_apply)(const LambStep& s, float rate, float* p, const float* m, const float* v,
                     int64_t n);
  void (*ema)(float decay, float one_minus_decay, float* ema, const float* p, int64_t n);
};

// ---- Products in panels -------------------------------------------------------------------------
// y [rows, columns] = act(left [rows, steps] * right [steps, columns] + bias + residual), operands
// in f32 or bf16, sums in f32. Operands are brought into panels first, of some rows of the left or
// columns of the right one with all their steps; rows of the left one may be read where they stand.

struct PanelOperand {
  const void* data;
  int64_t lines, steps;  // lines are rows of the left operand, columns of the right
  int64_t pitch;         // elements from one line to the next if `along`, else from step to step
  bool along;            // steps of a line lie side by side
  Element element;       // of data
};
// Rows that are windows of images, in f32: row [n][p][q] has the steps [r][s][channel] of the
// pixels that it covers, 0 outside of the image. A matrix has a row for each image of one pixel.
struct PanelWindows {
  int64_t h = 1, w = 1;  // of an image
  int64_t p = 1, q = 1;  // of its result
  int64_t r = 1, s = 1;  // of the window
  int64_t stride[2] = {1, 1}, dilation[2] = {1, 1}, pad[2] = {0, 0};
};
constexpr int64_t kMostWindowTaps = 25;        // r * s
constexpr int64_t kMostWindowChannels = 2048;  // where windows reach out of the image

struct PanelProduct {
  const void* left;    // where it stands, the steps of a row or pixel side by side
  int64_t left_pitch;  // elements from one to the next; 0: only panels of it are there
  PanelWindows windows;
  const void* left_panels;  // all, or with a pitch those that cannot stand
  const void* right_panels;
  int64_t rows, columns, steps;
  const float* bias;     // [columns]; null: none
  const void* residual;  // like y, or null; may be it
  ActivationKind activation;
  void* y;
  // Elements of y from an image, a row of its result, and a pixel to the next.
  int64_t image_pitch, row_pitch, pixel_pitch;
  Element element;  // of y
};
struct PanelProductKernels {
  Element element;        // of panels and of what stands; f32 is filled from either
  int64_t rows, columns;  // of a panel
  int64_t (*panel_bytes)(int64_t steps);
  // How many panels of so many rows, from the first on, may be read where they stand.
  int64_t (*standing)(int64_t rows, int64_t steps);
  void (*fill_panel)(const PanelOperand& x, bool right, int64_t panel, void* to);
  // Of these panels of the left and of the right operand.
  void (*run)(const PanelProduct& p, int64_t left_begin, int64_t left_end, int64_t right_begin,
              int64_t right_end);
};

// ---- Sums over pixels ---------------------------------------------------------------------------
// dw [k][r][s][c] = dy [pixel][k] x [pixel][r][s][c] summed over some pixels of dy, in f32, where
// the latter is what a window covers of images [n][h][w][c]: the gradient of a convolution's
// filters. Pixels of bf16 are widened where they are gathered.

struct PixelSum {
  PanelWindows windows;                // pixels of dy are those of its result
  int64_t channels, columns, filters;  // r * s * c are columns
  Element element;                     // of x and dy
  const void *x, *dy;
  float* dw;
  int64_t pitch;       // of dw from filter to filter, a multiple of PixelSumKernels::panel
  int64_t begin, end;  // pixels, at most PixelSumKernels::pixels
  bool add;            // to dw; else it is overwritten
};
struct PixelSumKernels {
  int64_t pixels, filters, panel, columns;  // at a time
  int64_t scratch;                          // elements that add_columns needs
  // Pixels [begin, end), behind s.begin, of dy to [block of filters][pixels][filters].
  void (*fill_blocks)(const PixelSum& s, int64_t begin, int64_t end, float* blocks);
  // At most `columns` columns of dw, from `first` on.
  void (*add_columns)(const PixelSum& s, int64_t first, const float* blocks, float* scratch);
};

// ---- The table --------------------------------------------------------------------------------

struct Kernels {
  const char* isa;  // "avx512", "avx2", "baseline"
  const ElementwiseKernels* elementwise;
  const PointwiseKernels* pointwise;
  const DropoutKernels* dropout;
  const ChannelKernels* channel;
  const FusionKernels* fusion;
  const LayerNormKernels* layer_norm;
  const PanelProductKernels* product;  // of f32; the left operand stands
  const PixelSumKernels* pixel_sum;
  const AttentionKernels* attention;
  const GatherKernels* gather;
  const PoolKernels* pool;
  const WinogradKernels* winograd[2];  // of 3x3, of 5x5
  const DepthwiseKernels* depthwise;
  const SoftmaxKernels* softmax;
  const SigmoidKernels* sigmoid;
  const SoftTargetLossKernels* soft_target_loss;
  const AnchorKernels* anchors;
  const UpdateKernels* update;
};

// The best table this processor can run, chosen on the first call; thread-safe. The environment
// variable ASSAY_CPU_ISA may name a lesser one ("avx2", "baseline"), for tests and comparisons.
const Kernels& kernels();

// Products of bf16 on the tile registers of AMX; null where tile_attention() is.
const PanelProductKernels* tile_products();

// Attention of bf16, and only of it, on the tile registers of AMX; null where the processor or the
// system has none, or ASSAY_CPU_ISA is set ("avx512" does without them and keeps all else).
const AttentionKernels* tile_attention();

}  // namespace assay::cpu
