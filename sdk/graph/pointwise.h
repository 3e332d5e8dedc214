// The code of Pointwise: a few steps, each a function of inputs, numbers and earlier steps.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "sdk/base/kernel_constants.h"

namespace assay {

struct PointwiseOperand {
  enum class Kind : int32_t { kNumber, kInput, kStep };
  Kind kind = Kind::kNumber;
  int32_t index = 0;  // of the input or step
  float number = 0;

  PointwiseOperand() = default;
  PointwiseOperand(float value) : number(value) {}
  static PointwiseOperand input(int i) { return {Kind::kInput, i}; }
  static PointwiseOperand step(int i) { return {Kind::kStep, i}; }
  bool operator==(const PointwiseOperand&) const = default;

 private:
  PointwiseOperand(Kind what, int which) : kind(what), index(which) {}
};

struct PointwiseStep {
  PointwiseFn fn = PointwiseFn::kAdd;
  std::array<PointwiseOperand, 4> operands;  // as many as pointwise_operands(fn)
  bool operator==(const PointwiseStep&) const = default;
};

class PointwiseCode {
 public:
  PointwiseCode() = default;
  PointwiseCode(PointwiseFn fn, std::initializer_list<PointwiseOperand> operands) {
    append(fn, operands);
  }

  // Adds a step and gives it as an operand of later ones.
  PointwiseOperand append(PointwiseFn fn, std::initializer_list<PointwiseOperand> operands) {
    PointwiseStep step{fn, {}};
    std::copy(operands.begin(), operands.end(), step.operands.begin());
    steps.push_back(step);
    return PointwiseOperand::step(static_cast<int>(steps.size()) - 1);
  }
  // Whether any step has this operand.
  bool reads(PointwiseOperand operand) const;
  // Input i becomes input to[i].
  void rename_inputs(const std::vector<int>& to);
  // Drops the steps that `result` does not need; the last one that is left computes it.
  void keep_only(PointwiseOperand result);

  std::vector<PointwiseStep> steps;
  bool operator==(const PointwiseCode&) const = default;
};

// "[mul(x0, x1), add(s0, 0.5)]": inputs x, steps s; "relu" of what has a name (elementwise.h).
std::string to_text(const PointwiseCode& code);

}  // namespace assay
