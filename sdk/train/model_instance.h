// A model with its variables on a device: what trainers train, predictors copy and checkpoints
// hold.
#pragma once

#include <memory>
#include <set>
#include <utility>

#include "sdk/nn/model.h"
#include "sdk/runtime/segments.h"

namespace assay::train {

// The trainer's own persistent scalars, variables of role kState.
// i64: updates done.
inline constexpr std::string_view kStepVariable = "trainer.step";
// f32.
inline constexpr std::string_view kLossScaleVariable = "trainer.loss_scale";
// i32: updates since the scale last changed.
inline constexpr std::string_view kGoodStepsVariable = "trainer.good_steps";

class ModelInstance {
 public:
  // Declares all variables (shape errors of the model surface here) and allocates values and
  // statistics, uninitialised.
  ModelInstance(std::shared_ptr<const nn::Model> model, std::shared_ptr<Backend> backend);
  // A model of the same variables with the present weights of another, which must be initialised,
  // or with their moving averages; without a copy where it can be (Segments::share_from).
  ModelInstance(std::shared_ptr<const nn::Model> model, const ModelInstance& weights,
                bool averaged);

  const nn::Model& model() const { return *model_; }
  const std::shared_ptr<const nn::Model>& shared_model() const { return model_; }
  const VariableTable& variables() const { return variables_; }
  VariableTable& variables() { return variables_; }
  Segments& segments() { return segments_; }
  const Segments& segments() const { return segments_; }
  const std::shared_ptr<Backend>& backend() const { return backend_; }

  // Draws first weights from the seed, unless weights were drawn or loaded before.
  void ensure_initialized(uint64_t seed);
  // Weights came from somewhere else.
  void mark_initialized() { initialized_ = true; }
  // Moving averages of other weights mean nothing: they start again from the present ones.
  void restart_averages();
  // The declared roles (kValue, kStatistic) of which the last trainer kept moving averages, so that
  // these belong to the present weights.
  const std::set<Role>& averaged() const { return averaged_; }
  void set_averaged(std::set<Role> roles) { averaged_ = std::move(roles); }
  // Where predictions with moving averages read what is declared with that role.
  Role averaged_role(Role declared) const {
    return averaged_.contains(declared) ? average_of(declared) : declared;
  }
  bool initialized() const { return initialized_; }

 private:
  void declare_variables();

  std::shared_ptr<const nn::Model> model_;
  std::shared_ptr<Backend> backend_;
  VariableTable variables_;
  Segments segments_;
  bool initialized_ = false;
  std::set<Role> averaged_;
};

}  // namespace assay::train
