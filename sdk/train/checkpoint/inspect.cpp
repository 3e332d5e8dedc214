// What a file holds, as a report, and whether it is whole.
#include "sdk/base/error.h"
#include "sdk/base/hex.h"
#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/checkpoint/message_fields.h"
#include "sdk/train/checkpoint/operations.h"
#include "sdk/train/checkpoint/report.pb.h"
#include "sdk/train/checkpoint/safetensors.h"

namespace assay::checkpoint {
namespace {

void describe_parts(uint32_t parts, report::Inspection& out) {
  if (parts & kWeights) out.add_parts("weights");
  if (parts & kMoments) out.add_parts("moments");
  if (parts & kEmaPart) out.add_parts("ema");
  if (parts & kStatistics) out.add_parts("statistics");
  if (parts & kTrainerState) out.add_parts("trainer_state");
}

void describe_metadata(const std::map<std::string, std::string>& metadata,
                       report::Inspection& out) {
  for (const auto& [key, value] : metadata) {
    report::Metadata& pair = *out.add_metadata();
    pair.set_key(key);
    pair.set_value(value);
  }
}

// Called with each field of a state; the report has fields of the same names.
struct Describer {
  const CheckpointState& state;
  report::Inspection& out;

  void operator()(std::string_view name, const auto& value) const {
    const bool of_model = name.starts_with("model_");
    const bool is_newer = name == "trainer_config" || name == "learning_rate";
    if (of_model ? state.model_name.empty() : (state.parts & kTrainerState) == 0) return;
    if (is_newer && state.trainer_config.empty()) return;  // an older file
    if (name == "data_cursor") return;                     // its size is told
    set_field(out, name.data(), value);
  }
  void operator()(std::string_view, const std::optional<LossScale>& value) const {
    if ((state.parts & kTrainerState) == 0 || !value) return;
    out.set_loss_scale(value->scale);
    out.set_growth_counter(value->growth_counter);
  }
};

void describe_state(const CheckpointState& state, report::Inspection& out) {
  out.set_library_version(state.library_version);
  out.set_created_unix_s(state.created_unix_s);
  describe_parts(state.parts, out);
  CheckpointState::fields(state, Describer{state, out});
  if ((state.parts & kTrainerState) != 0) out.set_data_cursor_bytes(state.data_cursor.size());
  describe_metadata(state.metadata, out);
}

report::Inspection inspect_checkpoint(std::unique_ptr<ByteSource> source) {
  const CheckpointReader reader = CheckpointReader::open(std::move(source));
  report::Inspection out;
  out.set_format("checkpoint");
  out.set_format_version(reader.format_version());
  describe_state(reader.state(), out);
  int64_t weight_elements = 0;
  for (const TensorInfo& info : reader.tensors()) {
    report::Tensor& tensor = *out.add_tensors();
    tensor.set_name(info.name);
    tensor.set_role(std::string(to_text(info.role)));
    tensor.set_dtype(std::string(to_text(info.dtype)));
    for (const int64_t size : info.dims.span()) tensor.add_dims(size);
    tensor.set_bytes(info.bytes);
    tensor.set_offset(info.offset);
    tensor.set_crc32c(hex_number(info.crc32c, 8));
    if (info.role == Role::kValue) weight_elements += info.dims.numel();
  }
  out.set_weight_elements(weight_elements);
  return out;
}

report::Inspection inspect_safetensors(std::unique_ptr<ByteSource> source) {
  const safetensors::Reader reader = safetensors::Reader::open(std::move(source));
  report::Inspection out;
  out.set_format("safetensors");
  describe_metadata(reader.metadata(), out);
  for (const safetensors::Tensor& info : reader.tensors()) {
    report::Tensor& tensor = *out.add_tensors();
    tensor.set_name(info.name);
    tensor.set_dtype(info.dtype ? std::string(to_text(*info.dtype)) : info.type);
    for (const int64_t size : info.dims) tensor.add_dims(size);
    tensor.set_bytes(info.bytes);
    tensor.set_offset(info.offset);
  }
  return out;
}

}  // namespace

report::Inspection inspect(std::unique_ptr<ByteSource> source) {
  const uint64_t file_bytes = source->size();
  report::Inspection out = safetensors::looks_like(*source) ? inspect_safetensors(std::move(source))
                                                            : inspect_checkpoint(std::move(source));
  out.set_file_bytes(file_bytes);
  return out;
}

report::Inspection inspect(const std::string& path) {
  report::Inspection out = inspect(std::make_unique<FileSource>(path));
  out.set_path(path);
  return out;
}

report::Verification verify(const std::string& path) {
  report::Verification out;
  out.set_path(path);
  // Damage is what this function is asked about; anything else stays an Error.
  const auto note = [&out](const Error& error) {
    if (error.code() != Code::kFormat && error.code() != Code::kVersion) throw error;
    out.add_faults(error.message());
  };
  auto source = std::make_unique<FileSource>(path);
  out.set_file_bytes(source->size());
  try {
    const CheckpointReader reader = CheckpointReader::open(std::move(source));
    out.set_tensors(static_cast<int>(reader.tensors().size()));
    for (const TensorInfo& tensor : reader.tensors()) {
      try {
        reader.verify(tensor);
      } catch (const Error& error) {
        note(error);
      }
    }
  } catch (const Error& error) {
    note(error);
  }
  out.set_ok(out.faults().empty());
  return out;
}

}  // namespace assay::checkpoint
