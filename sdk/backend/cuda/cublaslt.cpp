// Matrix products by cuBLASLt: descriptions, the library's proposals, and the choice among them by
// its own order or by timing.
#include "sdk/backend/cuda/cublaslt.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "sdk/backend/cuda/workspace.h"
#include "sdk/base/align.h"

namespace assay::cuda {

struct MatrixHandle {
  cublasLtHandle_t handle = nullptr;
  MatrixHandle() { check(cublasLtCreate(&handle), "starting cuBLASLt"); }
  ~MatrixHandle() { static_cast<void>(cublasLtDestroy(handle)); }
  MatrixHandle(const MatrixHandle&) = delete;
  MatrixHandle& operator=(const MatrixHandle&) = delete;
};

namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS itself takes on Hopper
constexpr uint32_t kAlignment = kTensorAlignment;     // of every tensor of a program

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// A row-major matrix [rows, columns] is the column-major [columns, rows] on the same memory.
// `pitch` elements from one row to the next.
class Layout {
 public:
  Layout(DType dtype, int64_t rows, int64_t columns, int64_t pitch) {
    check(cublasLtMatrixLayoutCreate(&layout_, data_type(dtype), static_cast<uint64_t>(columns),
                                     static_cast<uint64_t>(rows), pitch),
          "describing a matrix");
  }
  ~Layout() { static_cast<void>(cublasLtMatrixLayoutDestroy(layout_)); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

cublasLtEpilogue_t epilogue_of(const MatrixProduct& p) {
  if (p.gelu_tanh) return p.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (p.relu) return p.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return p.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// y = op(a) op(b), row-major, is y' = op(b)' op(a)' column-major: b is cuBLAS's first operand.
class Product {
 public:
  explicit Product(const MatrixProduct& p)
      : a(p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a_pitch),
        b(p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b_pitch),
        y(p.out, p.m, p.n, p.n) {
    const cublasComputeType_t compute = p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
    if (p.gelu_tanh) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
      set_pre(reinterpret_cast<void*>(uintptr_t{256}));  // until one is bound
    }
    // Of y's columns, which are the rows that cuBLAS sees: what its bias runs along.
    if (p.has_bias) set_bias(reinterpret_cast<const void*>(uintptr_t{256}));  // until one is bound
  }
  ~Product() { static_cast<void>(cublasLtMatmulDescDestroy(description)); }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void set_bias(const void* bias) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }
  // Of y's type, which is the default.
  void set_pre(void* pre) { set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pre); }

  Layout a, b, y;
  cublasLtMatmulDesc_t description = nullptr;

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value),
          "describing a product");
  }
};

class Preference {
 public:
  Preference() {
    check(cublasLtMatmulPreferenceCreate(&preference_), "describing a product");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(attribute, kAlignment);
    }
    // Parts of a sum are kept in f32 and added in a fixed order; the other schemes keep them in the
    // result's type, one adds them as they are done.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  ~Preference() { static_cast<void>(cublasLtMatmulPreferenceDestroy(preference_)); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
          "describing a product");
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

using Proposal = cublasLtMatmulHeuristicResult_t;

int32_t config(const Proposal& proposal, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  int32_t value = 0;
  size_t written = 0;
  static_cast<void>(cublasLtMatmulAlgoConfigGetAttribute(&proposal.algo, attribute, &value,
                                                         sizeof value, &written));
  return value;
}

std::string name_of(const Proposal& proposal) {
  return cat("cublaslt:algo", config(proposal, CUBLASLT_ALGO_CONFIG_ID), ":tile",
             config(proposal, CUBLASLT_ALGO_CONFIG_TILE_ID), ":stages",
             config(proposal, CUBLASLT_ALGO_CONFIG_STAGES_ID), ":split",
             config(proposal, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

// All of its configuration, for the same version of the library: names leave much of it out.
std::string identity_of(const Proposal& proposal) {
  std::string text = name_of(proposal);
  for (const uint64_t word : proposal.algo.data) {
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), "%llx", static_cast<unsigned long long>(word));
    text += cat(":", std::string_view(digits.data()));
  }
  return text;
}

std::string text_of(const MatrixProduct& p) {
  const bool dense =
      p.a_pitch == (p.transpose_a ? p.m : p.k) && p.b_pitch == (p.transpose_b ? p.k : p.n);
  return cat("matmul m", p.m, " n", p.n, " k", p.k, p.transpose_a ? " ta" : "",
             p.transpose_b ? " tb" : "", dense ? "" : cat(" pitches ", p.a_pitch, " ", p.b_pitch),
             " ", p.in, "->", p.out, p.has_bias ? " bias" : "", p.relu ? " relu" : "",
             p.gelu_tanh ? " gelu_tanh" : "", p.tf32 ? " tf32" : "");
}

size_t bytes_of(int64_t rows, int64_t columns, DType dtype) {
  return static_cast<size_t>(rows * columns) * dtype_size(dtype);
}

void multiply(const MatrixHandle& handle, Product& product, const Proposal& proposal,
              cudaStream_t stream, const void* a, const void* b, void* y, void* workspace) {
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle.handle, product.description, &one, b, product.b.get(), a,
                       product.a.get(), &zero, y, product.y.get(), y, product.y.get(),
                       &proposal.algo, workspace, proposal.workspaceSize, stream),
        "multiplying matrices");
}

std::vector<Proposal> proposals_for(const MatrixHandle& handle, const Product& product) {
  const Preference preference;
  std::vector<Proposal> proposals(kMostTimed);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle.handle, product.description, product.b.get(), product.a.get(), product.y.get(),
      product.y.get(), preference.get(), kMostTimed, proposals.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    found = 0;
  else
    check(status, "choosing a matrix kernel");
  proposals.resize(static_cast<size_t>(found));
  std::erase_if(proposals, [](const Proposal& p) { return p.state != CUBLAS_STATUS_SUCCESS; });
  return proposals;
}

std::optional<int64_t> fastest(const MatrixHandle& handle, const MatrixProduct& p, Product& product,
                               const std::vector<Proposal>& proposals, cudaStream_t stream) {
  const TimingOperands operands(
      {bytes_of(p.transpose_a ? p.k : p.m, p.a_pitch, p.in),
       bytes_of(p.transpose_b ? p.n : p.k, p.b_pitch, p.in), bytes_of(p.m, p.n, p.out)},
      stream);
  const TimingBuffer workspace(kWorkspaceBytes, stream);
  const TimingBuffer bias(bytes_of(1, p.n, DType::kF32), stream);
  const TimingBuffer pre(p.gelu_tanh ? bytes_of(p.m, p.n, p.out) : 0, stream);
  if (p.has_bias) product.set_bias(bias.data());
  if (p.gelu_tanh) product.set_pre(pre.data());
  return fastest_of(
      static_cast<int64_t>(proposals.size()), stream, [](int64_t) { return true; },
      [&](int64_t i, int run) {
        const std::span<void* const> set = operands.of(run);
        multiply(handle, product, proposals[static_cast<size_t>(i)], stream, set[0], set[1], set[2],
                 workspace.data());
      });
}

}  // namespace

MatrixLibrary::MatrixLibrary(Tuning& tuning, const DeviceState& device)
    : tuning_(tuning),
      stream_(device.stream()),
      handle_(device.life().own(std::make_unique<MatrixHandle>())) {}

MatrixLibrary::~MatrixLibrary() = default;

std::optional<LibraryCall> MatrixLibrary::plan(const MatrixProduct& p) {
  const auto product = std::make_shared<Product>(p);
  const std::vector<Proposal> proposals = proposals_for(*handle_, *product);
  if (proposals.empty()) return std::nullopt;
  size_t choice = 0;
  if (tuning_.enabled() && proposals.size() > 1) {
    const std::string call = text_of(p);
    const std::string known = tuning_.find(call);
    const auto same =
        std::find_if(proposals.begin(), proposals.end(),
                     [&](const Proposal& proposal) { return identity_of(proposal) == known; });
    if (same != proposals.end()) {
      choice = static_cast<size_t>(same - proposals.begin());
    } else if (const auto best = fastest(*handle_, p, *product, proposals, stream_)) {
      choice = static_cast<size_t>(*best);
      tuning_.keep(call, identity_of(proposals[choice]));
    }
  }
  const Proposal& chosen = proposals[choice];
  return LibraryCall{
      name_of(chosen), with_room_to_align(chosen.workspaceSize),
      [handle = handle_, product, chosen, has_bias = p.has_bias, keeps_pre = p.gelu_tanh](
          Stream stream, std::span<void* const> operands, void* scratch) {
        if (has_bias) product->set_bias(operands[2]);
        if (keeps_pre) product->set_pre(operands[operands.size() - 2]);
        multiply(*handle, *product, chosen, stream, operands[0], operands[1], operands.back(),
                 aligned_workspace(scratch));
      }};
}

}  // namespace assay::cuda
