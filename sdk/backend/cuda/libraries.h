// What the backend takes from NVIDIA's libraries, behind one interface: matrix products,
// convolutions and attention. There are three of it: cuBLASLt and cuDNN on a device, the same
// planning without one (both vendor_libraries.cpp), and one of loops in tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sdk/backend/cuda/kernels/kernels.h"
#include "sdk/graph/ops.h"

namespace assay::cuda {

// y [M,N] = act(op(a) op(b) + bias), row-major, as Matmul means it.
struct MatrixProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_pitch = 0, b_pitch = 0;  // elements from one row of a, of b to the next
  bool transpose_a = false, transpose_b = false;
  DType in = DType::kF32, out = DType::kF32;
  bool has_bias = false;  // [N] f32
  bool relu = false;
  bool gelu_tanh = false;  // and what it is applied to is kept: an output `pre` like y, before y
  bool tf32 = false;       // f32 operands may be rounded
  bool operator==(const MatrixProduct&) const = default;
};

enum class ConvolutionKind { kForward, kGradData, kGradWeight };

// NHWC and KRSC, dense. Operands in this order: forward x, w, (bias, residual), y, (sums);
// grad_data dy, w, dx; grad_weight x, dy, dw. All of one type, the bias as well: cuDNN has tuned
// kernels for nothing else. Only sums are f32. grad_data of `norms` is Conv2dGradNorm: dy, w,
// (addend, residual), of each x and the f32 gamma, beta, mean, 1 / deviation; g, of each dgamma and
// dbeta, and [norms,3,C] f32 that nobody reads.
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::kForward;
  ConvGeometry geometry;
  Dims x, w, y;
  DType data = DType::kF32;
  bool has_bias = false;  // [K]
  bool has_residual = false;
  bool relu = false;
  bool tf32 = false;
  bool keeps_sums = false;  // [2,K], of y and of y^2
  int64_t norms = 0;
  bool has_addend = false;
  bool operator==(const Convolution&) const = default;
};

// Attention of 16-bit data (sdk/graph/ops.h), with kernels::AttentionRows in the place of start and
// length. Operands: qkv; of the gradient context, logsumexp and dcontext as well; AttentionRows'
// qkv, context, logsumexp and length, and its two numbers for dropout one by one, if there is a
// rate; then context and logsumexp, or dqkv, which are left as they are in rows of nobody, or not.
struct FusedAttention {
  bool is_gradient = false;
  int64_t tokens = 0, sequences = 0, heads = 0, size = 0, longest = 0;
  float scale = 1, rate = 0;
  DType data = DType::kF16;
};

// A prepared call of a library. `run` enqueues it: operands as listed, outputs last, and scratch of
// `scratch_bytes`, with the alignment that every plan's has (workspace.h).
struct LibraryCall {
  std::string kernel;  // "cublaslt:algo66:tile20", "cudnn:eng34_k2=5 workspace=2048"
  size_t scratch_bytes = 0;
  std::function<void(Stream, std::span<void* const> operands, void* scratch)> run;
};

// Thread-safe. Where the library has no implementation of a call, the caller asks for less: no
// epilogue. Attention has own kernels.
class Libraries {
 public:
  virtual ~Libraries() = default;
  virtual std::optional<LibraryCall> matrix_product(const MatrixProduct& product) = 0;
  virtual std::optional<LibraryCall> convolution(const Convolution& convolution) = 0;
  virtual std::optional<LibraryCall> attention(const FusedAttention& attention) = 0;
};

}  // namespace assay::cuda
