#include "sdk/base/proto_json.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include "sdk/base/error.h"

namespace assay {
namespace {

using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;

// What protobuf's own parser makes of the text is what ours has to.
template <class T>
void expect_as_protobuf(const std::string& json) {
  T ours, protobufs;
  parse_json(json, ours, "test");
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &protobufs).ok());
  EXPECT_EQ(ours.SerializeAsString(), protobufs.SerializeAsString()) << json;
  T again;
  parse_json(to_json(ours), again, "test");
  EXPECT_EQ(again.SerializeAsString(), ours.SerializeAsString()) << json;
}

TEST(ProtoJson, FieldsOfEveryTypeAreAsProtobufReadsThem) {
  expect_as_protobuf<FieldDescriptorProto>(R"({
      "name": "tab\t, quotation mark \", \u00e9, \ud83d\ude00", "number": -7,
      "label": "LABEL_REPEATED", "options": {"deprecated": true, "lazy": false,
          "uninterpreted_option": [
              {"positive_int_value": "18446744073709551615", "negative_int_value": -3},
              {"positive_int_value": 5, "double_value": 0.1}, {},
              {"double_value": -1e300, "name": [{"name_part": "x", "is_extension": true}]}]}})");
  expect_as_protobuf<EnumDescriptorProto>(R"({"reserved_name": ["a", "", "b"],
      "value": [{"number": 2e1, "options": {}}]})");
  // The types that it has not; protobuf writes these two without their message.
  google::protobuf::UInt32Value whole;
  parse_json(R"({"value": 4294967295})", whole, "test");
  EXPECT_EQ(whole.value(), 4294967295u);
  google::protobuf::FloatValue real;
  parse_json(R"({"value": 0.1})", real, "test");
  EXPECT_EQ(real.value(), 0.1f);
}

TEST(ProtoJson, WhatTheMessageHeldIsGoneButForEmptyText) {
  EnumDescriptorProto message;
  message.set_name("before");
  parse_json("", message, "test");
  EXPECT_EQ(message.name(), "before");
  parse_json("{}", message, "test");
  EXPECT_FALSE(message.has_name());
}

TEST(ProtoJson, MistakesAreToldByTheirPath) {
  EnumDescriptorProto message;
  message.set_name("before");
  try {
    parse_json(R"({"value": [{}, {"options": {"deprecated": 1}}]})", message, "test");
    ADD_FAILURE() << "parsed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.message(), testing::HasSubstr("value[1].options.deprecated"));
  }
  EXPECT_EQ(message.name(), "before");
}

}  // namespace
}  // namespace assay
