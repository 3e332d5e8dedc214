// What a caller reads whose configuration text is wrong: keys and values in their own words, with
// the parts in the error's detail.
#include "sdk/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sdk/base/expect.h"
#include "sdk/train/trainer_config.h"

namespace assay {
namespace {

using testing::ContainsRegex;
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
  EXPECT_THAT(error_of("{\n  \"zzz\": 1}").message(), HasSubstr("\"zzz\" (line 2, column 3)"));
  EXPECT_THAT(error_of(R"({"zzz": 1})").message(),
              ContainsRegex("known are [a-z_, ]+, [a-z_]+ and [a-z_]+$"));
  const std::string unprintable = error_of("{\"z\\u0000\\n\": 1}").message();
  EXPECT_THAT(unprintable, HasSubstr("\"z\\x00\\x0A\""));
}

TEST(ParseJson, KnowsWhereAMisplacedKeyBelongs) {
  EXPECT_EQ(error_of(R"({"learning_rate": 1})").detail().hint,
            "did you mean \"optimizer.learning_rate\"?");
  EXPECT_THAT(error_of(R"({"lr": 1})").detail().hint, HasSubstr("\"optimizer.learning_rate\""));
  EXPECT_EQ(error_of(R"({"cooldown": 1})").detail().hint, "");
  EXPECT_EQ(error_of(R"({"schedule": {"beta1": 1}})").detail().hint,
            "did you mean \"optimizer.beta1\"?");
  EXPECT_EQ(error_of(R"({"name": "sgd"})").detail().hint,
            "did you mean \"optimizer.name\" or \"schedule.name\"?");
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
  expect_parts(R"({"batch_size": 1e30})", "batch_size", "1e30", "a whole number");
  expect_parts(R"({"batch_size": 9223372036854775808})", "batch_size", "9223372036854775808",
               "a whole number");
  expect_parts(R"({"batch_size": null})", "batch_size", "null", "a whole number");
  expect_parts(R"({"label_smoothing": "0.1"})", "label_smoothing", "\"0.1\"", "a number");
  expect_parts(R"({"label_smoothing": "NaN"})", "label_smoothing", "\"NaN\"", "a number");
  expect_parts(R"({"optimizer": null})", "optimizer", "null", "an object in braces");
  expect_parts("[1]", "", "a list of 1", "an object in braces");
  expect_parts("3", "", "3", "an object in braces");
  expect_parts(R"({"seed": -1})", "seed", "-1", "a whole number, not negative");
  expect_parts(R"({"precision": 32})", "precision", "32", "text in quotation marks");
  expect_parts(R"({"label_smoothing": {}})", "label_smoothing", "an object", "a number");
  expect_parts(R"({"optimizer": "sgd"})", "optimizer", "\"sgd\"", "an object in braces");
  expect_parts(R"({"optimizer": {"nesterov": 1}})", "optimizer.nesterov", "1", "true or false");
  expect_parts(R"({"optimizer": {"group": [{"match": ["a"]}, {"match": "b"}]}})",
               "optimizer.group[1].match", "\"b\"", "a list");
  EXPECT_EQ(error_of("{\"seed\": 1,\n \"batch_size\": \"many\"}").message(),
            "trainer: batch_size (line 2, column 16) is \"many\", expected a whole number");
  EXPECT_EQ(error_of(R"({"precision": null})").detail().hint, "leave the key out for its default");
}

// What JSON is stands in json_text_test.cpp.
TEST(ParseJson, RefusesWhatOtherParsersTake) {
  for (const char* text :
       {"{\"seed\": 1,}", "{'seed': 1}", "{seed: 1}", R"({"batchSize": 1})",
        R"({"seed": 1, "seed": 2})", R"({"optimizer": {"nesterov": "true"}})", "   "}) {
    const Error error = error_of(text);
    EXPECT_EQ(error.code(), Code::kInvalid) << text;
    EXPECT_THAT(error.message(), testing::StartsWith("trainer: ")) << text;
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << text;
  }
  EXPECT_EQ(error_of(R"({"batchSize": 1})").detail().hint, "did you mean \"batch_size\"?");
}

TEST(ParseJson, KeepsEveryDigit) {
  train::TrainerConfig config;
  parse_json(R"({"batch_size": "7", "seed": 18446744073709551615, "accumulate": 2e1,
                 "optimizer": {"learning_rate": 1, "epsilon": 1e-3}})",
             config, "trainer");
  EXPECT_EQ(config.batch_size, 7);
  EXPECT_EQ(config.seed, UINT64_MAX);
  EXPECT_EQ(config.accumulate, 20);
  EXPECT_EQ(config.optimizer.epsilon, 1e-3);
  parse_json("", config, "trainer");
  EXPECT_EQ(config.batch_size, 7);
}

TEST(ToJson, KeepsTheOrderOfTheSchema) {
  optim::OptimizerConfig config;
  config.learning_rate = 0;
  config.ema_decay = 0.5;
  config.momentum = 0.1;
  config.group.emplace_back().match.push_back("a");
  config.name = "sgd";
  EXPECT_EQ(to_json(config), R"({"name":"sgd","learning_rate":0,"momentum":0.1,"weight_decay":0,)"
                             R"("group":[{"match":["a"],"kind":[]}],"clip_norm":0,)"
                             R"("clip_each_norm":0,"ema_decay":0.5,"ema_warmup":false,)"
                             R"("ema_statistics":false})");
  optim::ScheduleConfig schedule;
  schedule.boundaries.push_back(INT64_MAX);
  schedule.boundaries.push_back(-1);
  EXPECT_EQ(to_json(schedule),
            R"({"name":"","warmup_steps":"0","boundaries":["9223372036854775807","-1"],)"
            R"("on_skip":"hold"})");
}

TEST(ToJson, NumbersAndTextsSurvive) {
  optim::OptimizerConfig config, again;
  for (const double value : {0.1, 1.0 / 3, 1e-8, 1e22, 100000.0, 9007199254740993.0, -0.0, 5e-324,
                             1.7976931348623157e308}) {
    config.learning_rate = value;
    parse_json(to_json(config), again, "test");
    EXPECT_EQ(std::signbit(again.learning_rate), std::signbit(value));
    EXPECT_EQ(again.learning_rate, value);
  }
  config.learning_rate = 100000;
  EXPECT_THAT(to_json(config), HasSubstr("\"learning_rate\":100000,"));
  config.learning_rate = NAN;
  EXPECT_THAT(to_json(config), HasSubstr("\"learning_rate\":\"NaN\""));
  config.learning_rate = -INFINITY;
  EXPECT_THAT(to_json(config), HasSubstr("\"learning_rate\":\"-Infinity\""));
  config.learning_rate = 1;
  const std::string text("a\"\\/\n\0\x7F\xC3\xA9", 9);
  config.name = text;
  EXPECT_THAT(to_json(config), HasSubstr(R"("name":"a\"\\/\u000a\u0000)"));
  parse_json(to_json(config), again, "test");
  EXPECT_EQ(again.name, text);
  config.name = "\xFFx\xC3";
  parse_json(to_json(config), again, "test");
  EXPECT_EQ(again.name, "\xEF\xBF\xBDx\xEF\xBF\xBD");
}

// What declarations say, in a small configuration of every kind of key.
struct PartConfig {
  std::vector<std::string> match;
  std::optional<double> factor;
  void fields(ConfigFields& f) {
    f("match", match, "names").not_empty();
    f("factor", factor, "of the part").in({0, 2});
  }
};

struct WholeConfig {
  std::string kind;
  int64_t count = 3;
  int32_t small = 0;
  std::optional<int64_t> steps;
  std::optional<bool> fast;
  std::optional<std::string> form;
  std::vector<float> level;
  std::optional<int64_t> inside;
  std::vector<PartConfig> part;
  std::optional<PartConfig> extra;
  void fields(ConfigFields& f) {
    f("kind", kind, "which").one_of({"plain", "stepped"}).selects();
    f("count", count, "how many").in({1, 1 << 30, true});
    f("small", small, "any").in({0, std::numeric_limits<double>::infinity()});
    f("steps", steps, "of a stepped one").of({"stepped"}).in({1, 100, true}).otherwise(10.0);
    f("fast", fast, "or slow").otherwise(true);
    f("form", form, "of a stepped one").of({"stepped"}).one_of({"a", "b"}).otherwise("a");
    f("level", level, "numbers").in({0, 1, true});
    f("inside", inside, "without the ends").in({.low = 0, .high = 4, .with_low = false});
    f("part", part, "parts");
    f("extra", extra, "one more part");
  }
};

WholeConfig whole(const std::string& json) {
  WholeConfig config;
  parse_json(json, config, "whole");
  return with_config_defaults(config);
}

std::string whole_error(const std::string& json) {
  try {
    check_config("whole", "", whole(json));
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Config, DefaultsAreThoseOfTheKind) {
  EXPECT_EQ(to_json(whole(R"({"kind": "plain"})")),
            R"({"kind":"plain","count":"3","small":0,"fast":true,"level":[],"part":[]})");
  EXPECT_EQ(to_json(whole(R"({"kind": "stepped", "fast": false, "extra": {}})")),
            R"({"kind":"stepped","count":"3","small":0,"steps":"10","fast":false,"form":"a",)"
            R"("level":[],"part":[],"extra":{"match":[]}})");
}

TEST(Config, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(whole_error(R"({"kind": "plain", "level": [0, 0.5, 1]})"), "no error");
  EXPECT_EQ(whole_error("{}"), "whole: kind is not given, expected \"plain\" or \"stepped\"");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "count": 0})"),
            "whole: count is 0, expected 1 to 2^30");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "small": -1})"),
            "whole: small is -1, expected 0 or more");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "inside": 3})"), "no error");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "inside": 1})"), "no error");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "inside": 4})"),
            "whole: inside is 4, expected 1 to 3");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "inside": 0})"),
            "whole: inside is 0, expected 1 to 3");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "level": [0, 2]})"),
            "whole: level[1] is 2, expected a number in [0, 1]");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "part": [{"match": ["a"]}, {"factor": 2}]})"),
            "whole: part[1].factor is 2, expected a number in [0, 2)");
  EXPECT_EQ(whole_error(R"({"kind": "plain", "steps": 3})"),
            "whole: steps belongs to stepped, not to plain, which takes no keys of its own");
  EXPECT_THAT(whole_error(R"({"kind": "stepped", "form": "c"})"),
              HasSubstr("form is \"c\", expected \"a\" or \"b\""));
  EXPECT_THAT(whole_error(R"({"kind": "stepped", "form": ""})"), HasSubstr("form is not given"));
  EXPECT_THAT(whole_error(R"({"kind": "plain", "part": [{"match": []}]})"),
              HasSubstr("match is [], expected a list that is not empty"));
}

TEST(Config, ListsGivenReplaceWhatWasThere) {
  WholeConfig config;
  config.level = {1, 2, 3};
  parse_json(R"({"level": [0.5]})", config, "whole");
  EXPECT_THAT(config.level, testing::ElementsAre(0.5f));
}

TEST(Config, ForgetsTheKeysOfOtherKinds) {
  WholeConfig config = whole(R"({"kind": "stepped"})");
  config.kind = "plain";
  clear_keys_of_other_kinds(config);
  EXPECT_FALSE(config.steps.has_value());
  EXPECT_TRUE(config.fast.has_value());
}

TEST(Nearest, FindsSlipsAndAbbreviations) {
  const std::string_view known[] = {"sgd", "adam", "adamw", "lamb", "learning_rate"};
  EXPECT_EQ(nearest("sdg", known), "sgd");
  EXPECT_EQ(nearest("Adam", known), "adam");
  EXPECT_EQ(nearest("learningrate", known), "learning_rate");
  EXPECT_EQ(nearest("lr", known), "learning_rate");
  EXPECT_EQ(nearest("rmsprop", known), "");
  const std::string_view functions[] = {"relu", "mean", "conv2d"};
  EXPECT_EQ(nearest("silu", functions), "");  // two of four letters
  EXPECT_EQ(nearest("max", functions), "");
  EXPECT_EQ(nearest("rleu", functions), "relu");
  EXPECT_EQ(nearest("conv", functions), "conv2d");
  const std::string_view precisions[] = {"fp32", "tf32", "amp-fp16", "amp-bf16"};
  EXPECT_EQ(nearest("bf16", precisions), "amp-bf16");
  EXPECT_EQ(nearest("amp", precisions), "");  // one of two
  EXPECT_EQ(enumerate(precisions, false, " and "), "fp32, tf32, amp-fp16 and amp-bf16");
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
