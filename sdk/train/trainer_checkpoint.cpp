// Saving and loading a trainer. Loading reads and checks the whole file before it changes anything,
// so that a file that is damaged or of another model leaves the trainer as it was.
#include "sdk/train/trainer_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>

#include "sdk/base/crc32c.h"
#include "sdk/base/expect.h"
#include "sdk/base/version.h"
#include "sdk/optim/optimizer.h"
#include "sdk/train/trainer_config.h"

namespace assay::train {
namespace {

using checkpoint::CheckpointReader;
using checkpoint::CheckpointState;
using checkpoint::Part;

// The roles of the parts that this trainer keeps. A model may hold more: what an earlier trainer
// with another optimizer left behind. Gradients are recomputed by the next step; between updates
// nothing reads them.
std::vector<Role> roles_of(const Trainer& trainer, uint32_t parts) {
  std::vector<Role> roles = optim::state_roles(trainer.config().optimizer);
  roles.insert(roles.end(), {Role::kValue, Role::kStatistic, Role::kState});
  std::erase_if(roles, [&](Role role) { return (checkpoint::part_of(role) & parts) == 0; });
  return roles;
}

bool holds(std::span<const Role> roles, Role role) {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

CheckpointState state_of(const Trainer& trainer, uint32_t parts, const HostState& host) {
  const TrainerConfig& config = trainer.config();
  CheckpointState state;
  state.parts = parts;
  state.library_version = kLibraryVersion;
  state.model_name = trainer.instance().model().architecture();
  state.model_config = trainer.instance().model().config_json();
  state.metadata = host.metadata;
  if ((parts & Part::kTrainerState) == 0) return state;
  const Progress progress = trainer.progress();
  state.step = progress.step;
  state.updates = trainer.update_count();
  state.batches = progress.batches;
  state.samples = progress.samples;
  state.learning_rate = progress.learning_rate;
  state.seed = config.seed;
  if (config.loss_scale.mode != "none") {
    state.loss_scale = checkpoint::LossScale{trainer.loss_scale(), trainer.good_steps()};
  }
  state.optimizer_name = config.optimizer.name;
  state.optimizer_config = to_json(config.optimizer);
  state.schedule_config = to_json(config.schedule);
  state.precision = *config.precision;
  state.trainer_config = to_json(config);
  state.data_cursor = host.data_cursor;
  return state;
}

// Tensors of the roles, in host memory: the segments themselves where the host can read them,
// copies otherwise.
class HostTensors {
 public:
  HostTensors(const Segments& segments, std::span<const Role> roles) {
    for (const Role role : segments.roles()) {
      if (!holds(roles, role)) continue;
      if (!segments.backend().host_accessible()) copies_.push_back(segments.save(role));
      for (const SegmentTensor& tensor : segments.all(role)) {
        const auto* data = segments.backend().host_accessible()
                               ? static_cast<const std::byte*>(tensor.data)
                               : copies_.back().bytes.data() + tensor.offset;
        records_.push_back({tensor.variable->name,
                            role,
                            tensor.variable->dtype,
                            tensor.variable->dims,
                            {data, tensor.bytes()}});
      }
    }
  }
  std::span<const checkpoint::TensorRecord> records() const { return records_; }

 private:
  std::vector<HostSegment> copies_;
  std::vector<checkpoint::TensorRecord> records_;
};

// "a.ckpt was written with model.kernel 5, here it is 3; make the model as it was".
[[noreturn]] void fail_difference(const CheckpointReader& reader, const std::string& key,
                                  const std::string& theirs, const std::string& ours,
                                  const std::string& hint) {
  fail(
      Code::kInvalid,
      cat(reader.name(), " was written with ", key, " ", theirs, ", here it is ", ours, "; ", hint),
      {.argument = key, .expected = theirs, .actual = ours, .hint = hint});
}

void check_model(const ModelInstance& instance, const CheckpointReader& reader) {
  const CheckpointState& state = reader.state();
  // Files without trainer state do not say what model they are of: names and shapes must do.
  if ((state.parts & Part::kTrainerState) == 0) return;
  const std::string hint =
      "make the model as it was, or load what fits before a trainer is made: "
      "assay_model_load_weights with \"keep\" or ASSAY_WEIGHTS_PARTIAL";
  const nn::Model& model = instance.model();
  if (state.model_name != model.architecture())
    fail_difference(reader, "model", state.model_name, model.architecture(), hint);
  const auto difference = first_difference(model.config_json(), state.model_config);
  if (difference)
    fail_difference(reader, "model." + difference->key, difference->theirs, difference->ours, hint);
}

// The configuration the file was written with. What an older file does not say is taken to agree.
TrainerConfig config_of(const CheckpointReader& reader, const TrainerConfig& own) {
  const CheckpointState& state = reader.state();
  const std::string& file = reader.name();
  TrainerConfig config;
  if (!state.trainer_config.empty()) {
    parse_json(state.trainer_config, config, cat(file, ": the trainer"));
    return with_defaults(config);
  }
  config = own;
  config.seed = state.seed;
  if (!state.precision.empty()) config.precision = state.precision;
  config.optimizer = {};
  config.schedule = {};
  parse_json(state.optimizer_config, config.optimizer, cat(file, ": the optimizer"));
  parse_json(state.schedule_config, config.schedule, cat(file, ": the schedule"));
  // Older files list keys of all kinds, at zero.
  clear_keys_of_other_kinds(config.optimizer);
  clear_keys_of_other_kinds(config.schedule);
  return with_defaults(config);
}

// Going on with the same bits needs the same of everything that decides them.
void check_trainer(const Trainer& trainer, const CheckpointReader& reader, uint32_t parts) {
  const CheckpointState& state = reader.state();
  const TrainerConfig& own = trainer.config();
  // Files without trainer state do not say whose moments they hold: names and shapes must do.
  const bool names_optimizer = (state.parts & Part::kTrainerState) != 0;
  if ((parts & Part::kMoments) != 0 && names_optimizer &&
      state.optimizer_name != own.optimizer.name) {
    fail_difference(reader, "optimizer.name", '"' + state.optimizer_name + '"',
                    '"' + own.optimizer.name + '"', "load weights and statistics only");
  }
  if ((parts & Part::kTrainerState) == 0) return;
  require((state.parts & Part::kTrainerState) != 0, Code::kInvalid, reader.name(),
          " holds no trainer state; load the parts that it was saved with, weights to begin with");
  const auto difference = first_difference(own, config_of(reader, own));
  if (difference) {
    fail_difference(reader, difference->key, difference->theirs, difference->ours,
                    "make the trainer as it was, or load the file without its trainer state");
  }
  const bool has_rate = !state.trainer_config.empty();
  require(state.step >= 0 && state.samples >= 0 && state.batches >= 0 &&
              (!has_rate || (std::isfinite(state.learning_rate) && state.learning_rate > 0)),
          Code::kFormat, reader.name(), ": negative counters or learning rate");
}

// What the file holds for a tensor, which must be of the same type.
const checkpoint::TensorInfo& find_tensor(const CheckpointReader& reader,
                                          const SegmentTensor& tensor) {
  const checkpoint::TensorInfo* info = reader.find(tensor.variable->name, tensor.role);
  require(info != nullptr, Code::kInvalid, reader.name(), " has no ", tensor.role, " of ",
          tensor.variable->name,
          "; load other parts only, if it was saved without, or another optimizer's");
  const ValueType actual{info->dtype, info->dims};
  const ValueType expected{tensor.variable->dtype, tensor.variable->dims};
  if (actual != expected) {
    fail_mismatch(Code::kInvalid, {cat(reader.name(), ": ", tensor.role, " of ", info->name),
                                   info->name, to_text(actual), to_text(expected)});
  }
  return *info;
}

// What the file holds for the segments of the roles; nothing is changed yet, so that a file that
// cannot be read to its end leaves the model as it was.
std::vector<HostSegment> read_segments(const Segments& segments, const CheckpointReader& reader,
                                       std::span<const Role> roles) {
  std::vector<HostSegment> loaded;
  for (const Role role : segments.roles()) {
    if (!holds(roles, role)) continue;
    HostSegment& segment =
        loaded.emplace_back(HostSegment{role, std::vector<std::byte>(segments.bytes(role))});
    for (const SegmentTensor& tensor : segments.all(role)) {
      reader.read(find_tensor(reader, tensor),
                  std::span(segment.bytes).subspan(tensor.offset, tensor.bytes()));
    }
  }
  return loaded;
}

// The running statistics of an emulated device other than the first, as one tensor.
std::string device_statistics_name(int64_t device) {
  return cat("trainer.statistics.device", device);
}

std::vector<std::vector<std::byte>> save_device_statistics(const Trainer& trainer) {
  std::vector<std::vector<std::byte>> saved;
  if (Channel* const channel = trainer.channel()) {
    const auto own = trainer.instance().segments().save(Role::kStatistic).bytes;
    const auto all = channel->gather({reinterpret_cast<const char*>(own.data()), own.size()});
    for (size_t rank = 1; rank < all.size(); ++rank) {
      const auto bytes = std::as_bytes(std::span(all[rank]));
      saved.emplace_back(bytes.begin(), bytes.end());
    }
    return saved;
  }
  for (int64_t device = 1; device < trainer.device_statistics().devices(); ++device)
    saved.push_back(trainer.device_statistics().save(device));
  return saved;
}

// None in files that were written before the first update.
std::map<int64_t, std::vector<std::byte>> read_device_statistics(const Trainer& trainer,
                                                                 const CheckpointReader& reader,
                                                                 uint32_t parts) {
  std::map<int64_t, std::vector<std::byte>> found;
  if ((parts & Part::kTrainerState) == 0) return found;
  const DeviceStatistics& statistics = trainer.device_statistics();
  for (int64_t device = 1; device < *trainer.config().emulated_devices; ++device) {
    const std::string name = device_statistics_name(device);
    const checkpoint::TensorInfo* info = reader.find(name, Role::kState);
    if (info == nullptr) continue;
    require(info->bytes == statistics.size(), Code::kFormat, reader.name(), ": ", name, " has ",
            info->bytes, " bytes, expected ", statistics.size());
    found[device].resize(info->bytes);
    reader.read(*info, found[device]);
  }
  return found;
}

// Ranks that went on from different files would never be alike again.
void require_same_file(Channel& channel, const CheckpointReader& reader,
                       std::span<const HostSegment> loaded) {
  uint32_t crc = 0;
  for (const HostSegment& segment : loaded)
    crc = crc32c_extend(crc, segment.bytes.data(), segment.bytes.size());
  require_agreement(channel, "checkpoint", cat("step ", reader.state().step, ", sum ", crc));
}

void restore(Segments& segments, std::span<const HostSegment> loaded) {
  for (const HostSegment& segment : loaded) segments.restore(segment);
}

}  // namespace

namespace {

// Everybody learns whether rank 0 could write the file.
template <class Write>
void write_as_rank_0(Channel* channel, const Write& write) {
  if (channel == nullptr) return write();
  std::exception_ptr failure;
  std::string message;
  try {
    if (channel->rank() == 0) write();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    message = error.what();
  }
  const std::string said = channel->gather(message)[0];
  if (failure != nullptr) std::rethrow_exception(failure);
  require(said.empty(), Code::kComm, "rank 0 could not save: ", said);
}

// Into a path or a sink.
template <class Target>
void save(const Trainer& trainer, Target& target, uint32_t parts, const HostState& host) {
  trainer.require_between_updates();
  const HostTensors tensors(trainer.instance().segments(), roles_of(trainer, parts));
  std::vector<checkpoint::TensorRecord> records(tensors.records().begin(), tensors.records().end());
  const auto of_devices = save_device_statistics(trainer);
  for (size_t i = 0; i < of_devices.size() && (parts & Part::kTrainerState) != 0; ++i) {
    if (of_devices[i].empty()) continue;
    records.push_back({device_statistics_name(static_cast<int64_t>(i) + 1),
                       Role::kState,
                       DType::kU8,
                       {static_cast<int64_t>(of_devices[i].size())},
                       of_devices[i]});
  }
  write_as_rank_0(trainer.channel(), [&] {
    checkpoint::write_checkpoint(target, state_of(trainer, parts, host), records);
  });
}

}  // namespace

void save_checkpoint(const Trainer& trainer, const std::string& path, uint32_t parts,
                     const HostState& host) {
  save(trainer, path, parts, host);
}

void save_checkpoint(const Trainer& trainer, checkpoint::ByteSink& sink, uint32_t parts,
                     const HostState& host) {
  save(trainer, sink, parts, host);
}

CheckpointState load_checkpoint(Trainer& trainer, const CheckpointReader& reader, uint32_t parts) {
  trainer.require_between_updates();
  check_model(trainer.instance(), reader);
  check_trainer(trainer, reader, parts);
  const CheckpointState& state = reader.state();
  Segments& segments = trainer.instance().segments();
  const std::vector<Role> roles = roles_of(trainer, parts);
  auto of_devices = read_device_statistics(trainer, reader, parts);
  const std::vector<HostSegment> loaded = read_segments(segments, reader, roles);
  if (trainer.channel() != nullptr) require_same_file(*trainer.channel(), reader, loaded);
  if (!of_devices.empty()) trainer.device_statistics().reserve();
  // The first line that changes anything; only a device can fail from here on.
  trainer.whole_after([&] {
    restore(segments, loaded);
    if (holds(roles, Role::kStatistic)) trainer.device_statistics().restart();
    for (auto& [device, bytes] : of_devices) {
      if (trainer.channel() == nullptr)
        trainer.device_statistics().restore(device, bytes);
      else if (trainer.channel()->rank() == device)
        segments.restore({Role::kStatistic, std::move(bytes)});
    }
    if (holds(roles, Role::kValue) && !holds(roles, Role::kEma))
      trainer.instance().restart_averages();
    if ((parts & Part::kTrainerState) == 0) return;
    const bool has_rate = !state.trainer_config.empty();
    trainer.restore(
        {.step = state.step,
         .batches = state.batches,
         .samples = state.samples,
         .learning_rate = has_rate ? state.learning_rate : trainer.progress().learning_rate});
  });
  return state;
}

void load_weights(ModelInstance& instance, const CheckpointReader& reader) {
  check_model(instance, reader);
  constexpr Role kRoles[] = {Role::kValue, Role::kStatistic};
  restore(instance.segments(), read_segments(instance.segments(), reader, kRoles));
  instance.mark_initialized();
  instance.restart_averages();
}

void load_averages(ModelInstance& instance, const CheckpointReader& reader) {
  std::set<Role> averaged;
  std::vector<Role> roles;
  for (const Role role : {Role::kValue, Role::kStatistic}) {
    const Role average = average_of(role);
    if (!std::ranges::any_of(reader.tensors(), [&](const auto& t) { return t.role == average; }))
      continue;
    instance.segments().ensure(average);
    averaged.insert(role);
    roles.push_back(average);
  }
  restore(instance.segments(), read_segments(instance.segments(), reader, roles));
  instance.set_averaged(std::move(averaged));
}

}  // namespace assay::train
