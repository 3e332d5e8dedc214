// The manifest as protobuf. What comes from a file is checked field by field before it is believed:
// sizes, places, names, uniqueness.
#include "sdk/train/checkpoint/manifest.h"

#include <set>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/utf8.h"
#include "sdk/train/checkpoint/archive.h"
#include "sdk/train/checkpoint/manifest.pb.h"
#include "sdk/train/checkpoint/message_fields.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::checkpoint {
namespace {

struct Encoder {
  pb::TrainerState& message;
  void operator()(const char* name, const auto& value) const { set_field(message, name, value); }
  void operator()(const char*, const std::optional<LossScale>& value) const {
    if (!value) return;
    message.mutable_loss_scale()->set_scale(value->scale);
    message.mutable_loss_scale()->set_growth_counter(value->growth_counter);
  }
};

struct Decoder {
  const pb::TrainerState& message;
  void operator()(const char* name, auto& value) const { get_field(message, name, value); }
  void operator()(const char*, std::optional<LossScale>& value) const {
    if (message.has_loss_scale())
      value = {message.loss_scale().scale(), message.loss_scale().growth_counter()};
  }
};

void encode(const TensorInfo& tensor, pb::Tensor& message) {
  message.set_name(tensor.name);
  message.set_role(static_cast<pb::Role>(tensor.role));
  message.set_dtype(static_cast<pb::DataType>(tensor.dtype));
  for (const int64_t size : tensor.dims.span()) message.add_dims(size);
  message.set_entry(tensor.entry);
  message.set_offset(tensor.offset);
  message.set_size(tensor.bytes);
  message.set_crc32c(tensor.crc32c);
}

// Names the fault; the callers add which tensor of which file.
TensorInfo decode(const pb::Tensor& message, uint32_t parts, std::string_view file) {
  const std::string name = is_tensor_name(message.name()) ? message.name() : "with a broken name";
  const auto check = [&](bool ok, const auto&... what) {
    require(ok, Code::kFormat, file, ": tensor ", name, ": ", what...,
            "; the file was not written by this library, use another one");
  };
  check(message.dims_size() <= Dims::kMaxRank, "it has ", message.dims_size(), " dimensions");
  TensorInfo tensor;
  tensor.name = message.name();
  // May be no value of the enumeration: find_fault looks.
  tensor.role = static_cast<Role>(message.role());
  tensor.dtype = static_cast<DType>(message.dtype());
  tensor.dims = Dims(std::span(message.dims().data(), static_cast<size_t>(message.dims_size())));
  tensor.entry = message.entry();
  tensor.offset = message.offset();
  tensor.bytes = message.size();
  tensor.crc32c = message.crc32c();
  const std::string fault = find_fault(tensor, parts);
  check(fault.empty(), fault);
  check(is_entry_name(tensor.entry), "the name of its zip entry is not a plain relative path");
  check(tensor.offset % kAlignment == 0, "it starts at byte ", tensor.offset,
        ", which is no multiple of ", kAlignment);
  return tensor;
}

void decode_tensors(const pb::Manifest& manifest, uint64_t limit, std::string_view file,
                    std::vector<TensorInfo>& tensors) {
  std::set<std::pair<std::string, Role>> names;
  std::set<std::string> entries;
  uint64_t end = 0;
  tensors.reserve(static_cast<size_t>(manifest.tensors_size()));
  for (const pb::Tensor& message : manifest.tensors()) {
    TensorInfo tensor = decode(message, manifest.parts(), file);
    require(inside(tensor.offset, tensor.bytes, end, limit), Code::kFormat, file, ": tensor ",
            tensor.name, " claims ", tensor.bytes, " bytes from byte ", tensor.offset,
            ", outside of the space between byte ", end, " and ", limit, " that is left for it");
    end = tensor.offset + tensor.bytes;
    require(names.emplace(tensor.name, tensor.role).second, Code::kFormat, file, ": ",
            to_text(tensor.role), " of tensor ", tensor.name, " occurs twice");
    require(entries.insert(tensor.entry).second, Code::kFormat, file, ": zip entry ", tensor.entry,
            " is used twice");
    tensors.push_back(std::move(tensor));
  }
}

void decode_metadata(const pb::Manifest& manifest, std::string_view file, CheckpointState& state) {
  for (const pb::KeyValue& pair : manifest.metadata()) {
    const bool fresh = state.metadata.emplace(pair.key(), pair.value()).second;
    require(fresh, Code::kFormat, file, ": a metadata key occurs twice");
  }
}

}  // namespace

std::string encode_manifest(const CheckpointState& state, const std::vector<TensorInfo>& tensors) {
  pb::Manifest manifest;
  manifest.set_format_version(kFormatVersion);
  manifest.set_library_version(state.library_version);
  manifest.set_created_unix_s(state.created_unix_s);
  manifest.set_parts(state.parts);
  manifest.set_alignment(kAlignment);
  for (const TensorInfo& tensor : tensors) encode(tensor, *manifest.add_tensors());
  if (state.parts & kTrainerState)
    CheckpointState::fields(state, Encoder{*manifest.mutable_state()});
  for (const auto& [key, value] : state.metadata) {
    pb::KeyValue& pair = *manifest.add_metadata();
    pair.set_key(key);
    pair.set_value(value);
  }
  // protobuf counts in ints.
  require(manifest.ByteSizeLong() <= INT32_MAX, Code::kInvalid, "the manifest of a checkpoint has ",
          manifest.ByteSizeLong(), " bytes, its format allows ", INT32_MAX,
          "; attach less metadata");
  return manifest.SerializeAsString();
}

DecodedManifest decode_manifest(std::string_view bytes, uint32_t version, uint64_t limit,
                                std::string_view file) {
  pb::Manifest manifest;
  require(bytes.size() <= INT32_MAX &&
              manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
          Code::kFormat, file, ": the manifest is not readable as protobuf");
  require(manifest.format_version() == version, Code::kVersion, file, ": the seal says format ",
          version, ", the manifest ", manifest.format_version(),
          "; the file was put together wrongly");
  DecodedManifest decoded;
  CheckpointState& state = decoded.state;
  state.parts = manifest.parts();
  state.created_unix_s = manifest.created_unix_s();
  state.library_version = manifest.library_version();
  CheckpointState::fields(state, Decoder{manifest.state()});
  decode_metadata(manifest, file, state);
  const std::string fault = find_fault(state);
  require(fault.empty(), Code::kFormat, file, ": ", fault);
  decode_tensors(manifest, limit, file, decoded.tensors);
  return decoded;
}

std::string find_fault(const CheckpointState& state) {
  if ((state.parts & ~uint32_t{kAllParts}) != 0) return cat("parts ", state.parts, " are unknown");
  std::string fault = is_utf8(state.library_version) ? "" : "library_version is not UTF-8";
  CheckpointState::fields(state, [&](std::string_view name, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      if (name != "data_cursor" && !is_utf8(value)) fault = cat(name, " is not UTF-8");
    }
  });
  if (!fault.empty()) return fault;
  for (const auto& [key, value] : state.metadata) {
    if (!is_tensor_name(key)) return "a metadata key is empty, too long or not plain text";
    if (!is_utf8(value)) return cat("metadata ", key, " is not UTF-8");
  }
  return "";
}

std::string find_fault(const TensorInfo& tensor, uint32_t parts) {
  if (!is_tensor_name(tensor.name)) {
    return "its name is not 1 to 1024 bytes of UTF-8 without control characters";
  }
  if (tensor.role < Role::kValue || tensor.role > Role::kStatisticEma) {
    return cat("role ", static_cast<int32_t>(tensor.role), " is unknown");
  }
  if ((part_of(tensor.role) & parts) == 0) {
    return cat("its role ", to_text(tensor.role), " belongs to none of the parts saved (bits ",
               parts, ")");
  }
  if (dtype_size(tensor.dtype) == 0) {
    return cat("element type ", static_cast<int32_t>(tensor.dtype), " is unknown");
  }
  const std::optional<uint64_t> bytes = tensor_bytes(tensor.dims.span(), tensor.dtype);
  if (!bytes) return cat("shape ", tensor.dims, " has a negative size or is too large");
  if (*bytes != tensor.bytes) {
    return cat("shape ", tensor.dims, " of ", tensor.dtype, " takes ", *bytes, " bytes, it has ",
               tensor.bytes);
  }
  return "";
}

}  // namespace assay::checkpoint
