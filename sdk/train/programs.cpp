// The programs of a trainer: built as graphs, planned together into one arena, and what a run's
// scalar outputs mean.
#include "sdk/train/programs.h"

#include <algorithm>
#include <array>
#include <set>

#include "sdk/base/expect.h"

namespace assay::train {

TrainerProgram::TrainerProgram(std::unique_ptr<Program> program, std::vector<PassRecord> passes,
                               std::span<const ModelOutput> outputs)
    : program_(std::move(program)), passes_(std::move(passes)) {
  const auto& all = program_->outputs();
  for (size_t i = 0; i < all.size(); ++i) {
    // f32 []: what the host reads after each run. Tensors, such as logits, stay on the device.
    if (all[i].type == ValueType{}) scalars_.push_back({all[i].name, i});
  }
  reads_.reserve(scalars_.size() + kMostFurtherReads);
  const auto find = [&](std::string_view name) {
    return std::ranges::find(scalars_, name, &Scalar::name);
  };
  for (const ModelOutput& output : outputs) {
    const auto scalar = find(output.name);
    if (scalar == scalars_.end()) continue;
    scalar->reduction = output.reduction;
    if (!output.has_weight) continue;
    const auto weight = find(output.name + ".weight");
    weight->is_weight = true;
    scalar->weight = static_cast<int>(weight - scalars_.begin());
  }
}

const TrainerProgram::Scalar* TrainerProgram::find_scalar(std::string_view name) const {
  const auto found = std::ranges::find(scalars_, name, &Scalar::name);
  return found == scalars_.end() ? nullptr : &*found;
}

float TrainerProgram::scalar(std::string_view name) const {
  const Scalar* found = find_scalar(name);
  if (found == nullptr) [[unlikely]]
    fail(Code::kInternal, cat("the program has no scalar ", name));
  return found->value;
}

void TrainerProgram::read_scalars(std::span<const HostRead> more) {
  // Allocates nothing: the update is done, and what fails now would leave it uncounted.
  reads_.assign(more.begin(), more.end());
  for (Scalar& scalar : scalars_)
    reads_.push_back({&scalar.value, program_->outputs()[scalar.output].data, sizeof scalar.value});
  program_->backend().read_all(reads_);
}

Programs::Programs(ModelInstance& instance, const nn::Model& model, const TrainerConfig& config,
                   Channel* channel)
    : instance_(instance),
      model_(model),
      config_(config),
      channel_(channel),
      whole_(config.packed ? kWholeBatch : 0),
      arena_(std::make_shared<Arena>(*instance.backend())) {}

// Whether a device sees several batches in an update.
bool Programs::accumulates() const { return batches_of_rank(config_, channel_) > 1; }

BuiltGraph Programs::build(Key key) const {
  const auto& [kind, sixteenths] = key;
  std::shared_ptr<const nn::Model> packed;
  if (sixteenths != whole_) {
    nn::TrainingOptions options = training_options(config_);
    options.packed_sixteenths = sixteenths;
    packed = instance_.model().configured(options);
  }
  const nn::Model& model = packed ? *packed : model_;
  const Target target = instance_.backend()->target();
  if (kind == GraphKind::kEval || kind == GraphKind::kEvalEma) {
    return build_eval_graph(model, instance_.variables(), config_, kind == GraphKind::kEvalEma,
                            target);
  }
  return build_training_graph(model, instance_.variables(), config_, kind, target,
                              channel_ != nullptr);
}

void Programs::build_update() {
  for (const GraphKind kind : update_kinds())
    built_.emplace(Key{kind, whole_}, build({kind, whole_}));
}

TrainerProgram Programs::plan(Key key) {
  const auto ready = built_.find(key);
  BuiltGraph built = ready != built_.end() ? std::move(ready->second) : build(key);
  built_.erase(key);
  auto program =
      compile(std::move(built.graph), instance_.segments(), {.arena = arena_, .channel = channel_});
  return {std::move(program), std::move(built.passes), built.outputs};
}

// With the first program of training, all that training can need is planned: the arena does not
// grow in the middle of it. They are there together or, where one cannot be planned, not at all.
TrainerProgram& Programs::get(GraphKind kind, int sixteenths) {
  const Key key{kind, sixteenths};
  if (const auto known = planned_.find(key); known != planned_.end()) return known->second;
  const bool trains = kind != GraphKind::kEval && kind != GraphKind::kEvalEma;
  std::set<GraphKind> wanted{kind};
  if (trains && kind != GraphKind::kStep) {
    wanted.insert({GraphKind::kBackwardFirst, GraphKind::kApply});
    if (accumulates()) wanted.insert(GraphKind::kBackwardNext);
  }
  if (trains) wanted.insert(GraphKind::kEval);
  if (trains && config_.optimizer.ema_decay > 0) wanted.insert(GraphKind::kEvalEma);
  std::map<Key, TrainerProgram> ready;
  for (const GraphKind each : wanted) {
    const Key whole{each, whole_};
    if (!planned_.contains(whole)) ready.emplace(whole, plan(whole));
  }
  if (sixteenths != whole_) ready.emplace(key, plan(key));
  planned_.merge(ready);
  return planned_.at(key);
}

std::span<const GraphKind> Programs::update_kinds() const {
  static constexpr std::array kWhole{GraphKind::kStep};
  static constexpr std::array kHalves{GraphKind::kBackwardFirst, GraphKind::kApply};
  if (accumulates()) return kHalves;
  return kWhole;
}

MemoryReport Programs::memory() const {
  MemoryReport largest;
  for (const auto& [key, entry] : planned_) {
    const MemoryReport& report = entry.program().memory();
    // The arena is as large as the largest program wants it, whose other numbers go with it.
    if (report.arena_bytes >= largest.arena_bytes) largest = report;
  }
  largest.arena_bytes = arena_->bytes();
  largest.input_bytes = arena_->input_bytes();
  return largest;
}

}  // namespace assay::train
