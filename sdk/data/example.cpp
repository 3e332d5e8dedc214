// tf.train.Example by generated protobuf code, with checks that name the feature at fault.
#include "sdk/data/example.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

#include "sdk/base/error.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

using record::Feature;

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

const Feature& find_feature(const Example& example, const std::string& name,
                            Feature::KindCase kind) {
  const auto& features = example.features().feature();
  const auto found = features.find(name);
  require(found != features.end(), Code::kFormat, "feature \"", name,
          "\" is missing; the record belongs to another data set");
  const Feature& feature = found->second;
  require(feature.kind_case() == kind, Code::kFormat, "feature \"", name, "\" holds ",
          kind_name(feature.kind_case()), ", expected ", kind_name(kind));
  return feature;
}

template <class Values>
decltype(auto) only_value(const Values& values, const std::string& name) {
  require(values.size() == 1, Code::kFormat, "feature \"", name, "\" holds ", values.size(),
          " values, expected 1");
  return values.Get(0);
}

// Made if it is not there; setting a list of another kind replaces the old one.
Feature& feature_of(Example& example, const std::string& name) {
  return (*example.mutable_features()->mutable_feature())[name];
}

}  // namespace

void parse_example(std::string_view payload, Example& example) {
  constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();
  require(payload.size() <= kMaxMessageBytes &&
              example.ParseFromArray(payload.data(), static_cast<int>(payload.size())),
          Code::kFormat, "the ", payload.size(),
          " bytes of the record are not a tf.train.Example; convert the data again");
}

void serialize_example(const Example& example, std::string& payload) {
  payload.clear();
  google::protobuf::io::StringOutputStream stream(&payload);
  google::protobuf::io::CodedOutputStream output(&stream);
  output.SetSerializationDeterministic(true);  // maps have no order of their own
  example.SerializeToCodedStream(&output);
}

const std::string& bytes_feature(const Example& example, const std::string& name) {
  return only_value(find_feature(example, name, Feature::kBytesList).bytes_list().value(), name);
}

int64_t int64_feature(const Example& example, const std::string& name) {
  return only_value(find_feature(example, name, Feature::kInt64List).int64_list().value(), name);
}

float float_feature(const Example& example, const std::string& name) {
  return only_value(find_feature(example, name, Feature::kFloatList).float_list().value(), name);
}

std::span<const int64_t> int64s_feature(const Example& example, const std::string& name) {
  const auto& values = find_feature(example, name, Feature::kInt64List).int64_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

std::span<const float> floats_feature(const Example& example, const std::string& name) {
  const auto& values = find_feature(example, name, Feature::kFloatList).float_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

bool has_feature(const Example& example, const std::string& name) {
  return example.features().feature().contains(name);
}

void set_bytes_feature(Example& example, const std::string& name, std::string_view value) {
  auto& values = *feature_of(example, name).mutable_bytes_list()->mutable_value();
  if (values.empty()) values.Add();
  values[0].assign(value);
}

void set_bytes_list_feature(Example& example, const std::string& name,
                            std::span<const std::string> values) {
  auto& list = *feature_of(example, name).mutable_bytes_list()->mutable_value();
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
  feature_of(example, name)
      .mutable_int64_list()
      ->mutable_value()
      ->Assign(values.begin(), values.end());
}

void set_floats_feature(Example& example, const std::string& name, std::span<const float> values) {
  feature_of(example, name)
      .mutable_float_list()
      ->mutable_value()
      ->Assign(values.begin(), values.end());
}

}  // namespace assay::data
