// The variables of a model, in the order they were first used.
#pragma once

#include <deque>
#include <map>

#include "sdk/base/error.h"
#include "sdk/graph/variable.h"

namespace assay {

class VariableTable {
 public:
  // Adds a variable, or returns the one of that name, which must agree in everything: a second
  // graph (evaluation, another batch size) is built on the same variables. References stay valid.
  const Variable& add(Variable variable) {
    const auto [entry, is_new] = index_.try_emplace(variable.name, variables_.size());
    if (is_new) return variables_.emplace_back(std::move(variable));
    const Variable& known = variables_[entry->second];
    if (known != variable) fail_different(known, variable);
    return known;
  }

  const Variable* find(std::string_view name) const {
    const auto entry = index_.find(name);
    return entry == index_.end() ? nullptr : &variables_[entry->second];
  }

  const std::deque<Variable>& all() const { return variables_; }

  // Number of trained numbers.
  int64_t parameter_count() const {
    int64_t count = 0;
    for (const Variable& variable : variables_) {
      if (variable.role == Role::kValue) count += variable.dims.numel();
    }
    return count;
  }

 private:
  [[noreturn]] static void fail_different(const Variable& known, const Variable& other) {
    const auto text = [](const Variable& v) {
      return cat(v.role, " ", v.dtype, v.dims, ", ", v.kind, ", initially ", v.initializer);
    };
    fail(Code::kInvalid,
         cat(known.name, " is declared twice, as ", text(known), " and as ", text(other),
             "; give one of them another name, or declare them alike"),
         {.argument = known.name, .expected = text(known), .actual = text(other)});
  }

  std::deque<Variable> variables_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace assay
