// What a caller reads whose configuration text is wrong: keys and values in their own words, with
// the parts in the error's detail.
#include "sdk/base/proto_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sdk/base/expect.h"
#include "sdk/train/trainer.pb.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

Error error_of(const std::string& json) {
  train::TrainerConfig config;
  try {
    parse_json(json, config, "trainer");
  } catch (const Error& error) {
    return error;
  }
  return {Code::kOk, "no error"};
}

TEST(ParseJson, NamesAnUnknownKeyByItsPathAndTheNearestKnownOne) {
  const Error error = error_of(R"({"optimizer": {"momentun": 0.9}})");
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_THAT(error.message(), HasSubstr("trainer: there is no key \"optimizer.momentun\""));
  EXPECT_THAT(error.message(), HasSubstr("did you mean \"momentum\"?"));
  EXPECT_THAT(error.message(), HasSubstr("weight_decay"));
  EXPECT_EQ(error.detail().argument, "optimizer.momentun");
  EXPECT_EQ(error.detail().hint, "did you mean \"momentum\"?");
  EXPECT_THAT(error.detail().expected, HasSubstr("learning_rate"));
  EXPECT_EQ(error_of(R"({"optimizer": {"lr": 1}})").detail().hint,
            "did you mean \"learning_rate\"?");
  EXPECT_EQ(error_of(R"({"zzz": 1})").detail().hint, "");
}

TEST(ParseJson, SaysWhatAValueIsAndWhatItMustBe) {
  const auto expect_parts = [](const std::string& json, const std::string& argument,
                               const std::string& actual, const std::string& expected) {
    const Error error = error_of(json);
    EXPECT_EQ(error.code(), Code::kInvalid) << json;
    EXPECT_EQ(error.detail().argument, argument) << error.what();
    EXPECT_EQ(error.detail().actual, actual) << error.what();
    EXPECT_EQ(error.detail().expected, expected) << error.what();
    EXPECT_THAT(error.message(), Not(HasSubstr("TYPE_"))) << json;
    EXPECT_THAT(error.message(), Not(HasSubstr("field"))) << json;
  };
  expect_parts(R"({"batch_size": "many"})", "batch_size", "\"many\"", "a whole number");
  expect_parts(R"({"batch_size": 2.5})", "batch_size", "2.5", "a whole number");
  expect_parts(R"({"batch_size": 1e30})", "batch_size", "1e+30", "a whole number");
  expect_parts(R"({"seed": -1})", "seed", "-1", "a whole number, not negative");
  expect_parts(R"({"precision": 32})", "precision", "32", "text in quotation marks");
  expect_parts(R"({"label_smoothing": {}})", "label_smoothing", "an object", "a number");
  expect_parts(R"({"optimizer": "sgd"})", "optimizer", "\"sgd\"", "an object in braces");
  expect_parts(R"({"optimizer": {"nesterov": 1}})", "optimizer.nesterov", "1", "true or false");
  expect_parts(R"({"optimizer": {"group": [{"match": ["a"]}, {"match": "b"}]}})",
               "optimizer.group[1].match", "\"b\"", "a list");
}

TEST(ParseJson, PointsAtTheMistakeInMalformedText) {
  for (const char* text : {"{", "{\"batch_size\" 3}", "[1]", "{\"seed\": 1,, }", "batch_size: 3"}) {
    const Error error = error_of(text);
    EXPECT_EQ(error.code(), Code::kInvalid) << text;
    EXPECT_THAT(error.message(), HasSubstr("trainer: the text is not well-formed JSON")) << text;
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << text;
  }
  EXPECT_THAT(error_of("{\"batch_size\" 3}").message(), HasSubstr("at '3}'"));
}

TEST(ParseJson, TakesWhatJsonOfProtobufTakes) {
  train::TrainerConfig config;
  parse_json(R"({"batchSize": "7", "seed": 18446744073709551615, "precision": null,
                 "optimizer": {"learning_rate": 1, "epsilon": "1e-3"}})",
             config, "trainer");
  EXPECT_EQ(config.batch_size(), 7);
  EXPECT_EQ(config.seed(), UINT64_MAX);
  EXPECT_EQ(config.precision(), "");
  EXPECT_EQ(config.optimizer().epsilon(), 1e-3);
}

TEST(Nearest, FindsSlipsAndAbbreviations) {
  const std::string_view known[] = {"sgd", "adam", "adamw", "lamb", "learning_rate"};
  EXPECT_EQ(nearest("sdg", known), "sgd");
  EXPECT_EQ(nearest("Adam", known), "adam");
  EXPECT_EQ(nearest("learningrate", known), "learning_rate");
  EXPECT_EQ(nearest("lr", known), "learning_rate");
  EXPECT_EQ(nearest("rmsprop", known), "");
  EXPECT_EQ(enumerate(known, true).substr(0, 15), "\"sgd\", \"adam\", ");
}

TEST(Expect, NumbersInIntervals) {
  const Key key{"trainer", "label_smoothing"};
  expect_number(key, 0, {0, 1});
  for (const double value : {1.0, -0.1, double{NAN}, double{INFINITY}}) {
    try {
      expect_number(key, value, {0, 1});
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("trainer: label_smoothing is "));
      EXPECT_EQ(error.detail().expected, "a number in [0, 1)");
    }
  }
}

}  // namespace
}  // namespace assay
