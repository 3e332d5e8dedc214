#include "sdk/train/trainer_config.h"

#include <google/protobuf/struct.pb.h>

#include <set>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/base/proto_json.h"
#include "sdk/optim/loss_scale.h"
#include "sdk/optim/optimizer.h"
#include "sdk/optim/schedule.h"
#include "sdk/passes/precision.h"

namespace assay::train {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

void check_count(std::string_view key, int64_t value) {
  expect(value >= 1 && value <= (int64_t{1} << 30), {"trainer", key}, value, "1 to 2^30");
}

const Value* find(const Struct& object, const std::string& key) {
  const auto found = object.fields().find(key);
  return found == object.fields().end() ? nullptr : &found->second;
}

// What a thing is comes first; then the alphabet, so that the answer does not depend on hashing.
std::vector<std::string> keys_of(const Struct& a, const Struct& b) {
  std::set<std::string> rest;
  for (const auto& [key, unused] : a.fields()) rest.insert(key);
  for (const auto& [key, unused] : b.fields()) rest.insert(key);
  std::vector<std::string> keys;
  for (const char* first : {"name", "mode"}) {
    if (rest.erase(first) > 0) keys.emplace_back(first);
  }
  keys.insert(keys.end(), rest.begin(), rest.end());
  return keys;
}

std::optional<ConfigDifference> compare(const Value* ours, const Value* theirs,
                                        const std::string& path);

std::optional<ConfigDifference> compare_objects(const Struct& ours, const Struct& theirs,
                                                const std::string& path) {
  for (const std::string& key : keys_of(ours, theirs)) {
    auto difference =
        compare(find(ours, key), find(theirs, key), path.empty() ? key : path + "." + key);
    if (difference) return difference;
  }
  return std::nullopt;
}

std::optional<ConfigDifference> compare(const Value* ours, const Value* theirs,
                                        const std::string& path) {
  if (ours == nullptr || theirs == nullptr) {
    const auto text = [](const Value* value) { return value ? to_json(*value) : "nothing"; };
    return ConfigDifference{path, text(ours), text(theirs)};
  }
  if (ours->has_struct_value() && theirs->has_struct_value())
    return compare_objects(ours->struct_value(), theirs->struct_value(), path);
  const auto& a = ours->list_value().values();
  const auto& b = theirs->list_value().values();
  if (ours->has_list_value() && theirs->has_list_value() && a.size() == b.size()) {
    for (int i = 0; i < a.size(); ++i) {
      if (auto difference = compare(&a[i], &b[i], cat(path, "[", i, "]"))) return difference;
    }
    return std::nullopt;
  }
  if (to_json(*ours) == to_json(*theirs)) return std::nullopt;
  return ConfigDifference{path, to_json(*ours), to_json(*theirs)};
}

}  // namespace

TrainerConfig with_defaults(TrainerConfig config) {
  if (!config.has_eval_batch_size()) config.set_eval_batch_size(config.batch_size());
  if (!config.has_accumulate()) config.set_accumulate(1);
  if (!config.has_precision()) config.set_precision("fp32");
  *config.mutable_optimizer() = optim::with_defaults(config.optimizer());
  *config.mutable_schedule() = optim::with_defaults(config.schedule());
  // f16 gradients underflow without a scale.
  if (!config.loss_scale().has_mode() && config.precision() == "amp-fp16")
    config.mutable_loss_scale()->set_mode("dynamic");
  *config.mutable_loss_scale() = optim::with_defaults(config.loss_scale());
  return config;
}

void check(const TrainerConfig& config) {
  check_count("batch_size", config.batch_size());
  check_count("eval_batch_size", config.eval_batch_size());
  check_count("accumulate", config.accumulate());
  expect_number({"trainer", "label_smoothing"}, config.label_smoothing(), {0, 1});
  expect_number({"trainer", "mixup_alpha"}, config.mixup_alpha(), {0, 1e6, true});
  parse_precision(config.precision());
  optim::check(config.optimizer());
  optim::check(config.schedule());
  optim::check(config.loss_scale());
}

std::optional<ConfigDifference> first_difference(const TrainerConfig& ours,
                                                 const TrainerConfig& theirs) {
  TrainerConfig a = ours, b = theirs;
  a.clear_eval_batch_size();
  b.clear_eval_batch_size();
  return first_difference(to_json(a), to_json(b));
}

std::optional<ConfigDifference> first_difference(const std::string& ours,
                                                 const std::string& theirs) {
  Struct a, b;
  parse_json(ours, a, "configuration");
  parse_json(theirs, b, "configuration");
  return compare_objects(a, b, "");
}

}  // namespace assay::train
