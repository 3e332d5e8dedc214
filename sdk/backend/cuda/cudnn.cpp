// cuDNN through cudnn-frontend, whose templates take a minute to compile: in this file only.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "sdk/backend/cuda/cudnn.h"

#include <cudnn_frontend.h>

#include "sdk/backend/cuda/workspace.h"

namespace assay::cuda {

// What cuDNN plans for: a device of this machine, by its handle, or a described one.
struct ConvolutionDevice {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<cudnn_frontend::DeviceProperties> described;

  ConvolutionDevice() { check(cudnnCreate(&handle), "starting cuDNN"); }
  explicit ConvolutionDevice(const DescribedDevice& device)
      : described(std::make_shared<cudnn_frontend::DeviceProperties>()) {
    const std::vector<uint8_t> text(device.properties.begin(), device.properties.end());
    require(described->deserialize(text).is_good(), Code::kUnsupported, "cuDNN ", cudnnGetVersion(),
            " does not take the description of ", device.name);
  }
  ~ConvolutionDevice() {
    if (handle != nullptr) static_cast<void>(cudnnDestroy(handle));
  }
  ConvolutionDevice(const ConvolutionDevice&) = delete;
  ConvolutionDevice& operator=(const ConvolutionDevice&) = delete;
};

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// A 32nd of the device's memory: 4.4 GiB of an H200. Kernels on tensor cores ask for up to a GiB
// where images have few channels, and what they leave of the list does not use tensor cores. All
// nodes of a program share that memory.
int64_t most_workspace(size_t memory) { return static_cast<int64_t>(memory / 32); }

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
      case ConvolutionKind::kGradWeight:
        finish(grad_weight(), c_.w);
        break;
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

  // The residual first: with the bias before it cuDNN has no kernel that is compiled already.
  Tensor forward() {
    const Tensor x = operand("x", c_.x), w = operand("w", c_.w);
    const Tensor bias = c_.has_bias ? operand("bias", {1, 1, 1, c_.y[3]}) : nullptr;
    Tensor y = graph_->conv_fprop(x, w, geometry_of<fe::graph::Conv_fprop_attributes>(c_.geometry));
    if (c_.has_residual) y = sum(y, operand("residual", c_.y));
    if (c_.has_bias) y = sum(y, bias);
    if (c_.relu) {
      y = graph_->pointwise(
          y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    }
    return y;
  }

  Tensor grad_data() {
    const Tensor dy = operand("dy", c_.y), w = operand("w", c_.w);
    return graph_->conv_dgrad(dy, w, geometry_of<fe::graph::Conv_dgrad_attributes>(c_.geometry));
  }

  Tensor grad_weight() {
    const Tensor x = operand("x", c_.x), dy = operand("dy", c_.y);
    return graph_->conv_wgrad(dy, x, geometry_of<fe::graph::Conv_wgrad_attributes>(c_.geometry));
  }

  Tensor sum(const Tensor& a, const Tensor& b) {
    return graph_->pointwise(a, b,
                             fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }

  void finish(const Tensor& result, const Dims& dims) const {
    result->set_output(true)
        .set_uid(kResultUid)
        .set_data_type(data_type(c_.data))
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

// Finds engines; says why if there are none. Those that cuDNN would compile while the program runs
// are left out: seconds each in every process, by a compiler that may be missing, and here without
// a device they cannot be planned.
fe::error_t propose(Graph& graph, const ConvolutionDevice& device, const Convolution& c,
                    bool deterministic, size_t memory) {
  if (device.described != nullptr) graph.set_device_properties(device.described);
  fe::error_t result = graph.validate();
  if (result.is_good()) result = graph.build_operation_graph(device.handle);
  if (result.is_good())
    result = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (result.is_bad()) return result;
  graph.deselect_numeric_notes(unwanted_notes(c, deterministic))
      .deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION})
      .deselect_workspace_greater_than(most_workspace(memory));
  return graph.check_support();
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

const Dims& result_of(const Convolution& c) {
  return c.kind == ConvolutionKind::kForward    ? c.y
         : c.kind == ConvolutionKind::kGradData ? c.x
                                                : c.w;
}

size_t bytes_of(const Dims& dims, DType dtype) {
  return static_cast<size_t>(dims.numel()) * dtype_size(dtype);
}

// The fastest of the first few plans that build.
std::optional<int64_t> fastest(Graph& graph, cudnnHandle_t handle, const Convolution& c,
                               cudaStream_t stream) {
  std::vector<size_t> bytes{bytes_of(c.x, c.data), bytes_of(c.w, c.data)};
  if (c.kind == ConvolutionKind::kGradData) bytes[0] = bytes_of(c.y, c.data);
  if (c.kind == ConvolutionKind::kGradWeight) bytes[1] = bytes_of(c.y, c.data);
  if (c.has_bias) bytes.push_back(bytes_of({c.y[3]}, c.data));
  if (c.has_residual) bytes.push_back(bytes_of(c.y, c.data));
  bytes.push_back(bytes_of(result_of(c), c.data));
  const TimingOperands operands(bytes, stream);
  std::optional<TimingBuffer> workspace;
  const auto prepare = [&](int64_t i) {
    if (graph.build_plan_at_index(i).is_bad()) return false;
    workspace.emplace(workspace_of(graph, i), stream);
    return true;
  };
  return fastest_of(graph.get_execution_plan_count(), stream, prepare, [&](int64_t i, int run) {
    execute(graph, handle, i, stream, operands.of(run), workspace->data());
  });
}

// The first plan that builds.
std::optional<int64_t> first_that_builds(Graph& graph) {
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i)
    if (graph.build_plan_at_index(i).is_good()) return i;
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
             c.has_bias ? " bias" : "", c.has_residual ? " residual" : "", c.relu ? " relu" : "",
             c.tf32 ? " tf32" : "", deterministic ? " deterministic" : "");
}

// What cuDNN plans on every device that the backend takes.
Convolution ordinary_convolution() {
  Convolution c;
  c.geometry.pad_begin = c.geometry.pad_end = {1, 1};
  c.x = c.y = {1, 16, 16, 64};
  c.w = {64, 3, 3, 64};
  c.data = DType::kF16;
  return c;
}

}  // namespace

ConvolutionLibrary::ConvolutionLibrary(Tuning& tuning, const DeviceState& device)
    : tuning_(&tuning),
      life_(device.life()),
      deterministic_(device.options().deterministic),
      stream_(device.stream()),
      device_(life_->own(std::make_unique<ConvolutionDevice>())) {
  assay::cuda::check(cudnnGraphVersionCheck(), "comparing the versions of cuDNN's libraries");
  size_t free = 0;
  assay::cuda::check(cudaMemGetInfo(&free, &memory_), "asking for the device's memory");
}

ConvolutionLibrary::ConvolutionLibrary(const DescribedDevice& device)
    : memory_(device.memory), device_(std::make_shared<ConvolutionDevice>(device)) {}

ConvolutionLibrary::~ConvolutionLibrary() = default;

std::optional<LibraryCall> ConvolutionLibrary::plan(const Convolution& c) {
  const std::string text = text_of(c, deterministic_);
  const auto found = planned_.find(text);
  if (found != planned_.end()) return found->second;
  std::string why_not;
  const std::optional<LibraryCall> call = prepare(c, text, why_not);
  if (!call) require_working();
  planned_.emplace(text, call);
  return call;
}

void ConvolutionLibrary::require_working() {
  const Convolution c = ordinary_convolution();
  std::string why_not;
  require(prepare(c, text_of(c, deterministic_), why_not).has_value(), Code::kUnsupported,
          "cuDNN cannot plan an ordinary convolution on this device: install all of one cuDNN "
          "release that knows the device (",
          why_not, ")");
}

std::optional<int64_t> ConvolutionLibrary::choose(Graph& graph, const Convolution& c,
                                                  const std::string& text) {
  if (tuning_ == nullptr || !tuning_->enabled()) return first_that_builds(graph);
  if (const auto known = of_name(graph, tuning_->find(text))) return known;
  const auto best = fastest(graph, device_->handle, c, stream_);
  if (!best) return first_that_builds(graph);
  tuning_->keep(text, name_of(graph, *best));
  return best;
}

std::optional<LibraryCall> ConvolutionLibrary::prepare(const Convolution& c,
                                                       const std::string& text,
                                                       std::string& why_not) {
  auto made = std::make_unique<Graph>();
  const std::shared_ptr<Graph> graph =
      GraphBuilder(c, life_ ? life_->own(std::move(made)) : std::move(made)).build();
  fe::error_t proposed = propose(*graph, *device_, c, deterministic_, memory_);
  if (proposed.is_bad()) {
    why_not = proposed.get_message();
    return std::nullopt;
  }
  const std::optional<int64_t> index = choose(*graph, c, text);
  if (!index) {
    why_not = "none of its proposals can be built";
    return std::nullopt;
  }
  const size_t workspace = workspace_of(*graph, *index);
  const auto run = [graph, device = device_, i = *index](
                       Stream stream, std::span<void* const> operands, void* scratch) {
    require(device->handle != nullptr, Code::kInternal, "a plan made without a device was run");
    execute(*graph, device->handle, i, stream, operands, aligned_workspace(scratch));
  };
  return LibraryCall{
      cat("cudnn:", name_of(*graph, *index), workspace > 0 ? cat(" workspace=", workspace) : ""),
      with_room_to_align(workspace), run};
}

}  // namespace assay::cuda
