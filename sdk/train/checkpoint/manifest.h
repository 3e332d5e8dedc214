// Between the structs of checkpoint.h and the protobuf message in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/train/checkpoint/checkpoint.h"

namespace assay::checkpoint {

// Serialized, with deterministic bytes. The size does not depend on the values of offsets, as long
// as they are not 0.
std::string encode_manifest(const CheckpointState& state, const std::vector<TensorInfo>& tensors);

struct DecodedManifest {
  CheckpointState state;
  std::vector<TensorInfo> tensors;
};

// Parses and checks every field: types, sizes, names; tensors in file order, without overlap and
// inside the first `limit` bytes. kFormat with the name of the file, kVersion when `version` is not
// that of the manifest.
DecodedManifest decode_manifest(std::string_view bytes, uint32_t version, uint64_t limit,
                                std::string_view file);

// Conditions on states and tensors that hold on both sides; returns "" or what is wrong.
std::string find_fault(const CheckpointState& state);
std::string find_fault(const TensorInfo& tensor, uint32_t parts);

}  // namespace assay::checkpoint
