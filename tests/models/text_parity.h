// What the comparisons of BERT and ELECTRA with their fixtures share (tests/fixtures/models).
//
// Bounds are fractions of each tensor's largest element: four times PyTorch's own float32 error
// (the fixtures' README), for another order of summation.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/error_of.h"
#include "tests/models/loaded.h"

namespace assay::test {

inline constexpr double kOutputs = 4 * 6e-7, kGradients = 4 * 4.1e-6, kWeights = 4 * 3.8e-5;

inline constexpr const char* kSgd = R"("optimizer": {"name": "sgd", "learning_rate": 0.1})";

inline std::vector<HostTensor> batch_of(const Fixture& fixture,
                                        const std::vector<std::string>& names) {
  std::vector<HostTensor> batch;
  for (const std::string& name : names) batch.push_back(host(fixture.at("input." + name)));
  return batch;
}

// Against "<prefix>*", which are of all parameters. One that is 0 but for rounding is stored as 0.
// `cancelling`: sums of terms that cancel, and how many times the result these are together.
inline void expect_gradients(const Loaded& model, const Fixture& expected, double bound,
                             const std::string& prefix = "grad.",
                             const std::map<std::string, double>& cancelling = {}) {
  const auto gradients = expected.with_prefix(prefix);
  EXPECT_EQ(gradients.size(), model.instance->variables().all().size() - 3);  // the trainer's state
  for (const auto& [name, tensor] : gradients) {
    const std::vector<float> got = model.read(name, Role::kGradient);
    const bool is_zero = std::all_of(tensor->f32.begin(), tensor->f32.end(),
                                     [](float expected_value) { return expected_value == 0; });
    if (is_zero) {
      for (const float g : got) EXPECT_LT(std::abs(g), bound) << name;
    } else {
      const auto terms = cancelling.find(name);
      EXPECT_LT(relative_error(got, tensor->f32),
                bound * (terms == cancelling.end() ? 1 : terms->second))
          << name;
    }
  }
}

// Parameters whose gradient is 0, because they shift all scores of a softmax alike: adaptive rules
// make steps of its rounding errors.
struct WithoutGradient {
  std::vector<std::string> endings;
  double bound = 0;
  bool has(const std::string& name) const {
    return std::any_of(endings.begin(), endings.end(),
                       [&](const std::string& ending) { return name.ends_with(ending); });
  }
};

// The updates of a fixture of a rule, on one batch.
inline void expect_steps(const Loaded& model, Trainer& trainer,
                         const std::vector<HostTensor>& batch, const Fixture& rule,
                         const WithoutGradient& others) {
  int step = 0;
  for (const float rate : rule.at("rate").f32) {
    ++step;
    trainer.set("learning_rate", rate);
    const StepInfo info = trainer.step(batch);
    const std::string prefix = cat("step", step, ".");
    EXPECT_NEAR(info.loss, rule.at(prefix + "loss").f32[0], kWeights * info.loss) << step;
    EXPECT_NEAR(info.grad_norm, rule.at(prefix + "gradient_norm").f32[0],
                kWeights * info.grad_norm);
    for (const Variable& variable : model.instance->variables().all()) {
      if (variable.role == Role::kState) continue;
      EXPECT_LT(relative_error(model.read(variable.name, variable.role),
                               rule.at(prefix + variable.name).f32),
                others.has(variable.name) ? others.bound : kWeights)
          << prefix << variable.name;
    }
  }
}

// Names and dims of the variables of a model.
inline std::map<std::string, std::string> variables_of(const ModelInstance& instance) {
  std::map<std::string, std::string> variables;
  for (const Variable& variable : instance.variables().all())
    if (variable.role == Role::kValue) variables[variable.name] = to_text(variable.dims);
  return variables;
}

// With a number of `variable` that makes the loss of this name NaN a step stops and changes
// nothing.
inline void expect_refused(const Loaded& start, Trainer& trainer,
                           const std::vector<HostTensor>& batch, const std::string& variable,
                           const std::string& loss, double whole_loss) {
  const SegmentTensor tensor = start.instance->segments().tensor(variable, Role::kValue);
  const std::vector<float> before = start.read(variable, Role::kValue);
  std::vector<float> broken = before;
  broken[3 % broken.size()] = std::numeric_limits<float>::quiet_NaN();
  start.instance->backend()->write(tensor.data, broken.data(), tensor.bytes());
  const auto words = [&] {
    for (const auto& [name, dims] : variables_of(*start.instance))
      if (name.ends_with("word_embeddings.weight")) return start.read(name, Role::kValue);
    return std::vector<float>();
  };
  const std::vector<float> words_before = words();
  ASSERT_FALSE(words_before.empty());
  EXPECT_THAT(error_of([&] { trainer.step(batch); }).message(),
              testing::AllOf(testing::HasSubstr(cat("(not finite: ", loss)),
                             testing::HasSubstr("nothing was updated")));
  EXPECT_EQ(words(), words_before) << variable;
  start.instance->backend()->write(tensor.data, before.data(), tensor.bytes());
  EXPECT_NEAR(trainer.step(batch).loss, whole_loss, kOutputs * whole_loss) << variable;
}

// What a table of fixtures/models lists.
inline std::map<std::string, std::string> published_variables(const std::string& table) {
  std::map<std::string, std::string> variables;
  std::ifstream lines(cat(ASSAY_SOURCE_DIR, "/tests/fixtures/models/", table, ".tsv"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name, size, dims;
    fields >> name;
    while (fields >> size) dims += (dims.empty() ? "" : ",") + size;
    variables[name] = "[" + dims + "]";
  }
  return variables;
}

}  // namespace assay::test
