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

// A call, or what the library said of it: "NOT_SUPPORTED_SHAPE", or nothing.
struct LibraryAnswer {
  LibraryAnswer() = default;
  LibraryAnswer(LibraryCall found) : call(std::move(found)) {}
  static LibraryAnswer refused(std::string why) {
    LibraryAnswer answer;
    answer.refusal = std::move(why);
    return answer;
  }
  explicit operator bool() const { return call.has_value(); }
  const LibraryCall& operator*() const { return *call; }
  const LibraryCall* operator->() const { return &*call; }

  std::optional<LibraryCall> call;
  std::string refusal;
};

// Thread-safe. Where the library has no implementation of a call, the caller asks for less (no
// epilogue), or takes an own kernel.
class Libraries {
 public:
  virtual ~Libraries() = default;
  virtual LibraryAnswer matrix_product(const MatrixProduct& product) = 0;
  virtual LibraryAnswer convolution(const Convolution& convolution) = 0;
};

// Names calls by what they are ("cudnn:forward+bias+relu"); they have no scratch and cannot run.
std::unique_ptr<Libraries> make_planning_libraries();

}  // namespace assay::cuda
