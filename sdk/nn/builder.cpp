// Names, leaves and random streams of the network being written; the open scope is the graph's.
#include "sdk/nn/builder.h"

#include <algorithm>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/base/hash.h"

namespace assay::nn {
namespace {

[[noreturn]] void fail_twice(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string scope = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string hint =
      cat("give the second layer a name of its own, or open Builder::shared(\"", scope,
          "\") around both if they are to be one");
  fail(Code::kInvalid, cat(name, " is made twice in one network; ", hint),
       {.op_path = scope, .argument = name, .hint = hint});
}

}  // namespace

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

std::vector<ValueId> Builder::inputs(std::span<const InputSpec> specs) {
  std::vector<ValueId> values;
  for (const InputSpec& spec : specs) values.push_back(input(spec));
  return values;
}

ValueId Builder::leaf(const std::string& name, const Dims& dims, Initializer init, Role role,
                      VariableKind kind) {
  // The variable is the model's, the leaf this graph's: a second graph finds the variable.
  const std::string full = full_name(name);
  if (const Variable* theirs = tied(full, dims, role)) return leaves_.leaf(*theirs, role);
  const Variable& variable = variables_.add({full, dims, DType::kF32, role, init, kind});
  if (!shared_ && leaves_.find(variable.name, role).valid()) fail_twice(variable.name);
  return leaves_.leaf(variable, role);
}

const Variable* Builder::tied(const std::string& full, const Dims& dims, Role role) {
  if (tie_ == nullptr || role != Role::kValue || !full.starts_with(tie_->own_ + "."))
    return nullptr;
  const Variable* theirs = variables_.find(tie_->other_ + full.substr(tie_->own_.size()));
  if (theirs == nullptr) return nullptr;
  if (theirs->dims != dims) {
    fail_mismatch(Code::kInvalid, {cat(full, ", which is to be ", theirs->name, ","), "share",
                                   to_text(dims), to_text(theirs->dims)});
  }
  ++tie_->found_;
  return theirs;
}

ValueId Builder::parameter(const std::string& name, const Dims& dims, Initializer init,
                           VariableKind kind) {
  return leaf(name, dims, init, Role::kValue, kind);
}

ValueId Builder::statistic(const std::string& name, const Dims& dims, Initializer init) {
  return leaf(name, dims, init, Role::kStatistic, VariableKind::kBatchNorm);
}

ValueId Builder::random_step() {
  if (!random_step_.valid()) random_step_ = graph_.emit1(StepScalar{ScalarKind::kRandomStep}, {});
  return random_step_;
}

// Frozen, as the names are: the streams of published runs come from it.
uint64_t Builder::stream(std::string_view name) {
  const std::string full = full_name(name);
  const int before = streams_[full]++;
  if (before == 0) return hash_name(full);
  if (!shared_) fail_twice(full);
  return hash_name(cat(full, "#", before + 1));
}

std::string Builder::full_name(std::string_view name) const {
  return graph_.scope().empty() ? std::string(name) : cat(graph_.scope(), ".", name);
}

Builder::Scope::Scope(Builder& builder, std::string name, bool shared)
    : builder_(builder), before_(builder.graph_.scope()), shared_before_(builder.shared_) {
  builder_.graph_.set_scope(std::move(name));
  builder_.shared_ = shared;
}

Builder::Tie::Tie(Builder& builder, std::string own, std::string other)
    : builder_(builder), own_(std::move(own)), other_(std::move(other)), before_(builder.tie_) {
  builder_.tie_ = this;
}

Builder::Tie::~Tie() { builder_.tie_ = before_; }

Builder::Scope::~Scope() {
  builder_.graph_.set_scope(before_);
  builder_.shared_ = shared_before_;
}

}  // namespace assay::nn
