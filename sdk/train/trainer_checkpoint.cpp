#include "sdk/train/trainer_checkpoint.h"

#include <algorithm>

#include "sdk/base/proto_json.h"
#include "sdk/base/version.h"
#include "sdk/optim/optimizer.h"

namespace assay::train {
namespace {

using checkpoint::CheckpointReader;
using checkpoint::CheckpointState;
using checkpoint::Part;

// The roles of the parts that this trainer keeps. A model may hold more: what an earlier trainer
// with another optimizer left behind. Gradients are recomputed by the next step; between updates
// nothing reads them.
std::vector<Role> roles_of(const Trainer& trainer, uint32_t parts) {
  std::vector<Role> roles = optim::state_roles(trainer.config().optimizer());
  roles.insert(roles.end(), {Role::kValue, Role::kStatistic, Role::kState});
  std::erase_if(roles, [&](Role role) { return (checkpoint::part_of(role) & parts) == 0; });
  return roles;
}

bool holds(std::span<const Role> roles, Role role) {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

CheckpointState state_of(Trainer& trainer, uint32_t parts, const HostState& host) {
  const TrainerConfig& config = trainer.config();
  CheckpointState state;
  state.parts = parts;
  state.library_version = kLibraryVersion;
  state.model_name = trainer.instance().model().architecture();
  state.model_config = trainer.instance().model().config_json();
  state.metadata = host.metadata;
  if ((parts & Part::kTrainerState) == 0) return state;
  state.step = trainer.step_count();
  state.batches = trainer.batch_count();
  state.samples = trainer.sample_count();
  state.epoch = host.epoch;
  state.seed = config.seed();
  state.loss_scale = checkpoint::LossScale{trainer.loss_scale(), 0};
  state.optimizer_name = config.optimizer().name();
  state.optimizer_config = to_json(config.optimizer());
  state.schedule_config = to_json(config.schedule());
  state.precision = config.precision();
  state.data_cursor = host.data_cursor;
  state.best = host.best;
  return state;
}

// Tensors of the roles, in host memory: the segments themselves where the host can read them,
// copies otherwise.
class HostTensors {
 public:
  HostTensors(const Segments& segments, std::span<const Role> roles) {
    for (const SegmentTensor& tensor : segments.all()) {
      if (!holds(roles, tensor.role)) continue;
      const auto* data = static_cast<const std::byte*>(tensor.data);
      if (!segments.backend().host_accessible()) {
        copies_.emplace_back(tensor.bytes());
        segments.backend().read(copies_.back().data(), tensor.data, tensor.bytes());
        data = copies_.back().data();
      }
      records_.push_back({tensor.variable->name,
                          tensor.role,
                          tensor.variable->dtype,
                          tensor.variable->dims,
                          {data, tensor.bytes()}});
    }
  }
  std::span<const checkpoint::TensorRecord> records() const { return records_; }

 private:
  std::deque<std::vector<std::byte>> copies_;
  std::vector<checkpoint::TensorRecord> records_;
};

void check_model(const ModelInstance& instance, const CheckpointReader& reader) {
  const CheckpointState& state = reader.state();
  // Files without trainer state do not say what model they are of: names and shapes must do.
  if ((state.parts & Part::kTrainerState) == 0) return;
  require(state.model_name == instance.model().architecture() &&
              state.model_config == instance.model().config_json(),
          Code::kInvalid, reader.name(), " holds ", state.model_name, " ", state.model_config,
          ", this model is ", instance.model().architecture(), " ", instance.model().config_json());
}

// The file's tensor for each segment tensor of the roles, all verified; fails before anything is
// changed.
std::vector<std::pair<SegmentTensor, const checkpoint::TensorInfo*>> match_tensors(
    const Segments& segments, const CheckpointReader& reader, std::span<const Role> roles) {
  std::vector<std::pair<SegmentTensor, const checkpoint::TensorInfo*>> matches;
  for (const SegmentTensor& tensor : segments.all()) {
    if (!holds(roles, tensor.role)) continue;
    const checkpoint::TensorInfo* info = reader.find(tensor.variable->name, tensor.role);
    require(info != nullptr, Code::kInvalid, reader.name(), " has no ", tensor.role, " of ",
            tensor.variable->name, "; was it saved with other parts or another optimizer?");
    require(info->dtype == tensor.variable->dtype && info->dims == tensor.variable->dims,
            Code::kInvalid, reader.name(), ": ", tensor.role, " of ", info->name, " is ",
            info->dtype, info->dims, ", expected ", tensor.variable->dtype, tensor.variable->dims);
    reader.verify(*info);
    matches.emplace_back(tensor, info);
  }
  return matches;
}

void load_tensors(Segments& segments, const CheckpointReader& reader, std::span<const Role> roles) {
  std::vector<std::byte> buffer;
  for (const auto& [tensor, info] : match_tensors(segments, reader, roles)) {
    buffer.resize(info->bytes);
    reader.read(*info, buffer);
    segments.backend().write(tensor.data, buffer.data(), buffer.size());
  }
}

}  // namespace

void save_checkpoint(Trainer& trainer, const std::string& path, uint32_t parts,
                     const HostState& host) {
  trainer.require_between_updates();
  const HostTensors tensors(trainer.instance().segments(), roles_of(trainer, parts));
  checkpoint::write_checkpoint(path, state_of(trainer, parts, host), tensors.records());
}

void save_checkpoint(Trainer& trainer, checkpoint::ByteSink& sink, uint32_t parts,
                     const HostState& host) {
  trainer.require_between_updates();
  const HostTensors tensors(trainer.instance().segments(), roles_of(trainer, parts));
  checkpoint::write_checkpoint(sink, state_of(trainer, parts, host), tensors.records());
}

CheckpointState load_checkpoint(Trainer& trainer, const CheckpointReader& reader, uint32_t parts) {
  trainer.require_between_updates();
  check_model(trainer.instance(), reader);
  const CheckpointState& state = reader.state();
  if ((parts & (Part::kMoments | Part::kTrainerState)) != 0) {
    const std::string& own = trainer.config().optimizer().name();
    require(state.optimizer_name == own, Code::kInvalid, reader.name(),
            " was written by optimizer \"", state.optimizer_name, "\", this trainer uses \"", own,
            "\"; load weights and statistics only");
  }
  if ((parts & Part::kTrainerState) != 0) {
    require((state.parts & Part::kTrainerState) != 0, Code::kInvalid, reader.name(),
            " holds no trainer state; load weights and statistics only");
    require(state.step >= 0 && state.samples >= 0 && state.batches >= 0, Code::kFormat,
            reader.name(), ": negative counters");
  }
  load_tensors(trainer.instance().segments(), reader, roles_of(trainer, parts));
  trainer.instance().mark_initialized();
  if ((parts & Part::kTrainerState) != 0) trainer.restore(state.step, state.batches, state.samples);
  return state;
}

void load_weights(ModelInstance& instance, const CheckpointReader& reader) {
  check_model(instance, reader);
  constexpr Role kRoles[] = {Role::kValue, Role::kStatistic};
  load_tensors(instance.segments(), reader, kRoles);
  instance.mark_initialized();
}

}  // namespace assay::train
