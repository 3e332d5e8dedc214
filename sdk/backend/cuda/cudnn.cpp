// cuDNN through cudnn-frontend, whose templates take a minute to compile: in this file only.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "sdk/backend/cuda/cudnn.h"

#include <cuda_runtime_api.h>

#include "sdk/backend/cuda/workspace.h"

// Before it hands attention to cuDNN, the frontend asks CUDA's runtime for which generation. Where
// the device is only described, it gets that one's answer.
namespace assay::cuda::frontend {
namespace {

thread_local int described_major = 0;  // 0: a device of this machine

cudaError_t get_device(int* device) {
  if (described_major == 0) return cudaGetDevice(device);
  *device = 0;
  return cudaSuccess;
}

cudaError_t get_properties(cudaDeviceProp* properties, int device) {
  if (described_major == 0) return cudaGetDeviceProperties(properties, device);
  *properties = {};
  properties->major = described_major;
  return cudaSuccess;
}

}  // namespace
}  // namespace assay::cuda::frontend

#define cudaGetDevice assay::cuda::frontend::get_device
#define cudaGetDeviceProperties assay::cuda::frontend::get_properties
#include <cudnn_frontend.h>
#undef cudaGetDevice
#undef cudaGetDeviceProperties

namespace assay::cuda {

// What cuDNN plans for: a device of this machine, by its handle, or a described one.
struct CudnnDevice {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<cudnn_frontend::DeviceProperties> described;
  int described_major = 0;

  CudnnDevice() { check(cudnnCreate(&handle), "starting cuDNN"); }
  explicit CudnnDevice(const DescribedDevice& device)
      : described(std::make_shared<cudnn_frontend::DeviceProperties>()),
        described_major(device.major) {
    const std::vector<uint8_t> text(device.properties.begin(), device.properties.end());
    require(described->deserialize(text).is_good(), Code::kUnsupported, "cuDNN ", cudnnGetVersion(),
            " does not take the description of ", device.name);
  }
  ~CudnnDevice() {
    if (handle != nullptr) static_cast<void>(cudnnDestroy(handle));
  }
  CudnnDevice(const CudnnDevice&) = delete;
  CudnnDevice& operator=(const CudnnDevice&) = delete;
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

// Operands are numbered from kFirstUid in the order of Convolution; what comes out has these.
constexpr int64_t kFirstUid = 1, kResultUid = 100, kSumUid = 101, kSquaresUid = 102;

void compute_in_f32(Graph& graph, DType data) {
  graph.set_io_data_type(data_type(data))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

template <class Attributes>
Attributes geometry_of(const ConvGeometry& g) {
  return Attributes()
      .set_pre_padding({g.pad_begin[0], g.pad_begin[1]})
      .set_post_padding({g.pad_end[0], g.pad_end[1]})
      .set_stride({g.stride[0], g.stride[1]})
      .set_dilation({g.dilation[0], g.dilation[1]});
}

class ConvolutionGraph {
 public:
  ConvolutionGraph(const Convolution& c, Graph& graph) : c_(c), graph_(graph) {
    compute_in_f32(graph, c.data);
  }

  void build() {
    switch (c_.kind) {
      case ConvolutionKind::kForward:
        return finish(forward(), c_.y);
      case ConvolutionKind::kGradData:
        return finish(grad_data(), c_.x);
      case ConvolutionKind::kGradWeight:
        return finish(grad_weight(), c_.w);
    }
  }

 private:
  Tensor operand(const char* name, const Dims& dims) {
    return graph_.tensor(fe::graph::Tensor_attributes()
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
    Tensor y = graph_.conv_fprop(x, w, geometry_of<fe::graph::Conv_fprop_attributes>(c_.geometry));
    if (c_.has_residual) y = sum(y, operand("residual", c_.y));
    if (c_.has_bias) y = sum(y, bias);
    if (c_.relu) {
      y = graph_.pointwise(
          y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    }
    if (c_.keeps_sums) {
      const auto [sum, squares] = graph_.genstats(y, fe::graph::Genstats_attributes());
      sum->set_output(true).set_uid(kSumUid).set_data_type(fe::DataType_t::FLOAT);
      squares->set_output(true).set_uid(kSquaresUid).set_data_type(fe::DataType_t::FLOAT);
    }
    return y;
  }

  Tensor grad_data() {
    const Tensor dy = operand("dy", c_.y), w = operand("w", c_.w);
    return graph_.conv_dgrad(dy, w, geometry_of<fe::graph::Conv_dgrad_attributes>(c_.geometry));
  }

  Tensor grad_weight() {
    const Tensor x = operand("x", c_.x), dy = operand("dy", c_.y);
    return graph_.conv_wgrad(dy, x, geometry_of<fe::graph::Conv_wgrad_attributes>(c_.geometry));
  }

  Tensor sum(const Tensor& a, const Tensor& b) {
    return graph_.pointwise(a, b,
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
  Graph& graph_;
  int64_t next_uid_ = kFirstUid;
};

// Where a tensor of an attention lies: so many bytes into an operand of the call.
struct Place {
  size_t operand, bytes;
};

// Tensors are numbered from kFirstUid in the order of their places.
class AttentionGraph {
 public:
  AttentionGraph(const FusedAttention& a, Graph& graph, bool deterministic)
      : a_(a), graph_(graph), deterministic_(deterministic) {
    compute_in_f32(graph, a.data);
  }

  std::vector<Place> build() {
    const Tensor q = part(new_input(), kQkv, 0), k = part(new_input(), kQkv, 1),
                 v = part(new_input(), kQkv, 2);
    if (a_.is_gradient) {
      const Tensor context = of_heads(new_input(), kContext), sums = of_sums(new_input(), kSums),
                   dcontext = of_heads(new_input(), kDcontext);
      auto options = with_rows(fe::graph::SDPA_backward_attributes())
                         .set_deterministic_algorithm(deterministic_)
                         .set_max_total_seq_len_q(a_.tokens)
                         .set_max_total_seq_len_kv(a_.tokens);
      const auto parts = graph_.sdpa_backward(q, k, v, context, dcontext, sums, options);
      for (size_t i = 0; i < parts.size(); ++i) part(result(parts[i]), results_, i);
    } else {
      // Not the newer of the frontend's two forms, which has no dropout in cuDNN 9.19.
      auto options = with_rows(fe::graph::SDPA_attributes())
                         .set_implementation(fe::AttentionImplementation_t::COMPOSITE)
                         .set_generate_stats(true);
      const auto [context, sums] = graph_.sdpa(q, k, v, options);
      of_heads(result(context), results_);
      of_sums(result(sums), results_ + 1);
    }
    return places_;
  }

 private:
  // Operands by their order in FusedAttention.
  static constexpr size_t kQkv = 0, kContext = 1, kSums = 2, kDcontext = 3;

  Tensor new_input() { return graph_.tensor({}); }
  static Tensor result(const Tensor& made) {
    made->set_output(true);
    return made;
  }

  Tensor at(const Tensor& tensor, size_t operand, size_t bytes = 0) {
    places_.push_back({operand, bytes});
    tensor->set_uid(kFirstUid + static_cast<int64_t>(places_.size()) - 1);
    return tensor;
  }
  Tensor numbers(size_t operand, int64_t count, fe::DataType_t type) {
    Tensor tensor = at(new_input(), operand);
    tensor->set_dim({count, 1, 1, 1}).set_stride({1, 1, 1, 1}).set_data_type(type);
    return tensor;
  }
  // [sequences, heads, longest, size], whose tokens lie `pitch` elements apart.
  Tensor rows(const Tensor& tensor, int64_t pitch, const Tensor& begins) const {
    tensor->set_dim({a_.sequences, a_.heads, a_.longest, a_.size})
        .set_stride({a_.longest * pitch, a_.size, pitch, 1})
        .set_data_type(data_type(a_.data))
        .set_ragged_offset(begins);
    return tensor;
  }
  // q, k or v.
  Tensor part(const Tensor& tensor, size_t operand, size_t i) {
    const int64_t width = a_.heads * a_.size;
    return rows(at(tensor, operand, i * static_cast<size_t>(width) * dtype_size(a_.data)),
                3 * width, of_qkv_);
  }
  Tensor of_heads(const Tensor& tensor, size_t operand) {
    return rows(at(tensor, operand), a_.heads * a_.size, of_context_);
  }
  Tensor of_sums(const Tensor& tensor, size_t operand) {
    at(tensor, operand)
        ->set_dim({a_.sequences, a_.heads, a_.longest, 1})
        .set_stride({a_.heads * a_.longest, 1, a_.heads, 1})
        .set_data_type(fe::DataType_t::FLOAT)
        .set_ragged_offset(of_logsumexp_);
    return tensor;
  }

  template <class Options>
  Options with_rows(Options options) {
    options.set_attn_scale(a_.scale).set_padding_mask(true).set_seq_len_q(length_).set_seq_len_kv(
        length_);
    if (a_.rate > 0) {
      options.set_dropout(a_.rate, numbers(first_rows_ + 4, 1, fe::DataType_t::INT64),
                          numbers(first_rows_ + 5, 1, fe::DataType_t::INT64));
    }
    return options;
  }

  const FusedAttention& a_;
  Graph& graph_;
  const bool deterministic_;
  std::vector<Place> places_;
  const size_t first_rows_ = a_.is_gradient ? 4 : 1;
  const size_t results_ = first_rows_ + (a_.rate > 0 ? 6 : 4);
  const Tensor of_qkv_ = numbers(first_rows_, a_.sequences + 1, fe::DataType_t::INT64),
               of_context_ = numbers(first_rows_ + 1, a_.sequences + 1, fe::DataType_t::INT64),
               of_logsumexp_ = numbers(first_rows_ + 2, a_.sequences + 1, fe::DataType_t::INT64),
               length_ = numbers(first_rows_ + 3, a_.sequences, fe::DataType_t::INT32);
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
std::vector<fe::NumericalNote_t> unwanted_notes(const FusedAttention&, bool deterministic) {
  using Note = fe::NumericalNote_t;
  if (!deterministic) return {Note::REDUCED_PRECISION_REDUCTION};
  return {Note::REDUCED_PRECISION_REDUCTION, Note::NONDETERMINISTIC};
}

// Convolutions that cuDNN would compile while the program runs are left out: seconds each in every
// process, by a compiler that may be missing.
std::vector<fe::BehaviorNote_t> unwanted_behavior(const Convolution&) {
  return {fe::BehaviorNote_t::RUNTIME_COMPILATION};
}
std::vector<fe::BehaviorNote_t> unwanted_behavior(const FusedAttention&) { return {}; }

// Finds engines; says why if there are none.
template <class Call>
fe::error_t propose(Graph& graph, const CudnnDevice& device, const Call& call, bool deterministic,
                    size_t memory) {
  if (device.described != nullptr) graph.set_device_properties(device.described);
  frontend::described_major = device.described_major;
  fe::error_t result = graph.validate();
  if (result.is_good()) result = graph.build_operation_graph(device.handle);
  if (result.is_good())
    result = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (result.is_bad()) return result;
  graph.deselect_numeric_notes(unwanted_notes(call, deterministic))
      .deselect_behavior_notes(unwanted_behavior(call))
      .deselect_workspace_greater_than(most_workspace(memory));
  return graph.check_support();
}

std::string name_of(const Graph& graph, int64_t index) {
  std::string name;
  return graph.get_plan_name_at_index(index, name).is_good() ? name : "";
}

using Addresses = std::unordered_map<int64_t, void*>;  // by uid

Addresses addresses_of(const Convolution& c, std::span<void* const> operands) {
  Addresses addresses;
  if (c.keeps_sums) {
    auto* const sums = static_cast<float*>(operands.back());
    addresses = {{kSumUid, sums}, {kSquaresUid, sums + c.y[3]}};
    operands = operands.first(operands.size() - 1);
  }
  addresses[kResultUid] = operands.back();
  for (size_t i = 0; i + 1 < operands.size(); ++i)
    addresses[kFirstUid + static_cast<int64_t>(i)] = operands[i];
  return addresses;
}

using FindAddresses = std::function<Addresses(std::span<void* const> operands)>;

// Fills the graph, and says where its tensors lie.
FindAddresses describe(Graph& graph, const Convolution& c, bool) {
  ConvolutionGraph(c, graph).build();
  return [c](std::span<void* const> operands) { return addresses_of(c, operands); };
}
FindAddresses describe(Graph& graph, const FusedAttention& a, bool deterministic) {
  return
      [places = AttentionGraph(a, graph, deterministic).build()](std::span<void* const> operands) {
        Addresses addresses;
        for (size_t i = 0; i < places.size(); ++i)
          addresses[kFirstUid + static_cast<int64_t>(i)] =
              static_cast<char*>(operands[places[i].operand]) + places[i].bytes;
        return addresses;
      };
}

void execute(const Graph& graph, cudnnHandle_t handle, int64_t index, cudaStream_t stream,
             Addresses addresses, void* workspace) {
  assay::cuda::check(cudnnSetStream(handle, stream), "choosing cuDNN's stream");
  check(graph.execute_plan_at_index(handle, addresses, workspace, index), "running cuDNN");
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
  if (c.keeps_sums) bytes.push_back(bytes_of({2, c.y[3]}, DType::kF32));
  const TimingOperands operands(bytes, stream);
  std::optional<TimingBuffer> workspace;
  const auto prepare = [&](int64_t i) {
    if (graph.build_plan_at_index(i).is_bad()) return false;
    workspace.emplace(workspace_of(graph, i), stream);
    return true;
  };
  return fastest_of(graph.get_execution_plan_count(), stream, prepare, [&](int64_t i, int run) {
    execute(graph, handle, i, stream, addresses_of(c, operands.of(run)), workspace->data());
  });
}

// The first plan that builds; says why the last does not if none does.
std::optional<int64_t> first_that_builds(Graph& graph, std::string& why_not) {
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    fe::error_t built = graph.build_plan_at_index(i);
    if (built.is_good()) return i;
    why_not = built.get_message();
  }
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
             c.keeps_sums ? " sums" : "", c.tf32 ? " tf32" : "",
             deterministic ? " deterministic" : "");
}

std::string text_of(const FusedAttention& a, bool deterministic) {
  return cat("attention", a.is_gradient ? "_grad " : " ", a.tokens, " ", a.sequences, "x",
             a.longest, " ", a.heads, "x", a.size, " ", a.scale, " ", a.rate, " ", a.data,
             deterministic ? " deterministic" : "");
}

// What cuDNN plans on every device that the backend takes.
Convolution ordinary(const Convolution&) {
  Convolution c;
  c.geometry.pad_begin = c.geometry.pad_end = {1, 1};
  c.x = c.y = {1, 16, 16, 64};
  c.w = {64, 3, 3, 64};
  c.data = DType::kF16;
  return c;
}
FusedAttention ordinary(const FusedAttention&) {
  return {.tokens = 128, .sequences = 1, .heads = 1, .size = 64, .longest = 128};
}

// What it takes to plan one.
constexpr std::string_view needs_of(const Convolution&) {
  return "convolution on this device: install all of one cuDNN release that knows the device";
}
constexpr std::string_view needs_of(const FusedAttention&) {
  return "attention on this device: install all of one cuDNN release that knows the device, and "
         "NVRTC; it compiles attention, and loads it by the driver's libcuda.so.1";
}

}  // namespace

CudnnLibrary::CudnnLibrary(Tuning& tuning, const DeviceState& device)
    : tuning_(&tuning),
      life_(device.life()),
      deterministic_(device.options().deterministic),
      stream_(device.stream()),
      device_(life_->own(std::make_unique<CudnnDevice>())) {
  assay::cuda::check(cudnnGraphVersionCheck(), "comparing the versions of cuDNN's libraries");
  size_t free = 0;
  assay::cuda::check(cudaMemGetInfo(&free, &memory_), "asking for the device's memory");
}

CudnnLibrary::CudnnLibrary(const DescribedDevice& device)
    : memory_(device.memory), device_(std::make_shared<CudnnDevice>(device)) {}

CudnnLibrary::~CudnnLibrary() = default;

std::optional<LibraryCall> CudnnLibrary::plan(const Convolution& c) { return plan_once(c); }

std::optional<LibraryCall> CudnnLibrary::plan(const FusedAttention& a) { return plan_once(a); }

template <class Call>
std::optional<LibraryCall> CudnnLibrary::plan_once(const Call& call) {
  const std::string text = text_of(call, deterministic_);
  const auto found = planned_.find(text);
  if (found != planned_.end()) return found->second;
  std::string why_not;
  std::optional<LibraryCall> made = prepare(call, why_not);
  if (!made) require_working(ordinary(call));
  planned_.emplace(text, made);
  return made;
}

template <class Call>
void CudnnLibrary::require_working(const Call& ordinary) {
  const std::string text = text_of(ordinary, deterministic_);
  if (planned_.contains(text)) return;
  std::string why_not;
  const std::optional<LibraryCall> made = prepare(ordinary, why_not);
  require(made.has_value(), Code::kUnsupported, "cuDNN cannot plan an ordinary ",
          needs_of(ordinary), " (", why_not, ")");
  planned_.emplace(text, made);
}

std::shared_ptr<Graph> CudnnLibrary::make_graph() const {
  auto graph = std::make_unique<Graph>();
  return life_ ? life_->own(std::move(graph)) : std::move(graph);
}

std::optional<int64_t> CudnnLibrary::choose(Graph& graph, const Convolution& c,
                                            std::string& why_not) {
  if (tuning_ == nullptr || !tuning_->enabled()) return first_that_builds(graph, why_not);
  const std::string text = text_of(c, deterministic_);
  if (const auto known = of_name(graph, tuning_->find(text))) return known;
  const auto best = fastest(graph, device_->handle, c, stream_);
  if (!best) return first_that_builds(graph, why_not);
  tuning_->keep(text, name_of(graph, *best));
  return best;
}

std::optional<int64_t> CudnnLibrary::choose(Graph& graph, const FusedAttention&,
                                            std::string& why_not) {
  return first_that_builds(graph, why_not);
}

template <class Call>
std::optional<LibraryCall> CudnnLibrary::prepare(const Call& call, std::string& why_not) {
  const std::shared_ptr<Graph> graph = make_graph();
  const FindAddresses addresses = describe(*graph, call, deterministic_);
  fe::error_t proposed = propose(*graph, *device_, call, deterministic_, memory_);
  if (proposed.is_bad()) {
    why_not = proposed.get_message();
    return std::nullopt;
  }
  const std::optional<int64_t> index = choose(*graph, call, why_not);
  if (!index) return std::nullopt;
  const size_t workspace = workspace_of(*graph, *index);
  const auto run = [=, device = device_, i = *index](Stream stream, std::span<void* const> operands,
                                                     void* scratch) {
    require(device->handle != nullptr, Code::kInternal, "a plan made without a device was run");
    execute(*graph, device->handle, i, stream, addresses(operands), aligned_workspace(scratch));
  };
  return LibraryCall{
      cat("cudnn:", name_of(*graph, *index), workspace > 0 ? cat(" workspace=", workspace) : ""),
      with_room_to_align(workspace), run};
}

}  // namespace assay::cuda
