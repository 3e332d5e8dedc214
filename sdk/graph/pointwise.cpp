// Code as data: which operands it reads, its inputs under other numbers, its text.
#include "sdk/graph/pointwise.h"

#include "sdk/base/error.h"
#include "sdk/graph/elementwise.h"
#include "sdk/graph/text.h"

namespace assay {
namespace {

using Kind = PointwiseOperand::Kind;

std::string text_of(const PointwiseOperand& operand) {
  if (operand.kind == Kind::kInput) return cat("x", operand.index);
  if (operand.kind == Kind::kStep) return cat("s", operand.index);
  return cat(operand.number);
}

}  // namespace

bool PointwiseCode::reads(PointwiseOperand operand) const {
  return std::any_of(steps.begin(), steps.end(), [&](const PointwiseStep& step) {
    const auto end = step.operands.begin() + pointwise_operands(step.fn);
    return std::find(step.operands.begin(), end, operand) != end;
  });
}

void PointwiseCode::rename_inputs(const std::vector<int>& to) {
  for (PointwiseStep& step : steps) {
    for (PointwiseOperand& operand : step.operands) {
      if (operand.kind == Kind::kInput) operand.index = to[static_cast<size_t>(operand.index)];
    }
  }
}

void PointwiseCode::keep_only(PointwiseOperand result) {
  std::vector<int> place(steps.size(), -1);  // 0: needed
  place[static_cast<size_t>(result.index)] = 0;
  for (size_t i = steps.size(); i-- > 0;) {
    if (place[i] < 0) continue;
    // Operands that the function does not take are numbers: all four may be looked at.
    for (const PointwiseOperand& operand : steps[i].operands) {
      if (operand.kind == Kind::kStep) place[static_cast<size_t>(operand.index)] = 0;
    }
  }
  std::vector<PointwiseStep> kept;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (place[i] < 0) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(steps[i]);
    for (PointwiseOperand& operand : kept.back().operands) {
      if (operand.kind == Kind::kStep) operand.index = place[static_cast<size_t>(operand.index)];
    }
  }
  steps = std::move(kept);
}

std::string to_text(const PointwiseCode& code) {
  for (const NamedCode& named : named_codes()) {
    if (named.code == code) return named.name;
  }
  std::string text = "[";
  for (const PointwiseStep& step : code.steps) {
    text += cat(text.size() == 1 ? "" : ", ", to_text(step.fn), "(");
    for (int i = 0; i < pointwise_operands(step.fn); ++i)
      text += cat(i == 0 ? "" : ", ", text_of(step.operands[static_cast<size_t>(i)]));
    text += ")";
  }
  return text + "]";
}

}  // namespace assay
