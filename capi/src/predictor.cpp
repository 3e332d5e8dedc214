// Predictors and slots through the C interface. Results are views of a program's outputs, one set
// per batch size, or copied to tensors of the caller.
#include <vector>

#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "capi/src/model.h"
#include "capi/src/planning_backend.h"
#include "capi/src/report_parts.h"
#include "capi/src/tensor.h"
#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"
#include "sdk/train/onnx/export.h"
#include "sdk/train/training_graph.h"

namespace assay::capi {
namespace {

struct OutputSpec {
  std::string name;
  ValueType row;  // of one sample, without the batch axis
};

// From a graph of one sample that is never planned.
std::vector<OutputSpec> output_specs(const ModelState& state,
                                     const train::PredictorOptions& options) {
  train::ModelInstance described(state.model(),
                                 std::make_shared<PlanningBackend>(state.context().backend()));
  const train::BuiltGraph built =
      train::build_predict_graph(*state.model(), described.variables(), options.precision, 1,
                                 options.disabled_passes, state.context().backend()->target());
  std::vector<OutputSpec> specs;
  for (const GraphOutput& output : built.graph.outputs()) {
    const ValueType& type = built.graph.type(output.value);
    specs.push_back({output.name, {type.dtype, Dims(type.dims.span().subspan(1))}});
  }
  return specs;
}

struct PredictorState {
  PredictorState(const ModelState& state, const train::PredictorOptions& options)
      : outputs(output_specs(state, options)), predictor(state.initialized_instance(), options) {}

  std::shared_ptr<const Context> context;
  std::string architecture;
  std::vector<OutputSpec> outputs;
  train::Predictor predictor;
};

// Shared by a slot's handle and the views of its results.
struct SlotState {
  explicit SlotState(std::shared_ptr<const PredictorState> parent)
      : predictor(std::move(parent)), slot(predictor->predictor) {}

  std::shared_ptr<const PredictorState> predictor;
  train::PredictorSlot slot;
  Access access;
};

PredictorReport describe(const PredictorState& state) {
  PredictorReport report;
  const train::PredictorOptions& options = state.predictor.options();
  report.set_architecture(state.architecture);
  report.set_precision(std::string(assay::to_text(options.precision)));
  report.set_use_ema(options.use_ema);
  report.set_max_batch(static_cast<double>(options.max_batch));
  set_inputs(*report.mutable_inputs(), state.predictor.inputs());
  for (const OutputSpec& output : state.outputs) {
    OutputRow& row = *report.add_outputs();
    row.set_name(output.name);
    row.set_dtype(std::string(assay::to_text(output.row.dtype)));
    set_shape(*row.mutable_sample_shape(), output.row.dims.span());
  }
  return report;
}

}  // namespace
}  // namespace assay::capi

struct assay_predictor {
  std::shared_ptr<const assay::capi::PredictorState> impl;
};

namespace assay::capi {

// A program of the slot with one view per output, for callers who want the results in place.
struct SlotPlan {
  std::shared_ptr<Program> program;
  std::vector<TensorOwner> views;
};

}  // namespace assay::capi

struct assay_slot {
  std::shared_ptr<assay::capi::SlotState> impl;
  // Of the programs that `impl` keeps. Views keep `impl` alive, so they stand outside of it.
  std::vector<assay::capi::SlotPlan> plans;
};

namespace assay::capi {
namespace {

// What a view of a result keeps alive: it may outlive the slot, or the slot's interest in its
// batch size.
struct ViewOwner {
  std::shared_ptr<SlotState> slot;  // gone after the program, which uses its predictor's device
  std::shared_ptr<Program> program;
};

// Views are made once per program. Those of programs that the slot has given up go, unless the
// caller holds them.
SlotPlan& plan_of(assay_slot& slot, int64_t batch) {
  const std::shared_ptr<Program>& program = slot.impl->slot.prepare(batch);
  for (SlotPlan& plan : slot.plans) {
    if (plan.program == program) return plan;
  }
  std::erase_if(slot.plans,
                [&](const SlotPlan& plan) { return !slot.impl->slot.keeps(plan.program); });
  SlotPlan plan{program, {}};
  plan.views.reserve(program->outputs().size());
  const auto owner = std::make_shared<ViewOwner>(ViewOwner{slot.impl, program});
  for (const Program::Port& output : program->outputs()) {
    plan.views.emplace_back(new assay_tensor(output.type.dtype, output.type.dims, output.data,
                                             ASSAY_TENSOR_READ_ONLY, slot.impl->access, owner,
                                             slot.impl->predictor->context.get()));
  }
  return slot.plans.emplace_back(std::move(plan));
}

// The places a run writes its results to.
class Results {
 public:
  // Checks what the caller gave.
  Results(const SlotPlan& plan, const Context& context, assay_tensor** out, size_t n)
      : program_(*plan.program), out_(out), n_(n), views_(plan.views) {
    for (size_t i = 0; i < n_; ++i) {
      if (out_[i] == nullptr || out_[i] == views_[i].get()) continue;
      const ValueType& expected = program_.outputs()[i].type;
      const ValueType actual{out_[i]->dtype, out_[i]->dims};
      if (actual != expected) [[unlikely]]
        fail_mismatch(Code::kInvalid, {cat("out[", i, "] (", program_.outputs()[i].name, ")"),
                                       "out", assay::to_text(actual), assay::to_text(expected)});
      const bool read_only = (out_[i]->flags & ASSAY_TENSOR_READ_ONLY) != 0;
      const Context* const device = out_[i]->on_device;
      const bool elsewhere = device != nullptr && !context.has_device(device->device());
      if (read_only || elsewhere) [[unlikely]]
        fail_mismatch(
            Code::kInvalid,
            {cat("out[", i, "]"), "out",
             read_only ? "a read-only tensor, and no view of this plan"
                       : "in the memory of another device",
             "NULL or a tensor of yours in memory of the host or of the predictor's GPU"});
      uses_[i].emplace(*out_[i]->access, "output tensor");
    }
  }

  // Views come last: what fails before leaves NULL as it was.
  void deliver() {
    for (size_t i = 0; i < n_; ++i) {
      if (!uses_[i].has_value()) continue;
      const Program::Port& output = program_.outputs()[i];
      if (out_[i]->on_device != nullptr)
        program_.backend().copy(out_[i]->data, output.data, output.type.bytes());
      else
        program_.backend().read(out_[i]->data, output.data, output.type.bytes());
    }
    program_.backend().wait();
    for (size_t i = 0; i < n_; ++i) {
      if (out_[i] == nullptr) out_[i] = assay_tensor_retain(views_[i].get());
    }
  }

  static constexpr size_t kMost = 32;

 private:
  const Program& program_;
  assay_tensor** out_;
  size_t n_;
  const std::vector<TensorOwner>& views_;
  std::array<std::optional<ExclusiveUse>, kMost> uses_;
};

int64_t batch_of(std::span<const train::HostTensor> inputs,
                 std::span<const nn::InputSpec> expected) {
  if (inputs.size() != expected.size()) [[unlikely]]
    fail_mismatch(Code::kInvalid, {"n_in", "n_in", cat(inputs.size()),
                                   cat(expected.size(), ": ", nn::names_of(expected))});
  if (inputs[0].dims.rank() == 0) [[unlikely]]
    fail_mismatch(Code::kInvalid, {cat("in[0] (", expected[0].name, ")"), "in", "a scalar",
                                   "a tensor with a batch axis"});
  return inputs[0].dims[0];
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_predictor_create(const assay_model* m, assay_str config_json,
                                    assay_predictor** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& model = not_null(m, "m").impl;
    const train::PredictorOptions options =
        read_predictor_config(to_text(config_json, "config_json"));
    const SharedUse use(model->access(), "model");
    auto state = std::make_shared<PredictorState>(*model, options);
    model->context().backend()->wait();  // others may write to the weights it has copied
    state->context = model->shared_context();
    state->architecture = model->model()->architecture();
    *out = new assay_predictor{std::move(state)};
  });
}

assay_status assay_predictor_report(const assay_predictor* p, assay_report** out,
                                    assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new_report(describe(*not_null(p, "p").impl));
  });
}

assay_status assay_predictor_export(const assay_predictor* p, assay_str path, assay_str format,
                                    assay_report** out, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    if (out != nullptr) *out = nullptr;
    const PredictorState& state = *not_null(p, "p").impl;
    const std::string file = checked_path(path, "path");
    expect_one_of({"", "format"}, to_text(format, "format"), {"onnx"});
    const onnx::ExportReport written = onnx::export_predictor(state.predictor, file);
    if (out == nullptr) return;
    ExportedPredictor report;
    report.set_path(file);
    report.set_format("onnx");
    report.set_opset(static_cast<double>(onnx::kOpset));
    report.set_nodes(static_cast<double>(written.nodes));
    report.set_file_bytes(static_cast<double>(written.file_bytes));
    *out = new_report(report);
  });
}

assay_status assay_slot_create(const assay_predictor* p, assay_slot** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new assay_slot{std::make_shared<SlotState>(not_null(p, "p").impl), {}};
  });
}

assay_status assay_slot_prepare(assay_slot* slot, int64_t batch, assay_error** err) {
  return guard(err, [&] {
    SlotState& state = *not_null(slot, "slot").impl;
    const ExclusiveUse use(state.access, "slot");
    plan_of(*slot, batch);
  });
}

assay_status assay_predictor_run(const assay_predictor* p, assay_slot* slot,
                                 const assay_tensor* const* in, size_t n_in, assay_tensor** out,
                                 size_t n_out, assay_error** err) {
  return guard(err, [&] {
    const auto& predictor = not_null(p, "p").impl;
    SlotState& state = *not_null(slot, "slot").impl;
    expect(state.predictor == predictor, {"", "slot"}, "of another predictor", "a slot of p");
    check_array(out, n_out, "out");
    expect(n_out <= std::min(predictor->outputs.size(), Results::kMost), {"", "n_out"}, n_out,
           "at most ", predictor->outputs.size(), ", the predictor's outputs");
    const ExclusiveUse use(state.access, "slot");
    const BatchUse inputs(in, n_in, "in");
    const Operation operation(*predictor->context, slot);
    const int64_t batch = batch_of(inputs.tensors(), predictor->predictor.inputs());
    Results results(plan_of(*slot, batch), *predictor->context, out, n_out);
    state.slot.run(inputs.tensors(), operation.flag());
    results.deliver();
  });
}

assay_status assay_slot_interrupt(const assay_slot* slot) {
  return guard(nullptr, [&] { not_null(slot, "slot").impl->predictor->context->interrupt(slot); });
}

assay_status assay_slot_profile(assay_slot* slot, int64_t batch, int32_t repeats,
                                assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    SlotState& state = *not_null(slot, "slot").impl;
    expect(repeats >= 1 && repeats <= 1000, {"", "repeats"}, repeats, "1 to 1000");
    const ExclusiveUse use(state.access, "slot");
    Program& program = *plan_of(*slot, batch).program;
    ProfileReport report;
    set_program_memory(*report.mutable_memory(), program.memory());
    add_profile(report, program, repeats);
    *out = new_report(report);
  });
}

void assay_slot_free(assay_slot* slot) { delete slot; }

void assay_predictor_free(assay_predictor* p) { delete p; }
