// Models through the C interface. Variables are made at first use, so that describing and checking
// a model takes no memory.
#include "capi/src/model.h"

#include "capi/src/abi.h"
#include "capi/src/planning_backend.h"
#include "capi/src/report_parts.h"
#include "capi/src/tensor.h"
#include "models/models.h"
#include "sdk/base/expect.h"

namespace assay::capi {

const std::shared_ptr<train::ModelInstance>& ModelState::make_instance() {
  if (!instance_) {
    instance_ = std::make_shared<train::ModelInstance>(model_, context_->backend());
  }
  return instance_;
}

train::ModelInstance& ModelState::initialized_instance() const {
  require(initialized(), Code::kInvalid,
          "the model has no weights yet: initialize it, load weights, or make a trainer");
  return *instance_;
}

namespace {

ModelList list_models() {
  ModelList list;
  for (const models::ModelEntry& entry : models::model_entries()) {
    ModelRow& row = *list.add_models();
    row.set_name(std::string(entry.name));
    row.set_summary(std::string(entry.summary));
    row.set_config(entry.create("")->config_json());
  }
  return list;
}

ModelReport describe(const ModelState& state) {
  ModelReport report;
  const nn::Model& model = *state.model();
  report.set_architecture(model.architecture());
  report.set_config(model.config_json());
  report.set_initialized(state.initialized());
  set_inputs(*report.mutable_inputs(), model.inputs(nn::Mode::kEval));
  // The variables of an instance without memory: describing a model needs none.
  const train::ModelInstance instance(state.model(),
                                      std::make_shared<PlanningBackend>(state.context().backend()));
  const double parameters = static_cast<double>(instance.variables().parameter_count());
  report.set_parameters(parameters);
  report.set_parameter_bytes(parameters * static_cast<double>(sizeof(float)));
  for (const Variable& variable : instance.variables().all()) {
    if (variable.role == Role::kState) continue;
    VariableRow& row = *report.add_variables();
    row.set_name(variable.name);
    row.set_role(std::string(assay::to_text(variable.role)));
    row.set_dtype(std::string(assay::to_text(variable.dtype)));
    set_shape(*row.mutable_shape(), variable.dims.span());
    row.set_elements(static_cast<double>(variable.dims.numel()));
    row.set_kind(std::string(assay::to_text(variable.kind)));
    row.set_initializer(assay::to_text(variable.initializer));
  }
  return report;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_model_list(assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new_report(list_models());
  });
}

assay_status assay_model_named(const assay_context* c, assay_str arch, assay_str config_json,
                               assay_model** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    std::shared_ptr<const nn::Model> model =
        models::create_model(to_text(arch, "arch"), to_text(config_json, "config_json"));
    *out = new assay_model{std::make_shared<ModelState>(context, std::move(model))};
  });
}

assay_status assay_model_report(const assay_model* m, assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const ModelState& state = *not_null(m, "m").impl;
    const SharedUse use(state.access(), "model");
    *out = new_report(describe(state));
  });
}

assay_status assay_model_initialize(assay_model* m, uint64_t seed, assay_error** err) {
  return guard(err, [&] {
    ModelState& state = *not_null(m, "m").impl;
    const ExclusiveUse use(state.access(), "model");
    require(!state.initialized(), Code::kInvalid, "the model has weights already");
    state.make_instance()->ensure_initialized(seed);
    state.context().backend()->wait();
  });
}

// Averages of statistics have a role of their own.
static Role role_of(int32_t kind, const Variable* variable) {
  return kind == ASSAY_KIND_EMA && variable != nullptr ? average_of(variable->role)
                                                       : static_cast<Role>(kind);
}

assay_status assay_model_tensor(const assay_model* m, assay_str name, int32_t kind,
                                assay_tensor** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& state = not_null(m, "m").impl;
    expect(kind >= ASSAY_KIND_VALUE && kind <= ASSAY_KIND_STATISTIC, {"", "kind"}, kind,
           "ASSAY_KIND_VALUE to ASSAY_KIND_STATISTIC");
    const SharedUse use(state->access(), "model");
    Segments& segments = state->initialized_instance().segments();
    segments.keep_apart(true);  // the host may write to the tensor
    const std::string_view variable = to_text(name, "name");
    const SegmentTensor found =
        segments.tensor(variable, role_of(kind, segments.variables().find(variable)));
    // The tensor owns a share of the state: it stays valid when the model's handle is freed.
    *out = new assay_tensor(found.variable->dtype, found.variable->dims, found.data, 0,
                            state->access(), state, &state->context());
  });
}

void assay_model_free(assay_model* m) { delete m; }
