#include "sdk/backend/cuda/cudnn.h"

#include "sdk/backend/cuda/cudnn_frontend.h"
#include "sdk/backend/cuda/workspace.h"

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

// A 32nd of the device's memory: 4.4 GiB of an H200. Kernels on tensor cores ask for up to a GiB
// where images have few channels, and what they leave of the list does not use tensor cores. All
// nodes of a program share that memory.
int64_t most_workspace(size_t memory) { return static_cast<int64_t>(memory / 32); }

void check(fe::error_t result, std::string_view doing) {  // its getters are not const
  if (result.is_good()) return;
  ErrorDetail detail;
  detail.domain = Domain::kCudnn;
  detail.native_code = static_cast<int64_t>(result.get_code());
  fail(Code::kDevice, cat(doing, ": ", result.get_message()), std::move(detail));
}

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
                               const FindAddresses& addresses, cudaStream_t stream) {
  std::vector<size_t> bytes{bytes_of(c.x, c.data), bytes_of(c.w, c.data)};
  if (c.kind == ConvolutionKind::kGradData) bytes[0] = bytes_of(c.y, c.data);
  if (c.kind == ConvolutionKind::kGradWeight) bytes[1] = bytes_of(c.y, c.data);
  if (c.has_bias) bytes.push_back(bytes_of({c.y[3]}, c.data));
  if (c.has_addend) bytes.push_back(bytes_of(c.x, c.data));
  if (c.has_residual) bytes.push_back(bytes_of(c.norms > 0 ? c.x : c.y, c.data));
  for (int64_t i = 0; i < c.norms; ++i) {
    bytes.push_back(bytes_of(c.x, c.data));
    for (int k = 0; k < 4; ++k) bytes.push_back(bytes_of({c.x[3]}, DType::kF32));
  }
  bytes.push_back(bytes_of(result_of(c), c.data));
  if (c.keeps_sums) bytes.push_back(bytes_of({2, c.y[3]}, DType::kF32));
  for (int64_t i = 0; i < 2 * c.norms; ++i) bytes.push_back(bytes_of({c.x[3]}, DType::kF32));
  if (c.norms > 0) bytes.push_back(bytes_of({c.norms, 3, c.x[3]}, DType::kF32));
  const TimingOperands operands(bytes, stream);
  std::optional<TimingBuffer> workspace;
  const auto prepare = [&](int64_t i) {
    if (graph.build_plan_at_index(i).is_bad()) return false;
    workspace.emplace(workspace_of(graph, i), stream);
    return true;
  };
  return fastest_of(graph.get_execution_plan_count(), stream, prepare, [&](int64_t i, int run) {
    execute(graph, handle, i, stream, addresses(operands.of(run)), workspace->data());
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
             c.keeps_sums ? " sums" : "", c.norms > 0 ? cat(" norms", c.norms) : "",
             c.has_addend ? " addend" : "", c.tf32 ? " tf32" : "",
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

CudnnLibrary::CudnnLibrary(const DescribedDevice& device, bool deterministic)
    : deterministic_(deterministic),
      memory_(device.memory),
      device_(std::make_shared<CudnnDevice>(device)) {}

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
                                            const FindAddresses& addresses, std::string& why_not) {
  if (tuning_ == nullptr || !tuning_->enabled()) return first_that_builds(graph, why_not);
  const std::string text = text_of(c, deterministic_);
  if (const auto known = of_name(graph, tuning_->find(text))) return known;
  const auto best = fastest(graph, device_->handle, c, addresses, stream_);
  if (!best) return first_that_builds(graph, why_not);
  tuning_->keep(text, name_of(graph, *best));
  return best;
}

std::optional<int64_t> CudnnLibrary::choose(Graph& graph, const FusedAttention&,
                                            const FindAddresses&, std::string& why_not) {
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
  const std::optional<int64_t> index = choose(*graph, call, addresses, why_not);
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
