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

constexpr auto kKeyOf = [](const auto* entry) -> const std::string& { return entry->key(); };

// In order of keys, of equal ones the last alone.
void put_in_order(Entries& entries) {
  const auto begin = entries.pointer_begin(), end = entries.pointer_end();
  if (std::ranges::is_sorted(begin, end, std::ranges::less_equal(), kKeyOf)) [[likely]]
    return;
  std::ranges::stable_sort(begin, end, {}, kKeyOf);
  int kept = 0;
  for (int i = 0; i < entries.size(); ++i) {
    if (i + 1 == entries.size() || entries[i].key() != entries[i + 1].key())
      entries.SwapElements(kept++, i);
  }
  entries.DeleteSubrange(kept, entries.size() - kept);
}

enum class ListKind { kNone, kBytes, kFloat, kInt64 };

ListKind kind_of(const Feature& feature) {
  if (feature.has_bytes_list()) return ListKind::kBytes;
  if (feature.has_float_list()) return ListKind::kFloat;
  return feature.has_int64_list() ? ListKind::kInt64 : ListKind::kNone;
}

std::string_view kind_name(ListKind kind) {
  switch (kind) {
    case ListKind::kBytes:
      return "bytes";
    case ListKind::kFloat:
      return "float";
    case ListKind::kInt64:
      return "int64";
    case ListKind::kNone:
      break;
  }
  return "no values";
}

const Feature& feature_of(const Example& example, const std::string& name, ListKind kind) {
  const Feature* const feature = find_feature(example, name);
  require(
      feature != nullptr, Code::kFormat, "feature \"", name,
      "\" is missing: the host's function did not give it, or the record is of another data set");
  require(kind_of(*feature) == kind, Code::kFormat, "feature \"", name, "\" holds ",
          kind_name(kind_of(*feature)), ", expected ", kind_name(kind));
  return *feature;
}

template <class Values>
decltype(auto) only_value(const Values& values, const std::string& name) {
  require(values.size() == 1, Code::kFormat, "feature \"", name, "\" holds ", values.size(),
          " values, expected 1");
  return values.Get(0);
}

// Made if it is not there; a list of another kind is taken away.
Feature& mutable_feature(Example& example, const std::string& name, ListKind kind) {
  Entries& entries = *example.mutable_features()->mutable_feature();
  const auto begin = entries.pointer_begin(), end = entries.pointer_end();
  const auto place = std::ranges::lower_bound(begin, end, name, {}, kKeyOf);
  const auto at = static_cast<int>(place - begin);
  if (place != end && (*place)->key() == name) {
    Feature& feature = *entries[at].mutable_value();
    if (kind_of(feature) != kind) feature.Clear();
    return feature;
  }
  auto& added = *entries.Add();
  added.set_key(name);
  Feature& feature = *added.mutable_value();
  std::rotate(entries.pointer_begin() + at, entries.pointer_end() - 1, entries.pointer_end());
  return feature;
}

}  // namespace

void parse_example(std::string_view payload, Example& example) {
  constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();
  bool is_one = payload.size() <= kMaxMessageBytes;
  try {
    is_one = is_one && example.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  } catch (...) {  // of memory: a message that is half there can be destroyed, but not used again
    Example().Swap(&example);
    throw;
  }
  require(is_one, Code::kFormat, "the ", payload.size(),
          " bytes of the record are not a tf.train.Example; convert the data again");
  if (example.has_features()) put_in_order(*example.mutable_features()->mutable_feature());
}

void serialize_example(const Example& example, std::string& payload) {
  example.SerializeToString(&payload);
}

const std::string& bytes_feature(const Example& example, const std::string& name) {
  return only_value(feature_of(example, name, ListKind::kBytes).bytes_list().value(), name);
}

int64_t int64_feature(const Example& example, const std::string& name) {
  return only_value(feature_of(example, name, ListKind::kInt64).int64_list().value(), name);
}

std::span<const int64_t> int64s_feature(const Example& example, const std::string& name) {
  const auto& values = feature_of(example, name, ListKind::kInt64).int64_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

std::span<const float> floats_feature(const Example& example, const std::string& name) {
  const auto& values = feature_of(example, name, ListKind::kFloat).float_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

bool has_feature(const Example& example, const std::string& name) {
  return find_feature(example, name) != nullptr;
}

const Feature* find_feature(const Example& example, const std::string& name) {
  const Entries& entries = example.features().feature();
  const auto begin = entries.pointer_begin(), end = entries.pointer_end();
  const auto found = std::ranges::lower_bound(begin, end, name, {}, kKeyOf);
  return found != end && (*found)->key() == name ? &(*found)->value() : nullptr;
}

void set_bytes_feature(Example& example, const std::string& name, std::string_view value) {
  auto& values =
      *mutable_feature(example, name, ListKind::kBytes).mutable_bytes_list()->mutable_value();
  if (values.empty()) values.Add();
  values[0].assign(value);
}

void set_bytes_list_feature(Example& example, const std::string& name,
                            std::span<const std::string> values) {
  auto& list =
      *mutable_feature(example, name, ListKind::kBytes).mutable_bytes_list()->mutable_value();
  list.Assign(values.begin(), values.end());
}

void set_int64_feature(Example& example, const std::string& name, int64_t value) {
  set_int64s_feature(example, name, {&value, 1});
}

void set_int64s_feature(Example& example, const std::string& name,
                        std::span<const int64_t> values) {
  mutable_feature(example, name, ListKind::kInt64)
      .mutable_int64_list()
      ->mutable_value()
      ->Assign(values.begin(), values.end());
}

void set_floats_feature(Example& example, const std::string& name, std::span<const float> values) {
  mutable_feature(example, name, ListKind::kFloat)
      .mutable_float_list()
      ->mutable_value()
      ->Assign(values.begin(), values.end());
}

}  // namespace assay::data
