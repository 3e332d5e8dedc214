// cuDNN through cudnn-frontend, whose templates take a minute to compile: in this file only.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "sdk/backend/cuda/cudnn.h"

#include <cudnn_frontend.h>

#include <array>

#include "sdk/backend/cuda/workspace.h"

namespace assay::cuda {

struct ConvolutionHandle {
  cudnnHandle_t handle = nullptr;
  ConvolutionHandle() { check(cudnnCreate(&handle), "starting cuDNN"); }
  ~ConvolutionHandle() { static_cast<void>(cudnnDestroy(handle)); }
  ConvolutionHandle(const ConvolutionHandle&) = delete;
  ConvolutionHandle& operator=(const ConvolutionHandle&) = delete;
};

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kWorkspaceBytes = int64_t{256} << 20;

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return fe::DataType_t::BFLOAT16;
    case DType::kF16:
      return fe::DataType_t::HALF;
    default:
      return fe::DataType_t::FLOAT;
  }
}

void check(fe::error_t result, std::string_view doing) {  // its getters are not const
  if (result.is_good()) return;
  ErrorDetail detail;
  detail.domain = Domain::kCudnn;
  detail.native_code = static_cast<int64_t>(result.get_code());
  fail(Code::kDevice, cat(doing, ": ", result.get_message()), std::move(detail));
}

// [N,H,W,C] or [K,R,S,C] in memory, which cuDNN describes as sizes N, C, H, W with strides.
std::vector<int64_t> sizes_of(const Dims& d) { return {d[0], d[3], d[1], d[2]}; }
std::vector<int64_t> strides_of(const Dims& d) {
  return {d[1] * d[2] * d[3], 1, d[2] * d[3], d[3]};
}

// Operands are numbered from kFirstUid in the order of Convolution; the result is kResultUid.
constexpr int64_t kFirstUid = 1, kResultUid = 100;

template <class Attributes>
Attributes geometry_of(const ConvGeometry& g) {
  return Attributes()
      .set_pre_padding({g.pad_begin[0], g.pad_begin[1]})
      .set_post_padding({g.pad_end[0], g.pad_end[1]})
      .set_stride({g.stride[0], g.stride[1]})
      .set_dilation({g.dilation[0], g.dilation[1]});
}

class GraphBuilder {
 public:
  GraphBuilder(const Convolution& c, std::shared_ptr<Graph> graph)
      : c_(c), graph_(std::move(graph)) {
    graph_->set_io_data_type(data_type(c.data))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<Graph> build() {
    switch (c_.kind) {
      case ConvolutionKind::kForward:
        finish(forward(), c_.y);
        break;
      case ConvolutionKind::kGradData:
        finish(grad_data(), c_.x);
        break;
      case ConvolutionKind::kGradWeight: {
        const Tensor x = operand("x", c_.x), dy = operand("dy", c_.y);
        finish(
            graph_->conv_wgrad(dy, x, geometry_of<fe::graph::Conv_wgrad_attributes>(c_.geometry)),
            c_.w);
        break;
      }
    }
    return graph_;
  }

 private:
  Tensor operand(const char* name, const Dims& dims) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_name(name)
                              .set_uid(next_uid_++)
                              .set_dim(sizes_of(dims))
                              .set_stride(strides_of(dims))
                              .set_data_type(data_type(c_.data)));
  }

  Tensor forward() {
    const Tensor x = operand("x", c_.x), w = operand("w", c_.w);
    Tensor y = graph_->conv_fprop(x, w, geometry_of<fe::graph::Conv_fprop_attributes>(c_.geometry));
    const int64_t filters = c_.y[3];
    if (c_.has_bias) {
      const Tensor bias = graph_->tensor(fe::graph::Tensor_attributes()
                                             .set_name("bias")
                                             .set_uid(next_uid_++)
                                             .set_dim({1, filters, 1, 1})
                                             .set_stride({filters, 1, filters, filters})
                                             .set_data_type(fe::DataType_t::FLOAT));
      y = pointwise(y, bias);
    }
    if (c_.has_residual) y = pointwise(y, operand("residual", c_.y));
    if (c_.relu) {
      y = graph_->pointwise(
          y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    }
    return y;
  }

  Tensor grad_data() {
    const Tensor dy = operand("dy", c_.y), w = operand("w", c_.w);
    Tensor dx =
        graph_->conv_dgrad(dy, w, geometry_of<fe::graph::Conv_dgrad_attributes>(c_.geometry));
    if (!c_.has_mask) return dx;
    dx->set_dim(sizes_of(c_.x)).set_stride(strides_of(c_.x));  // strides leave it undetermined
    return graph_->pointwise(
        dx, operand("saved", c_.x),
        fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_BWD));
  }

  Tensor pointwise(const Tensor& a, const Tensor& b) {
    return graph_->pointwise(a, b,
                             fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }

  void finish(const Tensor& result, const Dims& dims) const {
    result->set_output(true)
        .set_uid(kResultUid)
        .set_data_type(data_type(c_.out))
        .set_dim(sizes_of(dims))
        .set_stride(strides_of(dims));
  }

  const Convolution& c_;
  std::shared_ptr<Graph> graph_;
  int64_t next_uid_ = kFirstUid;
};

// The frontend fills an engine's list of notes up with default values, which must mean nothing.
static_assert(fe::NumericalNote_t{} == fe::NumericalNote_t::NOT_SET);

std::vector<fe::NumericalNote_t> unwanted_notes(const Convolution& c, bool deterministic) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes{Note::REDUCED_PRECISION_REDUCTION};  // sums are f32 in every precision
  // On f32 data tensor cores compute in TF32.
  if (c.data == DType::kF32 && !c.tf32)
    notes.insert(notes.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
  if (deterministic) notes.push_back(Note::NONDETERMINISTIC);
  return notes;
}

// What ails the installation or the device, and not a convolution; also as the beginning of a name.
constexpr std::array kFaults{CUDNN_STATUS_NOT_INITIALIZED,
                             CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH,
                             CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                             CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER,
                             CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART,
                             CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
                             CUDNN_STATUS_INTERNAL_ERROR,
                             CUDNN_STATUS_EXECUTION_FAILED};

// Why cuDNN has no engine: the status that it names, "NOT_SUPPORTED_SHAPE". Raises faults, or slow
// kernels of our own would stand in for a library that only lacks a file.
std::string refusal(fe::error_t result) {
  const std::string message = result.get_message();
  for (const cudnnStatus_t fault : kFaults) {
    if (message.find(cudnnGetErrorString(fault)) == std::string::npos) continue;
    ErrorDetail detail;
    detail.domain = Domain::kCudnn;
    detail.native_code = fault;
    fail(Code::kDevice, cat("planning a convolution: ", message), std::move(detail));
  }
  constexpr std::string_view kPrefix = "CUDNN_STATUS_";
  size_t begin = message.find(kPrefix);
  if (begin == std::string::npos) return "NO_ENGINE";
  begin += kPrefix.size();
  const size_t end = message.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", begin);
  return message.substr(begin, end == std::string::npos ? end : end - begin);
}

// Finds engines; says why if there are none.
std::string propose(Graph& graph, cudnnHandle_t handle, const Convolution& c, bool deterministic) {
  std::array<char, 1> earlier{};
  cudnnGetLastErrorString(earlier.data(), earlier.size());  // reading them forgets them
  fe::error_t result = graph.validate();
  if (result.is_good()) result = graph.build_operation_graph(handle);
  if (result.is_good())
    result = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (result.is_good()) {
    graph.deselect_numeric_notes(unwanted_notes(c, deterministic));
    graph.deselect_workspace_greater_than(kWorkspaceBytes);
    result = graph.check_support();
  }
  return result.is_good() ? "" : refusal(result);
}

std::string name_of(const Graph& graph, int64_t index) {
  std::string name;
  return graph.get_plan_name_at_index(index, name).is_good() ? name : "";
}

void execute(const Graph& graph, cudnnHandle_t handle, int64_t index, cudaStream_t stream,
             std::span<void* const> operands, void* workspace) {
  std::unordered_map<int64_t, void*> addresses{{kResultUid, operands.back()}};
  for (size_t i = 0; i + 1 < operands.size(); ++i)
    addresses[kFirstUid + static_cast<int64_t>(i)] = operands[i];
  assay::cuda::check(cudnnSetStream(handle, stream), "choosing cuDNN's stream");
  check(graph.execute_plan_at_index(handle, addresses, workspace, index), "running a convolution");
}

size_t workspace_of(const Graph& graph, int64_t index) {
  int64_t bytes = 0;
  check(graph.get_workspace_size_plan_at_index(index, bytes), "asking for a workspace");
  return static_cast<size_t>(bytes);
}

size_t bytes_of(const Dims& dims, DType dtype) {
  return static_cast<size_t>(dims.numel()) * dtype_size(dtype);
}

// The fastest of the first few plans that build.
std::optional<int64_t> fastest(Graph& graph, cudnnHandle_t handle, const Convolution& c,
                               cudaStream_t stream) {
  const TimingBuffer x(bytes_of(c.x, DType::kF32), stream), w(bytes_of(c.w, DType::kF32), stream);
  const TimingBuffer y(bytes_of(c.y, DType::kF32), stream);
  const TimingBuffer residual(c.has_residual ? bytes_of(c.y, c.data) : 1, stream);
  const TimingBuffer saved(c.has_mask ? bytes_of(c.x, c.data) : 1, stream);
  const TimingBuffer bias(static_cast<size_t>(c.y[3]) * sizeof(float), stream);
  std::vector<void*> operands;
  if (c.kind == ConvolutionKind::kForward) {
    operands = {x.data(), w.data()};
    if (c.has_bias) operands.push_back(bias.data());
    if (c.has_residual) operands.push_back(residual.data());
    operands.push_back(y.data());
  } else if (c.kind == ConvolutionKind::kGradData) {
    operands = {y.data(), w.data()};
    if (c.has_mask) operands.push_back(saved.data());
    operands.push_back(x.data());
  } else {
    operands = {x.data(), y.data(), w.data()};
  }
  std::optional<TimingBuffer> workspace;
  const auto prepare = [&](int64_t i) {
    if (graph.build_plan_at_index(i).is_bad()) return false;
    workspace.emplace(workspace_of(graph, i), stream);
    return true;
  };
  return fastest_of(graph.get_execution_plan_count(), stream, prepare, [&](int64_t i) {
    execute(graph, handle, i, stream, operands, workspace->data());
  });
}

// The first plan that builds; says why if none does.
std::optional<int64_t> first_that_builds(Graph& graph, std::string& why_not) {
  fe::error_t last{fe::error_code_t::HEURISTIC_QUERY_FAILED, ""};
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    fe::error_t result = graph.build_plan_at_index(i);
    if (result.is_good()) return i;
    if (result.get_message().find("Deselecting") == std::string::npos) last = result;
  }
  why_not = refusal(last);
  return std::nullopt;
}

std::optional<int64_t> of_name(Graph& graph, const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    if (name_of(graph, i) == name && graph.build_plan_at_index(i).is_good()) return i;
  }
  return std::nullopt;
}

std::string text_of(const Convolution& c, bool deterministic) {
  const ConvGeometry& g = c.geometry;
  return cat("conv", static_cast<int>(c.kind), " x", c.x, " w", c.w, " y", c.y, " s", g.stride[0],
             ",", g.stride[1], " p", g.pad_begin[0], ",", g.pad_begin[1], ",", g.pad_end[0], ",",
             g.pad_end[1], " d", g.dilation[0], ",", g.dilation[1], " g", g.groups, " ", c.data,
             "->", c.out, c.has_bias ? " bias" : "", c.has_residual ? " residual" : "",
             c.relu ? " relu" : "", c.has_mask ? " relu_grad" : "", c.tf32 ? " tf32" : "",
             deterministic ? " deterministic" : "");
}

// What cuDNN plans on every device that the backend takes.
Convolution ordinary_convolution() {
  Convolution c;
  c.geometry.pad_begin = c.geometry.pad_end = {1, 1};
  c.x = c.y = {1, 16, 16, 64};
  c.w = {64, 3, 3, 64};
  c.data = c.out = DType::kF16;
  return c;
}

}  // namespace

ConvolutionLibrary::ConvolutionLibrary(Tuning& tuning, const DeviceState& device)
    : tuning_(tuning),
      life_(device.life()),
      deterministic_(device.options().deterministic),
      stream_(device.stream()),
      handle_(life_.own(std::make_unique<ConvolutionHandle>())) {
  static const bool kWorks = (require_working(), true);  // once a process: it loads the engines
  static_cast<void>(kWorks);
}

ConvolutionLibrary::~ConvolutionLibrary() = default;

void ConvolutionLibrary::require_working() {
  assay::cuda::check(cudnnGraphVersionCheck(), "comparing the versions of cuDNN's libraries");
  const Convolution c = ordinary_convolution();
  const LibraryAnswer planned = prepare(c, text_of(c, deterministic_));
  require(planned.call.has_value(), Code::kUnsupported,
          "cuDNN cannot plan an ordinary convolution on this device (", planned.refusal,
          "): install all of one cuDNN release that knows the device");
}

LibraryAnswer ConvolutionLibrary::plan(const Convolution& c) {
  const std::string text = text_of(c, deterministic_);
  auto found = planned_.find(text);
  if (found == planned_.end()) found = planned_.emplace(text, prepare(c, text)).first;
  return found->second;
}

LibraryAnswer ConvolutionLibrary::prepare(const Convolution& c, const std::string& text) {
  const std::shared_ptr<Graph> graph =
      GraphBuilder(c, life_.own(std::make_unique<Graph>())).build();
  std::string refused = propose(*graph, handle_->handle, c, deterministic_);
  if (!refused.empty()) return LibraryAnswer::refused(std::move(refused));
  std::optional<int64_t> index;
  if (tuning_.enabled()) {
    index = of_name(*graph, tuning_.find(text));
    if (!index) {
      index = fastest(*graph, handle_->handle, c, stream_);
      if (index) tuning_.keep(text, name_of(*graph, *index));
    }
  }
  if (!index) index = first_that_builds(*graph, refused);
  if (!index) return LibraryAnswer::refused(std::move(refused));
  const auto run = [graph, handle = handle_, i = *index](
                       Stream stream, std::span<void* const> operands, void* scratch) {
    execute(*graph, handle->handle, i, stream, operands, aligned_workspace(scratch));
  };
  return LibraryCall{cat("cudnn:", name_of(*graph, *index)),
                     with_room_to_align(workspace_of(*graph, *index)), run};
}

}  // namespace assay::cuda
