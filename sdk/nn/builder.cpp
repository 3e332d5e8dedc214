#include "sdk/nn/builder.h"

#include <algorithm>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/base/hash.h"

namespace assay::nn {

std::string names_of(std::span<const InputSpec> inputs) {
  std::vector<std::string_view> names(inputs.size());
  std::transform(inputs.begin(), inputs.end(), names.begin(),
                 [](const InputSpec& input) -> std::string_view { return input.name; });
  return enumerate(names, false, " and ");
}

ValueId Builder::input(const InputSpec& spec) {
  std::vector<int64_t> sizes{batch_};
  sizes.insert(sizes.end(), spec.sample.span().begin(), spec.sample.span().end());
  return graph_.emit1(Input{spec.name, spec.dtype, Dims(sizes)}, {});
}

ValueId Builder::parameter(const std::string& name, const Dims& dims, Initializer init) {
  const Variable& variable =
      variables_.add({full_name(name), dims, DType::kF32, Role::kValue, init});
  return graph_.emit1(Parameter{variable.name, Role::kValue, DType::kF32, dims}, {});
}

ValueId Builder::statistic(const std::string& name, const Dims& dims, Initializer init) {
  const Variable& variable =
      variables_.add({full_name(name), dims, DType::kF32, Role::kStatistic, init});
  return graph_.emit1(Parameter{variable.name, Role::kStatistic, DType::kF32, dims}, {});
}

ValueId Builder::random_step() {
  if (!random_step_.valid()) random_step_ = graph_.emit1(StepScalar{ScalarKind::kRandomStep}, {});
  return random_step_;
}

uint64_t Builder::stream(std::string_view name) const { return hash_name(full_name(name)); }

std::string Builder::full_name(std::string_view name) const {
  return graph_.scope().empty() ? std::string(name) : cat(graph_.scope(), ".", name);
}

Builder::Scope::Scope(Builder& builder, std::string_view name)
    : builder_(builder), before_(builder.graph_.scope()) {
  builder_.graph_.set_scope(builder_.full_name(name));
}

Builder::Scope::~Scope() { builder_.graph_.set_scope(before_); }

}  // namespace assay::nn
