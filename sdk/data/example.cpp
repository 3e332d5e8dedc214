// tf.train.Example by generated protobuf code, with checks that name the feature at fault.
#include "sdk/data/example.h"

#include <algorithm>
#include <limits>

#include "sdk/base/error.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

using record::Feature;
using Entries = google::protobuf::RepeatedPtrField<record::Features::Entry>;

constexpr auto key_of = [](const auto* entry) -> const std::string& { return entry->key(); };

// In order of keys, of equal ones the last alone.
void put_in_order(Entries& entries) {
  const auto begin = entries.pointer_begin(), end = entries.pointer_end();
  if (std::ranges::is_sorted(begin, end, std::ranges::less_equal(), key_of)) [[likely]]
    return;
  std::ranges::stable_sort(begin, end, {}, key_of);
  int kept = 0;
  for (int i = 0; i < entries.size(); ++i) {
    if (i + 1 == entries.size() || entries[i].key() != entries[i + 1].key())
      entries.SwapElements(kept++, i);
  }
  entries.DeleteSubrange(kept, entries.size() - kept);
}

std::string_view kind_name(Feature::KindCase kind) {
  switch (kind) {
    case Feature::kBytesList:
      return "bytes";
    case Feature::kFloatList:
      return "float";
    case Feature::kInt64List:
      return "int64";
    case Feature::KIND_NOT_SET:
      break;
  }
  return "no values";
}

const Feature& feature_of(const Example& example, const std::string& name,
                          Feature::KindCase kind) {
  const Feature* const feature = find_feature(example, name);
  require(feature != nullptr, Code::kFormat, "feature \"", name,
          "\" is missing; the record belongs to another data set");
  require(feature->kind_case() == kind, Code::kFormat, "feature \"", name, "\" holds ",
          kind_name(feature->kind_case()), ", expected ", kind_name(kind));
  return *feature;
}

template <class Values>
decltype(auto) only_value(const Values& values, const std::string& name) {
  require(values.size() == 1, Code::kFormat, "feature \"", name, "\" holds ", values.size(),
          " values, expected 1");
  return values.Get(0);
}

// Made if it is not there; setting a list of another kind replaces the old one.
Feature& mutable_feature(Example& example, const std::string& name) {
  Entries& entries = *example.mutable_features()->mutable_feature();
  const auto begin = entries.pointer_begin(), end = entries.pointer_end();
  const auto place = std::ranges::lower_bound(begin, end, name, {}, key_of);
  const auto at = static_cast<int>(place - begin);
  if (place != end && (*place)->key() == name) return *entries[at].mutable_value();
  auto& added = *entries.Add();
  added.set_key(name);
  Feature& feature = *added.mutable_value();
  std::rotate(entries.pointer_begin() + at, entries.pointer_end() - 1, entries.pointer_end());
  return feature;
}

}  // namespace

void parse_example(std::string_view payload, Example& example) {
  constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();
  require(payload.size() <= kMaxMessageBytes &&
              example.ParseFromArray(payload.data(), static_cast<int>(payload.size())),
          Code::kFormat, "the ", payload.size(),
          " bytes of the record are not a tf.train.Example; convert the data again");
  if (example.has_features()) put_in_order(*example.mutable_features()->mutable_feature());
}

void serialize_example(const Example& example, std::string& payload) {
  example.SerializeToString(&payload);
}

const std::string& bytes_feature(const Example& example, const std::string& name) {
  return only_value(feature_of(example, name, Feature::kBytesList).bytes_list().value(), name);
}

int64_t int64_feature(const Example& example, const std::string& name) {
  return only_value(feature_of(example, name, Feature::kInt64List).int64_list().value(), name);
}

float float_feature(const Example& example, const std::string& name) {
  return only_value(feature_of(example, name, Feature::kFloatList).float_list().value(), name);
}

std::span<const int64_t> int64s_feature(const Example& example, const std::string& name) {
  const auto& values = feature_of(example, name, Feature::kInt64List).int64_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

std::span<const float> floats_feature(const Example& example, const std::string& name) {
  const auto& values = feature_of(example, name, Feature::kFloatList).float_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

bool has_feature(const Example& example, const std::string& name) {
  return find_feature(example, name) != nullptr;
}

const Feature* find_feature(const Example& example, const std::string& name) {
  const Entries& entries = example.features().feature();
  const auto begin = entries.pointer_begin(), end = entries.pointer_end();
  const auto found = std::ranges::lower_bound(begin, end, name, {}, key_of);
  return found != end && (*found)->key() == name ? &(*found)->value() : nullptr;
}

void set_bytes_feature(Example& example, const std::string& name, std::string_view value) {
  auto& values = *mutable_feature(example, name).mutable_bytes_list()->mutable_value();
  if (values.empty()) values.Add();
  values[0].assign(value);
}

void set_bytes_list_feature(Example& example, const std::string& name,
                            std::span<const std::string> values) {
  auto& list = *mutable_feature(example, name).mutable_bytes_list()->mutable_value();
  list.Assign(values.begin(), values.end());
}

void set_int64_feature(Example& example, const std::string& name, int64_t value) {
  set_int64s_feature(example, name, {&value, 1});
}

void set_float_feature(Example& example, const std::string& name, float value) {
  set_floats_feature(example, name, {&value, 1});
}

void set_int64s_feature(Example& example, const std::string& name,
                        std::span<const int64_t> values) {
  mutable_feature(example, name)
      .mutable_int64_list()
      ->mutable_value()
      ->Assign(values.begin(), values.end());
}

void set_floats_feature(Example& example, const std::string& name, std::span<const float> values) {
  mutable_feature(example, name)
      .mutable_float_list()
      ->mutable_value()
      ->Assign(values.begin(), values.end());
}

}  // namespace assay::data
