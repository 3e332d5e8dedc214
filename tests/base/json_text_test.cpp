// Which texts are JSON, what the tree says of them, and where mistakes are said to be.
#include "sdk/base/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/base/error.h"
#include "sdk/base/utf8.h"

namespace assay {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;
using Kind = JsonValue::Kind;

JsonValue parse(const std::string& text) { return parse_json_text({text, "it"}); }

Error error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error;
  }
  return {Code::kOk, "no error"};
}

TEST(JsonText, BecomesATreeWithPlaces) {
  const std::string text =
      "{\"a\" : [1, -2.50e1, \"\\u00e9\\n\"],\n \"b\":{\"c\":true,\"d\":null}}";
  const JsonValue root = parse(text);
  ASSERT_EQ(root.kind, Kind::kObject);
  ASSERT_EQ(root.members.size(), 2u);
  EXPECT_EQ(root.members[0].key, "a");
  const JsonValue& list = root.members[0].value;
  EXPECT_EQ(list.kind, Kind::kList);
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_EQ(list.items[1].text, "-2.50e1");
  EXPECT_EQ(text.substr(list.items[1].offset, list.items[1].size), "-2.50e1");
  EXPECT_EQ(text.substr(list.items[2].offset, list.items[2].size), "\"\\u00e9\\n\"");
  EXPECT_EQ(text.substr(list.offset, list.size), "[1, -2.50e1, \"\\u00e9\\n\"]");
  EXPECT_EQ(root.size, text.size());
  EXPECT_EQ(list.items[2].kind, Kind::kText);
  EXPECT_EQ(list.items[2].text, "\xC3\xA9\n");
  EXPECT_EQ(text[list.items[2].offset], '"');
  const JsonMember& b = root.members[1];
  EXPECT_EQ(json_place(text, b.offset), "line 2, column 2");
  EXPECT_EQ(text[b.value.offset], '{');
  EXPECT_EQ(b.value.members[0].value.kind, Kind::kBool);
  EXPECT_EQ(b.value.members[0].value.text, "true");
  EXPECT_EQ(b.value.members[1].value.kind, Kind::kNull);
  EXPECT_EQ(text.substr(b.value.members[1].value.offset, 4), "null");
}

TEST(JsonText, TakesWhatTheStandardAllows) {
  for (const char* text : {"{}", " [ ] ", "0", "-0", "1E+2", "\"\"", "true", "null", "\r\n\t{}",
                           "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"", "\"\\ud83d\\ude00\"",
                           "\"\x7F\"", "[[[]],{}]", "1e-5"}) {
    EXPECT_NO_THROW(parse(text)) << text;
  }
  EXPECT_EQ(parse("\"\\ud83d\\ude00\"").text, "\xF0\x9F\x98\x80");
  EXPECT_EQ(parse("\"a\\u0000b\"").text, "a\0b"s);
}

// Place, what was found, what was expected and the hint.
struct Mistake {
  std::string text, place, found, expected, hint;
};

TEST(JsonText, SaysWhereAMistakeIs) {
  const Mistake mistakes[] = {
      {"", "line 1, column 1", "the end of the text", "an object in braces", ""},
      {"{", "line 1, column 2", "the end of the text", "a key in double quotes", ""},
      {"{\"a\": 1,}", "line 1, column 9", "'}'", "a key in double quotes",
       "remove the comma before it"},
      {"{\"a\": [1,\n]}", "line 2, column 1", "']'", "a value", "remove the comma before it"},
      {"{'a': 1}", "line 1, column 2", "'''", "a key in double quotes",
       "JSON has double quotes only"},
      {"{\"a\": 'b'}", "line 1, column 7, near a", "'''", "a value", "JSON has double quotes only"},
      {"{a: 1}", "line 1, column 2", "'a'", "a key in double quotes", ""},
      {"a: 1", "line 1, column 1", "'a'", "a value", ""},
      {"{\"a\" 1}", "line 1, column 6, near a", "'1'", "a colon after the key", ""},
      {"{\"a\": 1 \"b\": 2}", "line 1, column 9, near a", "'\"'", "a comma or a closing brace", ""},
      {"[1 2]", "line 1, column 4, near [0]", "'2'", "a comma or a closing bracket", ""},
      {"{} {}", "line 1, column 4", "'{'", "nothing after the closing brace", ""},
      {"{\"o\": {\"h\": [1, 2, tru]}}", "line 1, column 20, near o.h[1]", "'tru'", "a value", ""},
      {"{\"a\": NaN}", "line 1, column 7, near a", "'NaN'", "a value", "JSON has no such number"},
      {"[-Infinity]", "line 1, column 2", "'-Infinity'", "a value", "JSON has no such number"},
      {"{\"a\": True}", "line 1, column 7, near a", "'True'", "a value", ""},
      {"[+1]", "line 1, column 2", "'+1'", "a value", ""},
      {"[.5]", "line 1, column 2", "'.5'", "a value", ""},
      {"[01]", "line 1, column 3, near [0]", "'1'", "a comma or a closing bracket", ""},
      {"[1.]", "line 1, column 4", "']'", "a digit after the decimal point", ""},
      {"[1e]", "line 1, column 4", "']'", "a digit in the exponent", ""},
      {"[1e999]", "line 1, column", "", "a number below 1.8e308", ""},
      {"{\"a\": 1} // no", "line 1, column 10", "'/'", "nothing after the closing brace",
       "JSON has no comments"},
      {"[\"a]", "line 1, column 5", "the end of the text", "a closing quotation mark", ""},
      {"[\"a\nb\"]", "line 1, column 4", "'\\x0A'", "control characters are escaped", ""},
      {"[\"\\x41\"]", "line 1, column 3", "", "\\u0000", ""},
      {"[\"\\u12g4\"]", "line 1, column 3", "", "four hexadecimal digits", ""},
      {"[\"\\ud800\"]", "line 1, column 3", "", "a pair of surrogates", ""},
      {"[\"\\udc00\"]", "line 1, column 2", "half a pair of surrogates", "a pair of surrogates",
       ""},
      {"[\"\xC3(\"]", "line 1, column 3", "'\\xC3'", "UTF-8", ""},
      {"[\"\xC3\xA9\", \"\xFF\"]", "line 1, column 8", "'\\xFF'", "UTF-8", ""},
      {"\xEF\xBB\xBF{}", "line 1, column 1", "", "a value", ""},
      {"[1\0]"s, "line 1, column 3", "a zero byte", "text", ""},
      {"{\"a\": {\"b\": 1,\n \"c\": 2, \"b\": 3}}", "line 2, column 10, near a.b",
       "key \"b\" again", "every key once", "the first is at line 1, column 8"},
  };
  for (const Mistake& mistake : mistakes) {
    const Error error = error_of(mistake.text);
    EXPECT_EQ(error.code(), Code::kInvalid) << mistake.text;
    EXPECT_THAT(error.message(), testing::StartsWith("it: " + mistake.place));
    EXPECT_THAT(error.detail().actual, HasSubstr(mistake.found)) << error.message();
    EXPECT_THAT(error.detail().expected, HasSubstr(mistake.expected)) << error.message();
    EXPECT_EQ(error.detail().hint, mistake.hint) << error.message();
    EXPECT_EQ(printable(error.message()), error.message());
  }
}

TEST(JsonText, NestingIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse(nested(kMaxJsonDepth)));
  EXPECT_THAT(error_of(nested(kMaxJsonDepth + 1)).message(), HasSubstr("at most 64 levels"));
  EXPECT_THAT(error_of(std::string(1000000, '[')).message(), HasSubstr("at most 64 levels"));
}

// Every text cut short is an error, and none reads beyond its end.
TEST(JsonText, PrefixesOfATextAreErrors) {
  const std::string text = R"({"a": [1.5e3, "\u00e9\ud83d\ude00", {"b": false}], "c": -12})";
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string prefix = text.substr(0, size);
    EXPECT_EQ(error_of(prefix).code(), Code::kInvalid) << prefix;
  }
  EXPECT_NO_THROW(parse(text));
}

// What a reader of items sees of a text: "list[index] = text of the item".
std::vector<std::string> items_of(const std::string& text, std::string_view skipped = "") {
  std::vector<std::string> seen;
  const auto take = [&](std::string_view list, size_t index, const JsonValue& item) {
    seen.push_back(cat(list, '[', index, "] = ", text.substr(item.offset, item.size)));
  };
  parse_json_items({text, "it"}, {take, {skipped}});
  return seen;
}

TEST(JsonItems, ComeOneByOneFromTheOutermostLists) {
  EXPECT_THAT(
      items_of(R"({"a": [1, {"b": [2, 3]}, [4]], "o": {"c": [5]}, "d": [], "e": ["f"]})"),
      testing::ElementsAre("a[0] = 1", R"(a[1] = {"b": [2, 3]})", "a[2] = [4]", R"(e[0] = "f")"));
  EXPECT_THAT(items_of(R"([[1], {"a": [2]}])"),
              testing::ElementsAre("[0] = [1]", R"([1] = {"a": [2]})"));
  EXPECT_THAT(items_of("[]"), testing::IsEmpty());
  EXPECT_THAT(items_of("1"), testing::IsEmpty());
}

TEST(JsonItems, AreWhole) {
  const std::string text = R"({"a": [{"x": [1, [2, {"y": 3}]], "skip": [[4, 5], [6]], "z": "w"}]})";
  JsonValue item;
  const auto take = [&](std::string_view, size_t, const JsonValue& taken) { item = taken; };
  const JsonValue root = parse_json_items({text, "it"}, {take, {"skip"}});
  ASSERT_EQ(root.members.size(), 1u);
  EXPECT_EQ(root.members[0].value.kind, Kind::kList);
  EXPECT_TRUE(root.members[0].value.items.empty());
  ASSERT_EQ(item.members.size(), 3u);
  EXPECT_EQ(item.members[0].value.items[1].items[1].members[0].value.text, "3");
  EXPECT_EQ(item.members[1].key, "skip");
  EXPECT_EQ(item.members[1].value.kind, Kind::kList);
  EXPECT_TRUE(item.members[1].value.items.empty());
  EXPECT_EQ(item.members[2].value.text, "w");
}

// Mistakes are where they are with parse_json_text, also in what is skipped.
TEST(JsonItems, SayWhereAMistakeIs) {
  for (const char* text : {
           R"({"a": [{"s": [[1, 2], [3, tru]]}]})",
           R"({"a": [{"b": 1}, {"b": [1, 2, 3, NaN]}]})",
           R"({"a": [{"b": 1, "b": 2}]})",
           R"({"a": [1, 2, 3], "a": []})",
           R"({"a": [{"s": {"k": [1], "k": 2}}]})",
           R"({"a": [{"s": "half)",
           R"({"a": [1, 2, 3)",
           R"([1, {"a": 2}, {"a": 3 4}])",
       }) {
    const std::string expected = error_of(text).message();
    EXPECT_THAT(expected, HasSubstr("line 1")) << text;
    try {
      items_of(text, "s");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid);
      EXPECT_EQ(error.message(), expected);
    }
  }
}

TEST(JsonPlace, CountsCharacters) {
  EXPECT_EQ(json_place("abc", 2), "line 1, column 3");
  EXPECT_EQ(json_place("\xC3\xA9x", 2), "line 1, column 2");
  EXPECT_EQ(json_place("a\nb\n", 4), "line 3, column 1");
  EXPECT_EQ(json_place("a", 100), "line 1, column 2");
}

}  // namespace
}  // namespace assay
