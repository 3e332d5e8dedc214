// Checkpoints and weight files through the C interface: arguments checked, handles guarded, the
// work left to train/ and train/checkpoint/.
#include "sdk/train/checkpoint/checkpoint.h"

#include <chrono>
#include <filesystem>

#include "capi/src/abi.h"
#include "capi/src/host_io.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "capi/src/trainer.h"
#include "models/models.h"
#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"
#include "sdk/train/checkpoint/operations.h"
#include "sdk/train/checkpoint/report.pb.h"
#include "sdk/train/checkpoint/weights.pb.h"
#include "sdk/train/trainer_checkpoint.h"
#include "sdk/train/weight_files.h"

namespace assay::capi {
namespace {

uint32_t checked_parts(uint32_t parts) {
  check_bits(parts, ASSAY_PART_ALL, "parts", "ASSAY_PART_*");
  return parts == 0 ? uint32_t{ASSAY_PART_ALL} : parts;
}

// The loader's position is metadata to the host and has a field of its own in the file, for it may
// be any bytes.
train::HostState host_state(const assay_trainer& trainer) {
  train::HostState host;
  for (const auto& [key, value] : trainer.metadata) {
    (key == kCursorKey ? host.data_cursor : host.metadata[key]) = value;
  }
  return host;
}

void take_metadata(assay_trainer& trainer, const checkpoint::CheckpointState& state) {
  trainer.metadata.clear();
  trainer.metadata.insert(state.metadata.begin(), state.metadata.end());
  if (!state.data_cursor.empty()) trainer.metadata.emplace(kCursorKey, state.data_cursor);
}

LoadedCheckpoint describe(const checkpoint::CheckpointReader& reader) {
  const checkpoint::CheckpointState& state = reader.state();
  LoadedCheckpoint report;
  report.set_file_bytes(static_cast<double>(reader.file_bytes()));
  report.set_format_version(reader.format_version());
  report.set_library_version(state.library_version);
  report.set_created_unix_s(static_cast<double>(state.created_unix_s));
  if ((state.parts & ASSAY_PART_TRAINER_STATE) != 0) {
    report.set_step(static_cast<double>(state.step));
    report.set_samples(static_cast<double>(state.samples));
  }
  for (const auto& [key, value] : state.metadata) report.add_metadata(key);
  if (!state.data_cursor.empty()) report.add_metadata(std::string(kCursorKey));
  return report;
}

void log_saved(const assay_trainer& trainer, std::string_view target) {
  trainer.model->context().log(ASSAY_LOG_INFO, "checkpoint", "saved step ",
                               trainer.impl.step_count(), " to ", target);
}

void load(assay_trainer& trainer, const checkpoint::CheckpointReader& reader, uint32_t parts,
          const LoadedCheckpoint& described, assay_report** out) {
  // Made first: a report that cannot be made leaves the trainer as it was.
  std::unique_ptr<assay_report> report(new_report(described));
  const auto state = train::load_checkpoint(trainer.impl, reader, parts);
  if ((parts & ASSAY_PART_TRAINER_STATE) != 0) take_metadata(trainer, state);
  trainer.model->context().backend()->wait();  // others may read the weights in place
  trainer.model->context().log(ASSAY_LOG_INFO, "checkpoint", "loaded step ",
                               trainer.impl.step_count(), " from ", reader.name());
  if (out != nullptr) *out = report.release();
}

assay_model* open_model(const std::shared_ptr<const Context>& context,
                        const checkpoint::CheckpointReader& reader) {
  const checkpoint::CheckpointState& state = reader.state();
  require(!state.model_name.empty(), Code::kFormat, reader.name(),
          " does not say what model it is of: it was saved without its trainer's state; make the "
          "model and load the weights into it");
  auto model = std::make_shared<ModelState>(
      context, models::create_model(state.model_name, state.model_config));
  train::load_weights(*model->make_instance(), reader);
  train::load_averages(*model->make_instance(), reader);
  return new assay_model{std::move(model)};
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_checkpoint_save(const assay_trainer* t, assay_str path, uint32_t parts,
                                   assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    const assay_trainer& trainer = not_null(t, "t");
    const std::string file = checked_path(path, "path");
    const uint32_t chosen = checked_parts(parts);
    const SharedUse use(trainer.model->access(), "trainer or its model");
    train::save_checkpoint(trainer.impl, file, chosen, host_state(trainer));
    log_saved(trainer, file);
  });
}

assay_status assay_checkpoint_save_io(const assay_trainer* t, const assay_io* io, uint32_t parts,
                                      assay_error** err) {
  return guard(err, [&] {
    const assay_trainer& trainer = not_null(t, "t");
    const assay_io functions = read_struct(&not_null(io, "io"), "io");
    const uint32_t chosen = checked_parts(parts);
    const SharedUse use(trainer.model->access(), "trainer or its model");
    IoSink sink(functions);
    train::save_checkpoint(trainer.impl, sink, chosen, host_state(trainer));
    log_saved(trainer, "the host");
  });
}

assay_status assay_checkpoint_load(assay_trainer* t, assay_str path, uint32_t parts,
                                   assay_report** out, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    if (out != nullptr) *out = nullptr;
    assay_trainer& trainer = not_null(t, "t");
    const std::string file = checked_path(path, "path");
    const uint32_t chosen = checked_parts(parts);
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    const auto reader = checkpoint::CheckpointReader::open(file);
    LoadedCheckpoint report = describe(reader);
    report.set_path(file);
    load(trainer, reader, chosen, report, out);
  });
}

assay_status assay_checkpoint_load_io(assay_trainer* t, const assay_io* io, uint32_t parts,
                                      assay_report** out, assay_error** err) {
  return guard(err, [&] {
    if (out != nullptr) *out = nullptr;
    assay_trainer& trainer = not_null(t, "t");
    const assay_io functions = read_struct(&not_null(io, "io"), "io");
    const uint32_t chosen = checked_parts(parts);
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    const auto reader = checkpoint::CheckpointReader::open(std::make_unique<IoSource>(functions));
    load(trainer, reader, chosen, describe(reader), out);
  });
}

assay_status assay_model_open(const assay_context* c, assay_str path, assay_model** out,
                              assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    *out = open_model(context, checkpoint::CheckpointReader::open(checked_path(path, "path")));
  });
}

assay_status assay_model_open_io(const assay_context* c, const assay_io* io, assay_model** out,
                                 assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& context = not_null(c, "c").impl;
    const assay_io functions = read_struct(&not_null(io, "io"), "io");
    *out = open_model(context,
                      checkpoint::CheckpointReader::open(std::make_unique<IoSource>(functions)));
  });
}

assay_status assay_model_load_weights(assay_model* m, assay_str path, assay_str format,
                                      assay_str map_json, uint32_t flags, assay_report** out,
                                      assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    if (out != nullptr) *out = nullptr;
    ModelState& state = *not_null(m, "m").impl;
    const std::string file = checked_path(path, "path");
    const std::string_view kind = to_text(format, "format");
    const std::string_view map = to_text(map_json, "map_json");
    check_bits(flags, ASSAY_WEIGHTS_PARTIAL, "flags", "ASSAY_WEIGHTS_*");
    const ExclusiveUse use(state.access(), "model");
    require(!state.has_trainer, Code::kInvalid,
            "the model has a trainer; load weights before making it, or use assay_checkpoint_load");
    expect_one_of({"", "format"}, kind, {"checkpoint", "safetensors"});
    const weights::ImportOptions options{.map = weights::parse_name_map(map),
                                         .allow_partial = (flags & ASSAY_WEIGHTS_PARTIAL) != 0};
    train::ModelInstance& instance = *state.make_instance();
    weights::LoadReport report;
    if (kind == "safetensors") {
      report = train::import_weights(instance, safetensors::Reader::open(file), options);
    } else if (const auto reader = checkpoint::CheckpointReader::open(file);
               !map.empty() || options.allow_partial) {
      report = train::import_weights(instance, reader, options);
    } else {  // of the same model
      train::load_weights(instance, reader);
      report.set_path(file);
    }
    state.context().backend()->wait();  // others may read the weights in place
    if (out != nullptr) *out = new_report(report);
  });
}

assay_status assay_model_save_weights(const assay_model* m, assay_str path, assay_str format,
                                      assay_str map_json, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    const ModelState& state = *not_null(m, "m").impl;
    const std::string file = checked_path(path, "path");
    const std::string_view kind = to_text(format, "format");
    expect_one_of({"", "format"}, kind, {"safetensors"});
    const std::string_view map = to_text(map_json, "map_json");
    const SharedUse use(state.access(), "model");
    train::export_weights(state.initialized_instance(), file, weights::parse_name_map(map));
  });
}

assay_status assay_checkpoint_inspect(assay_str path, assay_report** out, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    cleared(out);
    *out = new_report(checkpoint::inspect(checked_path(path, "path")));
  });
}

assay_status assay_checkpoint_inspect_io(const assay_io* io, assay_report** out,
                                         assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const assay_io functions = read_struct(&not_null(io, "io"), "io");
    *out = new_report(checkpoint::inspect(std::make_unique<IoSource>(functions)));
  });
}

assay_status assay_checkpoint_verify(assay_str path, assay_report** out, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    cleared(out);
    *out = new_report(checkpoint::verify(checked_path(path, "path")));
  });
}

assay_status assay_checkpoint_diff(assay_str a, assay_str b, assay_report** out,
                                   assay_error** err) {
  return guard(err, {{"a", a}, {"b", b}}, [&] {
    cleared(out);
    *out = new_report(checkpoint::diff(checked_path(a, "a"), checked_path(b, "b")));
  });
}

assay_status assay_checkpoint_convert(assay_str from, assay_str to, assay_str format,
                                      assay_str map_json, int32_t kind, assay_report** out,
                                      assay_error** err) {
  return guard(err, {{"to", to}, {"from", from}}, [&] {
    if (out != nullptr) *out = nullptr;
    const std::string source = checked_path(from, "from");
    const std::string target = checked_path(to, "to");
    std::error_code absent;
    expect(!std::filesystem::equivalent(source, target, absent), {"", "to"}, excerpt(target),
           "another file than `from`");
    const std::string_view wanted = to_text(format, "format");
    const weights::NameMap map = weights::parse_name_map(to_text(map_json, "map_json"));
    expect(map.keep.empty(), {"name map", "keep"}, "given",
           "nothing: no model is there to keep it");
    expect(kind == 0 || kind == ASSAY_KIND_VALUE || kind == ASSAY_KIND_EMA, {"", "kind"}, kind,
           "ASSAY_KIND_VALUE or ASSAY_KIND_EMA");
    expect_one_of({"", "format"}, wanted, {"safetensors", "checkpoint"});
    const Role role = kind == ASSAY_KIND_EMA ? Role::kEma : Role::kValue;
    const auto report = wanted == "safetensors"
                            ? checkpoint::to_safetensors(source, target, map, role)
                            : checkpoint::from_safetensors(source, target, map);
    if (out != nullptr) *out = new_report(report);
  });
}
