// A node's work as a chain of oneDNN primitives, planned once and launched without allocating on
// our side.
//
// Activations are dense NHWC. For weights oneDNN chooses the layout (its kernels for plain weights
// are reference loops, 20 to 2000 times slower); the chain reorders them in scratch at each launch.
// Included by the ops built on oneDNN only.
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

const dnnl::engine& dnnl_engine();
dnnl::memory::data_type dnnl_type(DType dtype);

// Whether oneDNN multiplies in tiles (AMX): bf16 then runs at 16 times the rate of f32.
bool has_tiles(DType dtype);

// Dense, row-major (the last dimension contiguous).
dnnl::memory::desc dense_desc(const Dims& dims, DType dtype);

// Attributes every primitive here has: the scratchpad comes from the node's scratch.
dnnl::primitive_attr dnnl_attributes();
// Appends y = f(y); nothing for kNone.
void append_activation(dnnl::post_ops& ops, ActivationKind kind);

class DnnlChain {
 public:
  // Where a tensor stands: an input or output of the node, or scratch.
  using TensorId = int;
  using Arguments = std::vector<std::pair<int, TensorId>>;  // DNNL_ARG_..., tensor

  // `op` names the node in messages.
  DnnlChain(const Planner& c, std::string_view op);

  // What is made of this input alone may be made once (NodePlan::prepare). Call before `input`.
  void allow_preparing(int input) { prepared_input_ = input; }

  TensorId input(int i, const dnnl::memory::desc& desc);
  // From its element `first` on.
  TensorId input_from(int i, int64_t first, const dnnl::memory::desc& desc);
  TensorId output(int i, const dnnl::memory::desc& desc);
  TensorId scratch(const dnnl::memory::desc& desc);
  // Room for what is made of `from` alone: prepared memory if that can be made once, else scratch.
  TensorId room_for(TensorId from, const dnnl::memory::desc& desc);
  // A part of `whole`, or that seen otherwise: its offset is in `desc`.
  TensorId part(TensorId whole, const dnnl::memory::desc& desc);

  // `from` as `desc`: itself if it already is, else converted into room for it.
  TensorId as(TensorId from, const dnnl::memory::desc& desc);
  // Where to compute what ends as `to`: itself, or scratch that a `copy` brings there afterwards.
  TensorId before(TensorId to, const dnnl::memory::desc& desc);
  // Converts `from` to `to` unless they are the same tensor (or, when bound, the same memory).
  void copy(TensorId from, TensorId to);
  // to += from, of one layout.
  void accumulate(TensorId from, TensorId to);

  template <class Primitive>
  void add(const typename Primitive::primitive_desc& desc, const Arguments& arguments) {
    add(Primitive(desc), desc.scratchpad_desc(), arguments);
  }

  // The plan: kernel name "dnnl:<implementation>", scratch and the bind function.
  NodePlan finish(const std::string& implementation) const;

 private:
  enum class Place { kInput, kOutput, kScratch, kPrepared };
  struct Tensor {
    Place place;
    size_t index;  // of the input or output, or the offset in scratch or prepared memory
    dnnl::memory::desc desc;
    size_t skipped_bytes = 0;  // of the input
  };
  struct Step {
    dnnl::primitive primitive;  // none: a conversion of types by our own kernels
    Arguments arguments;
    dnnl::memory::desc scratchpad;
    TensorId from = -1, to = -1;  // of a copy
    bool prepares = false;        // needs to run but once if there is prepared memory
  };
  class Bound;
  enum class Phase { kPrepare, kRun };

  void add(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
           const Arguments& arguments);
  TensorId add_tensor(Tensor tensor);
  bool is_preparable(TensorId tensor) const;
  std::string prepared_form() const;
  size_t scratchpad_offset() const { return scratch_bytes_; }
  size_t unprepared_offset() const { return scratch_bytes_ + scratchpad_bytes_; }

  std::string what_, scope_;  // for messages
  int threads_;
  std::vector<Tensor> tensors_;
  std::vector<Step> steps_;
  int prepared_input_ = -1;
  // Scratch: tensors, then the scratchpad all steps share, then what could not be prepared.
  size_t scratch_bytes_ = 0;
  size_t scratchpad_bytes_ = 0;
  size_t prepared_bytes_ = 0;
};

// Plans with `build(compute type)`. bf16 primitives exist only on processors with AVX-512, and on
// some of those they take twice the time of f32; elsewhere the same primitive is built in f32 and
// the chain converts its operands: same rounding of inputs and results, more memory traffic.
// Failures of oneDNN become Errors that name op, scope and shapes.
NodePlan plan_with_dnnl(const Planner& c, std::string_view op,
                        const std::function<NodePlan(DType compute)>& build);

}  // namespace assay::cpu
