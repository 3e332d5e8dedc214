// Chains of oneDNN primitives: tensors and steps while a node is planned, memories and arguments
// once addresses are known. What is made of a constant input alone may be prepared, that is run
// once.
#include "sdk/backend/cpu/onednn.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "sdk/backend/cpu/ops/own_kernel.h"
#include "sdk/base/align.h"

namespace assay::cpu {
namespace {

int element_of_desc(const dnnl::memory::desc& desc) {
  return desc.data.data_type == dnnl_bf16 ? kElementBf16 : kElementF32;
}

Code code_of(dnnl_status_t status) {
  switch (status) {
    case dnnl_unimplemented:
      return Code::kUnsupported;
    case dnnl_out_of_memory:
      return Code::kOutOfHostMemory;
    default:
      return Code::kDevice;
  }
}

// "conv2d at layer1.0.conv1 (f32[64,32,32,64], f32[64,3,3,64] -> f32[64,32,32,64])"
std::string describe(const Planner& c, std::string_view op) {
  std::string text = cat(op, c.scope().empty() ? "" : " at ", c.scope(), " (");
  for (int i = 0; i < c.n_inputs(); ++i) text += cat(i == 0 ? "" : ", ", c.x(i));
  text += " -> ";
  for (int i = 0; i < c.n_outputs(); ++i) text += cat(i == 0 ? "" : ", ", c.y(i));
  return text + ")";
}

// oneDNN counts rows in 32 bits, and divides by what has overflowed.
void require_countable(const Planner& c, std::string_view op) {
  const auto check = [&](const Dims& dims) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const int64_t rows = dims.rank() == 0 ? 1 : dims.numel() / std::max<int64_t>(dims.back(), 1);
    require(rows <= kMost, Code::kUnsupported, describe(c, op), ": oneDNN counts at most ", kMost,
            " rows, here are ", rows, "; use a smaller batch");
  };
  for (int i = 0; i < c.n_inputs(); ++i) check(c.x(i).dims);
  for (int i = 0; i < c.n_outputs(); ++i) check(c.y(i).dims);
}

[[noreturn]] void fail_dnnl(dnnl_status_t status, const std::string& what, const std::string& scope,
                            const std::string& reason) {
  ErrorDetail detail;
  detail.domain = Domain::kOneDnn;
  detail.native_code = status;
  detail.op_path = scope;
  fail(code_of(status), cat(what, ": oneDNN ", reason, " (status ", static_cast<int>(status), ")"),
       std::move(detail));
}

// Intel's cores since Golden Cove multiply pairs of bf16 at half the rate of f32: 87 and 176
// GFLOP/s (measured on an Emerald Rapids). There AMX is for bf16, which some hosts hide from
// guests. The environment variable ASSAY_CPU_BF16=always keeps to bf16, for tests and comparisons.
bool is_bf16_slower_than_f32() {
#ifdef __x86_64__
  constexpr unsigned kAvx512Fp16 = 1u << 23;  // CPUID 7.0 EDX: Golden Cove or a successor
  unsigned a = 0, b = 0, c = 0, d = 0;
  const char* const variable = std::getenv("ASSAY_CPU_BF16");
  if (variable != nullptr && std::string_view(variable) == "always") return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAvx512Fp16) != 0 &&
         dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_bf16;
#else
  return false;
#endif
}

}  // namespace

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

bool has_tiles(DType dtype) {
  static const bool kAvailable = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
  return dtype == DType::kBf16 && kAvailable;
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc dense_desc(const Dims& dims, DType dtype) {
  const dnnl::memory::dims sizes(dims.span().begin(), dims.span().end());
  dnnl::memory::dims strides(sizes.size(), 1);
  for (size_t axis = sizes.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * sizes[axis];
  return {sizes, dnnl_type(dtype), strides};
}

dnnl::primitive_attr dnnl_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void append_activation(dnnl::post_ops& ops, ActivationKind kind) {
  using dnnl::algorithm;
  switch (kind) {
    case ActivationKind::kNone:
      return;
    case ActivationKind::kRelu:
      return ops.append_eltwise(1, algorithm::eltwise_relu, 0, 0);
    case ActivationKind::kElu:
      return ops.append_eltwise(1, algorithm::eltwise_elu, 1, 0);
    case ActivationKind::kTanh:
      return ops.append_eltwise(1, algorithm::eltwise_tanh, 0, 0);
    case ActivationKind::kSigmoid:
      return ops.append_eltwise(1, algorithm::eltwise_logistic, 0, 0);
    case ActivationKind::kGelu:
      return ops.append_eltwise(1, algorithm::eltwise_gelu_erf, 0, 0);
    case ActivationKind::kSwish:
      return ops.append_eltwise(1, algorithm::eltwise_swish, 1, 0);
    case ActivationKind::kGeluTanh:
      return ops.append_eltwise(1, algorithm::eltwise_gelu_tanh, 0, 0);
  }
}

// ---- Building ----

DnnlChain::DnnlChain(const Planner& c, std::string_view op)
    : what_(describe(c, op)), scope_(c.scope()), threads_(c.threads()) {}

DnnlChain::TensorId DnnlChain::add_tensor(Tensor tensor) {
  tensors_.push_back(tensor);
  return static_cast<TensorId>(tensors_.size()) - 1;
}

DnnlChain::TensorId DnnlChain::input(int i, const dnnl::memory::desc& desc) {
  return add_tensor({Place::kInput, static_cast<size_t>(i), desc});
}

DnnlChain::TensorId DnnlChain::input_from(int i, int64_t first, const dnnl::memory::desc& desc) {
  const size_t size = dnnl::memory::data_type_size(desc.data_type());
  return add_tensor(
      {Place::kInput, static_cast<size_t>(i), desc, static_cast<size_t>(first) * size});
}

DnnlChain::TensorId DnnlChain::output(int i, const dnnl::memory::desc& desc) {
  return add_tensor({Place::kOutput, static_cast<size_t>(i), desc});
}

DnnlChain::TensorId DnnlChain::scratch(const dnnl::memory::desc& desc) {
  const size_t offset = scratch_bytes_;
  scratch_bytes_ += align_up(desc.get_size());
  return add_tensor({Place::kScratch, offset, desc});
}

DnnlChain::TensorId DnnlChain::room_for(TensorId from, const dnnl::memory::desc& desc) {
  if (!is_preparable(from)) return scratch(desc);
  const size_t offset = prepared_bytes_;
  prepared_bytes_ += align_up(desc.get_size());
  return add_tensor({Place::kPrepared, offset, desc});
}

DnnlChain::TensorId DnnlChain::part(TensorId whole, const dnnl::memory::desc& desc) {
  return add_tensor({tensors_[whole].place, tensors_[whole].index, desc});
}

DnnlChain::TensorId DnnlChain::as(TensorId from, const dnnl::memory::desc& desc) {
  if (tensors_[from].desc == desc) return from;
  TensorId last = from;
  // Our own kernels change the type, oneDNN's the layout.
  dnnl::memory::desc of_type = tensors_[from].desc;
  of_type.data.data_type = desc.data.data_type;
  if (of_type != tensors_[from].desc && of_type != desc) {
    last = scratch(of_type);
    copy(from, last);
    steps_.back().prepares = is_preparable(from);
  }
  const TensorId to = room_for(from, desc);
  copy(last, to);
  return to;
}

bool DnnlChain::is_preparable(TensorId id) const {
  const Tensor& tensor = tensors_[id];
  return tensor.place == Place::kPrepared ||
         (tensor.place == Place::kInput && static_cast<int>(tensor.index) == prepared_input_);
}

DnnlChain::TensorId DnnlChain::before(TensorId to, const dnnl::memory::desc& desc) {
  return tensors_[to].desc == desc ? to : scratch(desc);
}

void DnnlChain::copy(TensorId from, TensorId to) {
  if (from == to) return;
  const dnnl::memory::desc &source = tensors_[from].desc, &target = tensors_[to].desc;
  Step step{{}, {}, {}, from, to, tensors_[to].place == Place::kPrepared};
  // Types are converted by our own kernels: oneDNN has no bf16 at all where it has no bf16
  // primitives, which is the one case that needs it.
  if (source.data.data_type == target.data.data_type) {
    const dnnl::reorder::primitive_desc desc(dnnl_engine(), source, dnnl_engine(), target,
                                             dnnl_attributes());
    step.primitive = dnnl::reorder(desc);
    step.scratchpad = desc.scratchpad_desc();
    step.arguments = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    scratchpad_bytes_ = std::max(scratchpad_bytes_, align_up(step.scratchpad.get_size()));
  }
  steps_.push_back(std::move(step));
}

void DnnlChain::accumulate(TensorId from, TensorId to) {
  const dnnl::memory::desc &term = tensors_[from].desc, &sum = tensors_[to].desc;
  const dnnl::binary::desc addition(dnnl::algorithm::binary_add, sum, term, sum);
  add<dnnl::binary>({addition, dnnl_attributes(), dnnl_engine()},
                    {{DNNL_ARG_SRC_0, to}, {DNNL_ARG_SRC_1, from}, {DNNL_ARG_DST, to}});
}

void DnnlChain::add(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                    const Arguments& arguments) {
  scratchpad_bytes_ = std::max(scratchpad_bytes_, align_up(scratchpad.get_size()));
  steps_.push_back({std::move(primitive), arguments, scratchpad});
}

// ---- Running ----

namespace {

// Elements of a tensor that lie side by side, again and again.
struct Runs {
  struct Axis {
    int64_t size, stride;
  };
  std::vector<Axis> outer;
  int64_t elems = 0;  // of a run

  int64_t count() const {
    int64_t n = 1;
    for (const Axis& axis : outer) n *= axis.size;
    return n;
  }
  int64_t begin(int64_t run) const {
    int64_t at = 0;
    for (size_t i = outer.size(); i-- > 0; run /= outer[i].size)
      at += run % outer[i].size * outer[i].stride;
    return at;
  }
};

Runs runs_of(const dnnl::memory::desc& desc) {
  const auto& blocks = desc.data.format_desc.blocking;
  if (blocks.inner_nblks > 0) {
    const size_t size = dnnl::memory::data_type_size(desc.data_type());
    return {{}, static_cast<int64_t>(desc.get_size() / size)};
  }
  Runs runs{{}, 1};
  for (int i = 0; i < desc.data.ndims; ++i) {
    if (desc.data.dims[i] != 1) runs.outer.push_back({desc.data.dims[i], blocks.strides[i]});
  }
  std::ranges::sort(runs.outer, std::greater<>(), &Runs::Axis::stride);
  for (; !runs.outer.empty() && runs.outer.back().stride == runs.elems; runs.outer.pop_back())
    runs.elems *= runs.outer.back().size;
  return runs;
}

}  // namespace

// The chain with addresses: everything oneDNN takes per call is built here, once.
class DnnlChain::Bound {
 public:
  Bound(const DnnlChain& chain, const Binding& binding, Phase phase)
      : stream_(dnnl_engine()), threads_(chain.threads_), what_(chain.what_), scope_(chain.scope_) {
    for (const Tensor& tensor : chain.tensors_)
      memories_.emplace_back(tensor.desc, dnnl_engine(), address(chain, tensor, binding));
    for (const Step& step : chain.steps_) {
      if (phase == Phase::kPrepare && !step.prepares) continue;
      if (phase == Phase::kRun && step.prepares && binding.prepared != nullptr) continue;
      if (step.from >= 0 && same_memory(step.from, step.to)) continue;
      calls_.push_back(step.primitive ? call_of(chain, step, binding) : conversion_of(step));
    }
  }

  void run() const {
    for (const Call& call : calls_) {
      if (call.convert != nullptr) {
        run_conversion(call);
        continue;
      }
      const dnnl_status_t status =
          dnnl_primitive_execute(call.primitive.get(), stream_.get(),
                                 static_cast<int>(call.arguments.size()), call.arguments.data());
      if (status != dnnl_success) [[unlikely]]
        fail_dnnl(status, what_, scope_, "failed to run");
    }
  }

 private:
  using Convert = void (*)(const void*, void*, int64_t);
  struct Call {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    Convert convert = nullptr;
    const void* from = nullptr;
    void* to = nullptr;
    size_t from_size = 0, to_size = 0;
    Runs runs;
  };

  static void* address(const DnnlChain& chain, const Tensor& tensor, const Binding& binding) {
    switch (tensor.place) {
      case Place::kInput:
        return static_cast<std::byte*>(binding.inputs[tensor.index]) + tensor.skipped_bytes;
      case Place::kOutput:
        return binding.outputs[tensor.index];
      case Place::kScratch:
        return static_cast<std::byte*>(binding.scratch) + tensor.index;
      case Place::kPrepared:
        return (binding.prepared != nullptr
                    ? static_cast<std::byte*>(binding.prepared)
                    : static_cast<std::byte*>(binding.scratch) + chain.unprepared_offset()) +
               tensor.index;
    }
    return nullptr;
  }

  bool same_memory(TensorId a, TensorId b) const {
    return memories_[a].get_data_handle() == memories_[b].get_data_handle();
  }

  Call call_of(const DnnlChain& chain, const Step& step, const Binding& binding) {
    Call call;
    call.primitive = step.primitive;
    for (const auto& [argument, id] : step.arguments)
      call.arguments.push_back({argument, memories_[id].get()});
    if (step.scratchpad.get_size() > 0) {
      scratchpads_.emplace_back(
          step.scratchpad, dnnl_engine(),
          static_cast<std::byte*>(binding.scratch) + chain.scratchpad_offset());
      call.arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpads_.back().get()});
    }
    return call;
  }

  Call conversion_of(const Step& step) const {
    const dnnl::memory::desc from = memories_[step.from].get_desc();
    const dnnl::memory::desc to = memories_[step.to].get_desc();
    Call call;
    call.convert = kernels().elementwise->cast[element_of_desc(from)][element_of_desc(to)];
    call.from = memories_[step.from].get_data_handle();
    call.to = memories_[step.to].get_data_handle();
    call.from_size = dnnl::memory::data_type_size(from.data_type());
    call.to_size = dnnl::memory::data_type_size(to.data_type());
    call.runs = runs_of(to);
    return call;
  }

  // What lies between runs belongs to others.
  void run_conversion(const Call& call) const {
    const auto convert = [&](int64_t begin, int64_t n) {
      call.convert(at(call.from, begin, call.from_size), at(call.to, begin, call.to_size), n);
    };
    const bool is_one = call.runs.outer.empty();
    const Chunks chunks =
        is_one ? chunks_of(call.runs.elems) : chunks_of(call.runs.count(), call.runs.elems);
    parallel_for(threads_, chunks.count(), [&](int64_t i) {
      if (is_one) return convert(chunks.begin(i), chunks.length(i));
      for (int64_t run = chunks.begin(i); run < chunks.end(i); ++run)
        convert(call.runs.begin(run), call.runs.elems);
    });
  }

  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;  // by id
  std::vector<dnnl::memory> scratchpads_;
  std::vector<Call> calls_;
  int threads_;
  std::string what_, scope_;
};

namespace {

// Equal for equal descriptors only; "" for kinds that cannot be told apart.
std::string form_of(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked) return "";
  std::string form = cat(static_cast<int>(d.data_type), " ", d.offset0, " ", d.extra.flags, " ",
                         d.extra.compensation_mask, " ", d.extra.scale_adjust);
  const auto& blocks = d.format_desc.blocking;
  for (int i = 0; i < d.ndims; ++i)
    form += cat(" ", d.dims[i], "/", d.padded_dims[i], "/", blocks.strides[i]);
  for (int i = 0; i < blocks.inner_nblks; ++i)
    form += cat(" ", blocks.inner_blks[i], "@", blocks.inner_idxs[i]);
  return form;
}

}  // namespace

std::string DnnlChain::prepared_form() const {
  std::string forms = "dnnl";
  for (const Tensor& tensor : tensors_) {
    if (tensor.place != Place::kPrepared) continue;
    const std::string form = form_of(tensor.desc);
    if (form.empty()) return "";
    forms += cat(", ", form);
  }
  return forms;
}

NodePlan DnnlChain::finish(const std::string& implementation) const {
  NodePlan plan;
  plan.kernel = cat("dnnl:", implementation);
  plan.scratch_bytes = scratch_bytes_ + scratchpad_bytes_ + prepared_bytes_;
  const auto chain = std::make_shared<const DnnlChain>(*this);
  const auto bind = [chain](Phase phase) {
    return [chain, phase](const Binding& binding) -> Launch {
      const auto bound = std::make_shared<const Bound>(*chain, binding, phase);
      return [bound](Queue&) { bound->run(); };
    };
  };
  plan.bind = bind(Phase::kRun);
  if (prepared_bytes_ > 0) {
    plan.prepare = {prepared_input_, prepared_bytes_, scratch_bytes_ + scratchpad_bytes_,
                    prepared_form(), bind(Phase::kPrepare)};
  }
  return plan;
}

NodePlan plan_with_dnnl(const Planner& c, std::string_view op,
                        const std::function<NodePlan(DType compute)>& build) {
  static const bool kAvoidsBf16 = is_bf16_slower_than_f32();
  require_countable(c, op);
  try {
    if (c.x(0).dtype == DType::kBf16 && !kAvoidsBf16) {
      try {
        return build(DType::kBf16);
      } catch (const dnnl::error& error) {
        if (error.status != dnnl_unimplemented) throw;
      }
    }
    return build(DType::kF32);
  } catch (const dnnl::error& error) {
    fail_dnnl(error.status, describe(c, op), c.scope(), error.message);
  }
}

}  // namespace assay::cpu
