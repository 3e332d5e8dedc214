// What the backend takes from NVIDIA's libraries, behind one interface: matrix products and
// convolutions. There are three of it: cuBLASLt and cuDNN (vendor_libraries.cpp), one that only
// names what it would take (planning without a device), and one of loops in tests.
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
  bool transpose_a = false, transpose_b = false;
  DType in = DType::kF32, out = DType::kF32;
  bool has_bias = false;  // [N] f32
  bool relu = false;
  bool tf32 = false;  // f32 operands may be rounded
  bool operator==(const MatrixProduct&) const = default;
};

enum class ConvolutionKind { kForward, kGradData, kGradWeight };

// NHWC and KRSC, dense. Operands in this order: forward x, w, (bias, residual), y;
// grad_data dy, w, (saved), dx; grad_weight x, dy, dw.
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::kForward;
  ConvGeometry geometry;
  Dims x, w, y;
  DType data = DType::kF32;  // of x, w and y
  DType out = DType::kF32;   // of the result
  bool has_bias = false;     // [K] f32
  bool has_residual = false;
  bool relu = false;
  bool has_mask = false;  // grad_data: 0 where `saved`, like dx, is not positive
  bool tf32 = false;
  bool operator==(const Convolution&) const = default;
};

// A prepared call of a library. `run` enqueues it: operands as listed, output last, and scratch of
// `scratch_bytes`, with the alignment that every plan's has (workspace.h).
struct LibraryCall {
  std::string kernel;  // "cublaslt:algo66:tile20", "cudnn:eng34_k2=5"
  size_t scratch_bytes = 0;
  std::function<void(Stream, std::span<void* const> operands, void* scratch)> run;
};

// Thread-safe. A call that the library has no implementation of gives nothing: the caller asks for
// less (no epilogue), or takes an own kernel.
class Libraries {
 public:
  virtual ~Libraries() = default;
  virtual std::optional<LibraryCall> matrix_product(const MatrixProduct& product) = 0;
  virtual std::optional<LibraryCall> convolution(const Convolution& convolution) = 0;
  // What the library said of the last convolution that it refused: "NOT_SUPPORTED_SHAPE".
  virtual std::string last_refusal() const { return ""; }
};

// Names calls by what they are ("cudnn:forward+bias+relu"); they have no scratch and cannot run.
std::unique_ptr<Libraries> make_planning_libraries();

}  // namespace assay::cuda
