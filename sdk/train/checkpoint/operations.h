// What one does to checkpoint files outside of training; results are protobuf messages
// (report.proto), which to_json prints.
#pragma once

#include <memory>
#include <string>

#include "sdk/graph/variable.h"
#include "sdk/train/checkpoint/io.h"
#include "sdk/train/checkpoint/name_map.h"

namespace assay::checkpoint {

namespace report {
class Inspection;
class Verification;
class Comparison;
class Conversion;
}  // namespace report

// Contents without the elements of tensors. Raises what CheckpointReader::open raises.
report::Inspection inspect(const std::string& path);
report::Inspection inspect(std::unique_ptr<ByteSource> source);  // which has no path

// Reads every byte. Damage and unknown versions are reported, all damaged tensors of them; only a
// file that cannot be opened or read is an Error.
report::Verification verify(const std::string& path);

// Compares tensors bit by bit and states field by field.
report::Comparison diff(const std::string& a, const std::string& b);

// The weights and statistics as safetensors. `weights` chooses between kValue and kEma; with kEma a
// parameter that has no average is taken as it is. kNotFound when the file has none of that role.
report::Conversion to_safetensors(const std::string& checkpoint, const std::string& safetensors,
                                  const weights::NameMap& map = {}, Role weights = Role::kValue);

// A checkpoint of weights and statistics only. Roles are those of the map's rules, else those that
// a file of ours lists, else PyTorch's names tell them; a tensor that no rule matches, or of a type
// the engine has not, is skipped and reported. kInvalid where nothing says how convolutions lie.
report::Conversion from_safetensors(const std::string& safetensors, const std::string& checkpoint,
                                    const weights::NameMap& map = {});

}  // namespace assay::checkpoint
