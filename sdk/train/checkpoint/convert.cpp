// Checkpoints to safetensors and back: what has no place on the other side goes into metadata or
// the report.
#include <algorithm>
#include <deque>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/checkpoint/operations.h"
#include "sdk/train/checkpoint/report.pb.h"
#include "sdk/train/checkpoint/safetensors.h"
#include "sdk/train/checkpoint/weights.h"
#include "sdk/train/checkpoint/weights.pb.h"

namespace assay::checkpoint {
namespace {

// Memory of the tensors on their way; conversion holds the weights once.
using Storage = std::deque<std::vector<std::byte>>;

// safetensors has no roles: the names of the statistics travel in this metadata entry, one a line.
constexpr std::string_view kStatisticsKey = "assay.statistics";

std::set<std::string> statistics_of(const safetensors::Reader& reader) {
  std::set<std::string> names;
  const auto entry = reader.metadata().find(std::string(kStatisticsKey));
  std::istringstream lines(entry == reader.metadata().end() ? "" : entry->second);
  for (std::string name; std::getline(lines, name);) names.insert(name);
  return names;
}

// By the file's own list, or, where another program wrote it, by PyTorch's names.
bool is_statistic(const std::set<std::string>& listed, const weights::MappedName& tensor) {
  if (tensor.rule != nullptr && !tensor.rule->role.empty()) return tensor.rule->role == "statistic";
  if (!listed.empty()) return listed.contains(tensor.name);
  return tensor.name.ends_with(".running_mean") || tensor.name.ends_with(".running_var");
}

// Where no rule says it. There is no model here whose shapes could tell.
std::string_view layout_said_by(const safetensors::Reader& reader) {
  if (!reader.metadata().contains("format")) {
    for (const safetensors::Tensor& tensor : reader.tensors()) {
      require(tensor.dims.size() != 4, Code::kInvalid, reader.name(),
              ": its metadata do not say its \"format\", and so not how convolutions such as ",
              tensor.name,
              " lie; say it with a name map, or with --layout of assay-checkpoint: OIHW is "
              "PyTorch's layout, SAME ours");
    }
  }
  return weights::layout_of(reader);
}

bool belongs_to_statistic(Role role) {
  return role == Role::kStatistic || role == Role::kStatisticEma;
}

// The value or statistic of each variable, or its average where averages are wanted and there is
// one.
bool wanted(const CheckpointReader& reader, const TensorInfo& info, Role weights) {
  const bool averages = weights == Role::kEma;
  if (info.role == Role::kEma || info.role == Role::kStatisticEma) return averages;
  if (info.role != Role::kValue && info.role != Role::kStatistic) return false;
  return !averages || reader.find(info.name, average_of(info.role)) == nullptr;
}

}  // namespace

report::Conversion to_safetensors(const std::string& checkpoint, const std::string& safetensors,
                                  const weights::NameMap& map, Role weights) {
  require(weights == Role::kValue || weights == Role::kEma, Code::kInvalid, "exporting ", weights,
          ": only value and ema are weights");
  const CheckpointReader reader = CheckpointReader::open(checkpoint);
  const bool has_any = std::ranges::any_of(
      reader.tensors(), [&](const TensorInfo& info) { return info.role == weights; });
  require(has_any, Code::kNotFound, checkpoint, ": it holds no tensor of role ", weights);
  Storage storage;
  std::vector<weights::Source> sources;
  std::string statistics;
  for (const TensorInfo& info : reader.tensors()) {
    if (!wanted(reader, info, weights)) continue;
    if (belongs_to_statistic(info.role)) statistics += info.name + "\n";
    std::vector<std::byte>& data = storage.emplace_back(info.bytes);
    reader.read(info, data);
    sources.push_back({info.name, info.dtype, info.dims, data});
  }
  const std::vector<std::string> left_out = weights::export_weights(
      safetensors, sources, map,
      {{"assay.model", reader.state().model_name}, {std::string(kStatisticsKey), statistics}});
  report::Conversion out;
  out.set_from(checkpoint);
  out.set_to(safetensors);
  out.set_tensors(static_cast<int>(sources.size() - left_out.size()));
  for (const std::string& name : left_out) out.add_skipped(name);
  return out;
}

report::Conversion from_safetensors(const std::string& safetensors, const std::string& checkpoint,
                                    const weights::NameMap& map) {
  const safetensors::Reader reader = safetensors::Reader::open(safetensors);
  report::Conversion out;
  out.set_from(safetensors);
  out.set_to(checkpoint);
  Storage storage;
  std::vector<TensorRecord> records;
  std::vector<weights::Destination> targets;
  const std::set<std::string> statistics = statistics_of(reader);
  const std::string_view layout = map.rules.empty() ? layout_said_by(reader) : "SAME";
  for (const safetensors::Tensor& tensor : reader.tensors()) {
    const auto mapped = weights::name_in_model(map, tensor.name);
    if (!mapped || !tensor.dtype || tensor.dims.size() > Dims::kMaxRank) {
      out.add_skipped(tensor.name);
      continue;
    }
    const Dims dims(weights::dims_in_model(tensor.dims, mapped->rule, layout));
    std::vector<std::byte>& data = storage.emplace_back(tensor.bytes);
    const Role role = is_statistic(statistics, *mapped) ? Role::kStatistic : Role::kValue;
    targets.push_back({mapped->name, *tensor.dtype, dims, data});
    records.push_back({mapped->name, role, *tensor.dtype, dims, data});
  }
  // Complete by construction: every target was made of a tensor of this file.
  weights::import_weights(reader, targets, {.map = map});
  CheckpointState state;
  state.parts = kWeights | kStatistics;
  state.metadata["assay.imported_from"] = file_name(safetensors);
  write_checkpoint(checkpoint, state, records);
  out.set_tensors(static_cast<int>(records.size()));
  return out;
}

}  // namespace assay::checkpoint
