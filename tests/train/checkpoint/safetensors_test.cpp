#include "sdk/train/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <limits>
#include <sstream>
#include <tuple>

#include "sdk/train/checkpoint/element_cast.h"
#include "sdk/train/checkpoint/weights.h"
#include "sdk/train/checkpoint/weights.pb.h"
#include "tests/train/checkpoint/sample.h"

namespace assay::safetensors {
namespace {

using checkpoint::MemorySource;
using checkpoint::Outcome;
using checkpoint::outcome_of;
using checkpoint::StringSink;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::string kFolder = ASSAY_SOURCE_DIR "/tests/fixtures/safetensors/";

Reader open_string(std::string bytes) {
  return Reader::open(std::make_unique<MemorySource>(std::move(bytes), "sample"));
}

// A file around a header of the given text and `data_bytes` bytes of tensors.
std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(data_bytes, '\1');
}

// ---- the fixture: written by the reference implementation ----

// One line of expected.txt: name, shape in our layout, values.
struct Expected {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<double> values;
};

std::vector<Expected> read_expected() {
  std::vector<Expected> all;
  std::ifstream file(kFolder + "expected.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Expected expected;
    std::string dims;
    words >> expected.name >> dims;
    std::istringstream sizes(dims == "-" ? "" : dims);
    for (std::string size; std::getline(sizes, size, ',');) {
      expected.dims.push_back(std::stoll(size));
    }
    for (std::string value; words >> value;) {
      expected.values.push_back(std::strtod(value.c_str(), nullptr));
    }
    all.push_back(std::move(expected));
  }
  return all;
}

const weights::NameMap& torch_map() {
  static const weights::NameMap kMap =
      weights::parse_name_map(R"({"rules":[{"file":"*","model":"*","layout":"OIHW"}]})");
  return kMap;
}

// Storage and targets for the expected tensors, in the type the file has, or in `dtype`.
struct Places {
  Places(const std::vector<Expected>& expected, const Reader& file) {
    for (const Expected& e : expected) {
      const DType dtype = file.find(e.name)->dtype.value();
      const Dims dims{std::span<const int64_t>(e.dims)};
      auto& data = storage.emplace_back(static_cast<size_t>(dims.numel()) * dtype_size(dtype));
      targets.push_back({e.name, dtype, dims, data});
    }
  }
  std::deque<std::vector<std::byte>> storage;
  std::vector<weights::Destination> targets;
};

TEST(Safetensors, ReadsWhatTheReferenceWrote) {
  const Reader file = Reader::open(kFolder + "small.safetensors");
  EXPECT_THAT(file.metadata(), UnorderedElementsAre(std::pair("format", "pt"),
                                                    std::pair("note", "a \"quoted\" \xC3\xA9")));
  const std::vector<Expected> expected = read_expected();
  ASSERT_EQ(expected.size() + 1, file.tensors().size());  // "flags" is BOOL
  Places places(expected, file);
  const weights::LoadReport report =
      weights::import_weights(file, places.targets, {.map = torch_map()});
  EXPECT_EQ(report.loaded_size(), static_cast<int>(expected.size()));
  EXPECT_THAT(report.unused(), ElementsAre("flags"));
  for (size_t t = 0; t < expected.size(); ++t) {
    const weights::Destination& target = places.targets[t];
    for (size_t i = 0; i < expected[t].values.size(); ++i) {
      ASSERT_EQ(checkpoint::element_value(target.data, target.dtype, i), expected[t].values[i])
          << target.name << " " << i;
    }
  }
}

TEST(Safetensors, ExportGivesTheSameFileContents) {
  const Reader file = Reader::open(kFolder + "small.safetensors");
  Places places(read_expected(), file);
  weights::import_weights(file, places.targets, {.map = torch_map()});
  std::vector<weights::Source> sources;
  for (const weights::Destination& t : places.targets) {
    sources.push_back({t.name, t.dtype, t.dims, t.data});
  }
  // generate.py check reads this file with the reference implementation.
  const std::string path =
      testing::TempDir() + "assay_export_" + std::to_string(getpid()) + ".safetensors";
  weights::export_weights(path, sources, torch_map(), file.metadata());
  const Reader again = Reader::open(path);
  EXPECT_EQ(again.metadata(), file.metadata());
  ASSERT_EQ(again.tensors().size(), places.targets.size());
  for (const Tensor& tensor : again.tensors()) {
    const Tensor* original = file.find(tensor.name);
    ASSERT_NE(original, nullptr);
    EXPECT_EQ(tensor.type, original->type);
    EXPECT_EQ(tensor.dims, original->dims);
    EXPECT_EQ(tensor.offset % dtype_size(*tensor.dtype), 0u) << tensor.name;
    std::vector<std::byte> a(tensor.bytes), b(tensor.bytes);
    again.read(tensor, a);
    file.read(*original, b);
    EXPECT_EQ(a, b) << tensor.name;
  }
}

// ---- name maps and reports ----

TEST(NameMap, RulesWorkBothWays) {
  const weights::NameMap map = weights::parse_name_map(R"({"rules":[
    {"file":"backbone.layer*.*.downsample.0.weight","model":"layer*.*.shortcut.weight","layout":"OIHW"},
    {"file":"backbone.*","model":"*"}]})");
  const auto model = weights::name_in_model(map, "backbone.layer2.0.downsample.0.weight");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->name, "layer2.0.shortcut.weight");
  EXPECT_EQ(model->rule->layout, "OIHW");
  const auto back = weights::name_in_file(map, "layer2.0.shortcut.weight");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->name, "backbone.layer2.0.downsample.0.weight");
  EXPECT_EQ(weights::name_in_model(map, "backbone.fc.bias")->name, "fc.bias");
  EXPECT_FALSE(weights::name_in_model(map, "head.fc.bias"));
  EXPECT_EQ(weights::name_in_model({}, "any")->name, "any");
}

TEST(NameMap, RefusesRulesThatCannotBeApplied) {
  const auto parse = [](const char* json) {
    return outcome_of([&] { weights::parse_name_map(json); });
  };
  EXPECT_EQ(parse("").code, Code::kOk);
  EXPECT_EQ(parse(R"({"rules":[{"file":"a*","model":"b"}]})").code, Code::kInvalid);
  EXPECT_EQ(parse(R"({"rules":[{"file":"a"}]})").code, Code::kInvalid);
  EXPECT_EQ(parse(R"({"rules":[{"file":"a","model":"a","role":"moment1"}]})").code, Code::kInvalid);
  EXPECT_EQ(parse(R"({"rules":[{"file":"a","model":"a","layout":"XYZ"}]})").code, Code::kInvalid);
  EXPECT_EQ(parse(R"({"rule":[]})").code, Code::kInvalid);
  EXPECT_EQ(parse("nonsense").code, Code::kInvalid);
}

TEST(NameMap, ErrorsNameTheRule) {
  const auto error_of = [](const char* json) -> Error {
    try {
      weights::parse_name_map(json);
    } catch (const Error& error) {
      return error;
    }
    return {Code::kOk, "no error"};
  };
  const Error stars =
      error_of(R"({"rules":[{"file":"a","model":"a"},{"file":"b.*","model":"c"}]})");
  EXPECT_EQ(stars.message(), "name map: rules[1].model is c, expected as many * as in b.*");
  EXPECT_EQ(stars.detail().argument, "rules[1].model");
  EXPECT_EQ(stars.detail().actual, "c");
  EXPECT_EQ(stars.detail().expected, "as many * as in b.*");
  EXPECT_EQ(error_of(R"({"rules":[{"file":"a"}]})").detail().argument, "rules[0].model");
  const Error role = error_of(R"({"rules":[{"file":"a","model":"a","role":"valu"}]})");
  EXPECT_EQ(role.detail().argument, "rules[0].role");
  EXPECT_THAT(role.message(), HasSubstr("value"));
}

struct PartialImport : testing::Test {
  PartialImport() {
    targets = {{"fc.weight", DType::kF32, {5, 7}, std::as_writable_bytes(std::span(weight))},
               {"fc.bias", DType::kF32, {5}, std::as_writable_bytes(std::span(bias))},
               {"conv1.weight", DType::kF32, {4, 3, 2, 2}, std::as_writable_bytes(std::span(conv))},
               {"head.weight", DType::kF32, {2}, std::as_writable_bytes(std::span(head))}};
  }
  Reader file = Reader::open(kFolder + "small.safetensors");
  std::array<float, 35> weight{};
  std::array<float, 5> bias{};
  std::array<float, 48> conv{};
  std::array<float, 2> head{};
  std::vector<weights::Destination> targets;
};

TEST_F(PartialImport, ReportsWhatDidNotFit) {
  const auto report =
      weights::import_weights(file, targets, {.map = torch_map(), .allow_partial = true});
  ASSERT_EQ(report.loaded_size(), 2);
  EXPECT_THAT(report.missing(), ElementsAre("head.weight"));
  ASSERT_EQ(report.mismatched_size(), 1);
  EXPECT_EQ(report.mismatched(0).expected(), "f32 [4,3,2,2]");
  EXPECT_EQ(report.mismatched(0).actual(), "F32 [4,2,2,3]");
  EXPECT_EQ(report.unused_size(), 8);
  EXPECT_THAT(bias, ElementsAre(-3.0f, -2.875f, -2.75f, -2.625f, -2.5f));  // bf16 in the file
}

TEST_F(PartialImport, RefusesAsAWholeUnlessAllowed) {
  const Outcome shape =
      outcome_of([&] { weights::import_weights(file, targets, {.map = torch_map()}); });
  EXPECT_EQ(shape.code, Code::kInvalid);
  EXPECT_THAT(shape.message, HasSubstr("conv1.weight, is F32 [4,2,2,3] where conv1.weight needs "
                                       "f32 [4,3,2,2]"));
  targets[2].dims = {4, 2, 2, 3};
  const Outcome missing =
      outcome_of([&] { weights::import_weights(file, targets, {.map = torch_map()}); });
  EXPECT_THAT(missing.message,
              HasSubstr("1 tensors of the model are missing, the first is head.weight"));
  EXPECT_EQ(weight[0], 0.0f) << "nothing may be written before everything is checked";
}

// ---- layouts that no rule says ----

// A file of one convolution, with or without metadata, and a place for it.
Outcome import_convolution(std::vector<int64_t> in_file, Dims in_model,
                           const std::map<std::string, std::string>& metadata) {
  std::vector<float> numbers(static_cast<size_t>(in_model.numel()));
  StringSink sink;
  const Record record{"conv", DType::kF32, std::move(in_file),
                      [&] { return std::as_bytes(std::span(numbers)); }};
  write(sink, std::span(&record, 1), metadata);
  const Reader file = open_string(sink.bytes);
  const weights::Destination target{"conv", DType::kF32, in_model,
                                    std::as_writable_bytes(std::span(numbers))};
  return outcome_of([&] { weights::import_weights(file, std::span(&target, 1)); });
}

TEST(Layout, IsTheFilesWord) {
  const std::map<std::string, std::string> torch{{"format", "pt"}}, ours{{"format", "assay"}};
  EXPECT_EQ(import_convolution({4, 2, 3, 5}, {4, 3, 5, 2}, torch).code, Code::kOk);
  EXPECT_EQ(import_convolution({4, 3, 5, 2}, {4, 3, 5, 2}, torch).code, Code::kInvalid);
  EXPECT_EQ(import_convolution({4, 3, 5, 2}, {4, 3, 5, 2}, ours).code, Code::kOk);
  EXPECT_EQ(import_convolution({4, 2, 3, 5}, {4, 3, 5, 2}, ours).code, Code::kInvalid);
}

TEST(Layout, IsElseWhatFits) {
  EXPECT_EQ(import_convolution({4, 2, 3, 5}, {4, 3, 5, 2}, {}).code, Code::kOk);
  EXPECT_EQ(import_convolution({4, 3, 5, 2}, {4, 3, 5, 2}, {}).code, Code::kOk);
  const Outcome both = import_convolution({4, 3, 3, 3}, {4, 3, 3, 3}, {});
  EXPECT_EQ(both.code, Code::kInvalid);
  EXPECT_THAT(both.message, HasSubstr("name map with their layout"));
}

TEST_F(PartialImport, TwoTensorsForOneNameAreRefused) {
  const auto map = weights::parse_name_map(R"({"rules":[
    {"file":"fc.weight","model":"fc.bias"},{"file":"fc.bias","model":"fc.bias"}]})");
  EXPECT_THAT(outcome_of([&] { weights::import_weights(file, targets, {.map = map}); }).message,
              HasSubstr("two tensors to fc.bias"));
}

// ---- bad files ----

Outcome open_outcome(std::string bytes) {
  return outcome_of([&] { open_string(std::move(bytes)); });
}

TEST(SafetensorsBadFiles, EveryTruncationIsNoticed) {
  const std::string bytes = read_file(kFolder + "small.safetensors");
  ASSERT_EQ(open_outcome(bytes).code, Code::kOk);
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_EQ(open_outcome(bytes.substr(0, length)).code, Code::kFormat) << length;
  }
  EXPECT_EQ(open_outcome(bytes + "x").code, Code::kFormat);
}

// The format has no checksum, so a flip may give another valid header; it must never do worse.
TEST(SafetensorsBadFiles, FlippedHeaderBytesAreRefusedOrStayInsideTheFile) {
  const std::string bytes = read_file(kFolder + "small.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  size_t refused = 0;
  for (size_t at = 0; at < 8 + length; ++at) {
    for (const int mask : {0x01, 0x08, 0x80, 0xFF}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      const Outcome outcome = outcome_of([&] {
        const Reader reader = open_string(damaged);
        for (const Tensor& tensor : reader.tensors()) {
          std::vector<std::byte> data(tensor.bytes);
          reader.read(tensor, data);
        }
      });
      ASSERT_TRUE(outcome.code == Code::kOk || outcome.code == Code::kFormat) << outcome.message;
      refused += outcome.code == Code::kFormat;
    }
  }
  EXPECT_GT(refused, 2 * length);
}

TEST(SafetensorsBadFiles, EachFaultHasItsSentence) {
  const auto expect = [](const char* text, const std::string& bytes) {
    const Outcome outcome = open_outcome(bytes);
    EXPECT_EQ(outcome.code, Code::kFormat) << text;
    EXPECT_THAT(outcome.message, HasSubstr(text));
    EXPECT_EQ(outcome.message.find('\n'), std::string::npos) << outcome.message;
  };
  const auto tensor = [](const char* fields) { return cat(R"({"a":{)", fields, "}}"); };
  EXPECT_EQ(open_outcome(file_of("{}", 0)).code, Code::kOk);
  EXPECT_EQ(
      open_outcome(file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 8)).code,
      Code::kOk);
  expect("only 3 bytes", "abc");
  expect("header claims", std::string(8, '\xFF') + "{}");
  expect("header claims", std::string("\x03\0\0\0\0\0\0\0{}", 10));
  expect("not a JSON object", file_of("[]", 0));
  expect("not a JSON object", file_of(" {}", 0));
  expect("UTF-8", file_of("{\"\xFF\":1}", 0));
  expect("not valid JSON", file_of("{\"a\":", 0));
  expect("not valid JSON", file_of("{" + std::string(100000, '['), 0));
  expect("every key once", file_of(R"({"a":1,"a":2})", 0));
  for (const char* loose : {"{'a':1}", "{a:1}", "{\"a\":1,}", "{\"a\":[1,]}", "{} {}", "{/**/}"})
    expect("not valid JSON", file_of(loose, 0));
  expect("not an object", file_of(R"({"a":1})", 0));
  expect("2 fields instead", file_of(tensor(R"("dtype":"F32","shape":[2])"), 8));
  expect("has no data_offsets", file_of(tensor(R"("dtype":"F32","shape":[2],"x":[0,8])"), 8));
  expect("type is unknown",
         file_of(tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), 8));
  expect("type is unknown", file_of(tensor(R"("dtype":3,"shape":[2],"data_offsets":[0,8])"), 8));
  expect("shape is not a list",
         file_of(tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), 8));
  for (const char* size : {"-1", "1.5", "1e30", "\"2\"", "null"}) {
    expect("not a whole number",
           file_of(
               tensor(cat(R"("dtype":"F32","shape":[)", size, R"(],"data_offsets":[0,8])").c_str()),
               8));
  }
  expect("does not match", file_of(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8));
  expect(
      "does not match",
      file_of(
          tensor(
              R"("dtype":"F64","shape":[4503599627370496,4503599627370496],"data_offsets":[0,8])"),
          8));
  expect("ascending", file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8));
  expect("ascending", file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), 8));
  expect("the file at", file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 7));
  expect("tensor before it ends",
         file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), 12));
  expect("tensors end at", file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 9));
  expect("tensor before it ends", file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                          R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                                          6));
  expect("__metadata__ is not", file_of(R"({"__metadata__":[]})", 0));
  expect("__metadata__ is no text", file_of(R"({"__metadata__":{"a":1}})", 0));
  expect("unprintable name",
         file_of(R"({"\u0000":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0));
}

TEST(SafetensorsWriter, RefusesWhatItCouldNotReadBack) {
  const std::vector<std::byte> data(8);
  const auto record = [&](std::string name, std::vector<int64_t> dims) {
    return Record{std::move(name), DType::kF32, std::move(dims), [&] { return std::span(data); }};
  };
  const auto save = [](std::vector<Record> records) {
    return outcome_of([&] {
             StringSink sink;
             write(sink, records, {});
           })
        .code;
  };
  EXPECT_EQ(save({record("a", {2}), record("b \"c\"\\", {2, 1})}), Code::kOk);
  EXPECT_EQ(save({record("a", {2}), record("a", {2})}), Code::kInvalid);
  EXPECT_EQ(save({record("a", {3})}), Code::kInvalid);
  EXPECT_EQ(save({record("", {2})}), Code::kInvalid);
  EXPECT_EQ(save({record("__metadata__", {2})}), Code::kInvalid);
  EXPECT_EQ(save({record("a", {-2})}), Code::kInvalid);
}

// ---- elements ----

TEST(ElementCast, Permutes) {
  const std::vector<uint8_t> source = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> dims = {2, 3};
  const std::vector<int> order = {1, 0};
  const auto result = checkpoint::permute(std::as_bytes(std::span(source)), 1, dims, order);
  const std::vector<uint8_t> expected = {0, 3, 1, 4, 2, 5};
  EXPECT_TRUE(std::ranges::equal(result, std::as_bytes(std::span(expected))));
}

uint16_t narrow_bits(double value, DType dtype) {
  uint16_t bits = 0;
  checkpoint::cast_elements(std::as_bytes(std::span(&value, 1)), DType::kF64,
                            std::as_writable_bytes(std::span(&bits, 1)), dtype);
  return bits;
}

// A little beside a tie of the narrow type, and nearer to it than f32 tells apart.
TEST(ElementCast, RoundsF64Once) {
  for (const auto& [dtype, one, half_unit] :
       {std::tuple{DType::kBf16, 0x3F80, 0x1p-8}, std::tuple{DType::kF16, 0x3C00, 0x1p-11}}) {
    const auto bits = [dtype = dtype](double value) { return narrow_bits(value, dtype); };
    for (const double sign : {1.0, -1.0}) {
      const int is = one + (sign < 0 ? 0x8000 : 0);
      EXPECT_EQ(bits(sign * (1 + half_unit)), is);
      EXPECT_EQ(bits(sign * (1 + half_unit + 0x1p-40)), is + 1);
      EXPECT_EQ(bits(sign * (1 + half_unit - 0x1p-40)), is);
      EXPECT_EQ(bits(sign * (1 + 3 * half_unit)), is + 2);
      EXPECT_EQ(bits(sign * (1 + 3 * half_unit - 0x1p-40)), is + 1);
      EXPECT_EQ(bits(sign * (1 + 3 * half_unit + 0x1p-40)), is + 2);
    }
  }
  EXPECT_EQ(narrow_bits(0x1p-25 + 0x1p-70, DType::kF16), 0x0001);  // above half the smallest
  EXPECT_EQ(narrow_bits(0x1p-25, DType::kF16), 0x0000);
  EXPECT_EQ(narrow_bits(65520 - 0x1p-20, DType::kF16), 0x7BFF);
  EXPECT_EQ(narrow_bits(1e300, DType::kF16), 0x7C00);
  EXPECT_EQ(narrow_bits(-1e300, DType::kBf16), 0xFF80);
  EXPECT_EQ(narrow_bits(1e-300, DType::kBf16), 0x0000);
  EXPECT_EQ(narrow_bits(std::numeric_limits<double>::quiet_NaN(), DType::kF16) & 0x7E00, 0x7E00);
}

}  // namespace
}  // namespace assay::safetensors
