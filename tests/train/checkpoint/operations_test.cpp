#include "sdk/train/checkpoint/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "sdk/base/proto_json.h"
#include "sdk/train/checkpoint/report.pb.h"
#include "sdk/train/checkpoint/safetensors.h"
#include "tests/train/checkpoint/sample.h"

namespace assay::checkpoint {
namespace {

using report::TensorDifference;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Operations : public testing::Test {
 protected:
  ~Operations() override {
    for (const std::string& file : list_files(testing::TempDir(), file_name(path("*"))))
      remove_file(file);
  }
  // Tests of one run may be processes side by side.
  std::string path(const std::string& name) const {
    return testing::TempDir() + cat("operations_", getpid(), "_", name);
  }
  std::string save(const std::string& name, const CheckpointState& state,
                   std::span<const TensorRecord> records) const {
    write_checkpoint(path(name), state, records);
    return path(name);
  }
  std::string save_sample() const {
    return save("sample.ckpt", sample_state(), sample_tensors().records());
  }
  // A record over four floats.
  static TensorRecord floats(const std::array<float, 4>& values, std::string name = "w",
                             Role role = Role::kValue) {
    return {std::move(name), role, DType::kF32, {4}, std::as_bytes(std::span(values))};
  }
};

TEST_F(Operations, InspectShowsEverythingButElements) {
  const report::Inspection out = inspect(save_sample());
  EXPECT_EQ(out.format_version(), 1u);
  EXPECT_EQ(out.step(), 1234);
  EXPECT_EQ(out.seed(), 0xFEDCBA9876543210u);
  EXPECT_THAT(out.parts(), ElementsAre("weights", "moments", "ema", "statistics", "trainer_state"));
  ASSERT_EQ(out.tensors_size(), static_cast<int>(sample_tensors().records().size()));
  EXPECT_EQ(out.tensors(0).name(), "conv1.weight");
  EXPECT_THAT(out.tensors(0).dims(), ElementsAre(2, 3, 3, 1));
  EXPECT_EQ(out.weight_elements(), 2 * 3 * 3 + 5 * 7 + 0 + 5);
  EXPECT_THAT(to_json(out), HasSubstr("\"optimizer_name\":\"sgd\""));
}

TEST_F(Operations, InspectLeavesOutWhatTheFileDoesNotHold) {
  const std::array<float, 4> values{1, 2, 3, 4};
  const TensorRecord record = floats(values);
  CheckpointState state;
  state.parts = kWeights;
  const std::string file = save("weights.ckpt", state, {&record, 1});
  const report::Inspection out = inspect(file);
  EXPECT_FALSE(out.has_step() || out.has_seed() || out.has_loss_scale() || out.has_model_name());
  EXPECT_THAT(to_json(out), testing::Not(HasSubstr("seed")));
}

TEST_F(Operations, VerifyListsAllDamage) {
  const std::string file = save_sample();
  EXPECT_TRUE(verify(file).ok());
  std::string bytes = read_file(file);
  const report::Inspection contents = inspect(file);
  bytes[contents.tensors(0).offset()] ^= 1;
  bytes[contents.tensors(3).offset()] ^= 1;
  write_file_atomic(file, bytes);
  const report::Verification damaged = verify(file);
  EXPECT_FALSE(damaged.ok());
  ASSERT_THAT(damaged.faults(), SizeIs(2));
  EXPECT_THAT(damaged.faults(1), HasSubstr("gradient of tensor fc.weight is damaged"));
  write_file_atomic(file, std::string_view(bytes).substr(0, bytes.size() / 2));
  EXPECT_THAT(verify(file).faults(), SizeIs(1));
  remove_file(file);
  EXPECT_EQ(outcome_of([&] { verify(file); }).code, Code::kNotFound);
}

TEST_F(Operations, DiffOfEqualStatesIgnoresWhenTheyWereSaved) {
  const std::string a = save_sample();
  CheckpointState later = sample_state();
  later.created_unix_s += 1000;
  const std::string b = save("later.ckpt", later, sample_tensors().records());
  const report::Comparison out = diff(a, b);
  EXPECT_TRUE(out.identical());
  EXPECT_EQ(out.equal_tensors(), static_cast<int>(sample_tensors().records().size()));
}

TEST_F(Operations, DiffMeasuresTensors) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 4> x = {1, 2, nan, 0.0f};
  const std::array<float, 4> y = {1, 2.5f, 3, -0.0f};
  const std::array<std::byte, 4> small{};
  const std::string a =
      save("a.ckpt", {},
           std::array{floats(x), floats(x, "same"), floats(x, "only a"), floats(x, "shape")});
  const std::string b =
      save("b.ckpt", {},
           std::array{floats(y), floats(x, "same"), floats(x, "only a", Role::kEma),
                      TensorRecord{"shape", Role::kValue, DType::kU8, {2, 2}, small}});
  const report::Comparison out = diff(a, b);
  EXPECT_FALSE(out.identical());
  EXPECT_EQ(out.equal_tensors(), 1);
  ASSERT_THAT(out.tensors(), SizeIs(4));
  EXPECT_EQ(out.tensors(0).kind(), TensorDifference::VALUES);
  EXPECT_EQ(out.tensors(0).different_elements(), 3u);  // 0 and -0 are different bits
  EXPECT_EQ(out.tensors(0).nan_mismatches(), 1u);
  EXPECT_EQ(out.tensors(0).max_abs_difference(), 0.5);
  EXPECT_EQ(out.tensors(1).kind(), TensorDifference::ONLY_IN_A);
  EXPECT_EQ(out.tensors(2).kind(), TensorDifference::SHAPE_OR_TYPE);
  EXPECT_EQ(out.tensors(2).a(), "f32 [4]");
  EXPECT_EQ(out.tensors(2).b(), "u8 [2,2]");
  EXPECT_EQ(out.tensors(3).kind(), TensorDifference::ONLY_IN_B);
  EXPECT_EQ(out.tensors(3).role(), "ema");
}

TEST_F(Operations, DiffNamesFieldsOfTheState) {
  CheckpointState other = sample_state();
  other.step = 7;
  other.data_cursor = "elsewhere";
  other.loss_scale.reset();
  other.metadata = {{"note", "new"}};
  const report::Comparison out =
      diff(save_sample(), save("other.ckpt", other, sample_tensors().records()));
  EXPECT_FALSE(out.identical());
  EXPECT_THAT(out.tensors(), IsEmpty());
  std::vector<std::string> fields;
  for (const report::StateDifference& difference : out.state())
    fields.push_back(difference.field());
  EXPECT_THAT(fields, ElementsAre("step", "loss_scale", "data_cursor", "metadata assay.recipe",
                                  "metadata note"));
  EXPECT_EQ(out.state(0).a(), "1234");
  EXPECT_EQ(out.state(0).b(), "7");
}

TEST_F(Operations, ConvertsToSafetensorsAndBack) {
  SampleTensors tensors;
  tensors.add("conv.weight", Role::kValue, DType::kF32, {4, 3, 2, 5}, 1);  // O, H, W, I
  tensors.add("conv.weight", Role::kMoment1, DType::kF32, {4, 3, 2, 5}, 2);
  tensors.add("bn.running_mean", Role::kStatistic, DType::kF32, {4}, 3);
  const std::string original = save("original.ckpt", {}, tensors.records());
  const auto map = weights::parse_name_map(R"({"rules":[
    {"file":"net.*.running_mean","model":"*.running_mean","role":"statistic"},
    {"file":"net.*","model":"*","layout":"OIHW"}]})");
  const std::string exported = path("exported.safetensors");
  EXPECT_EQ(to_safetensors(original, exported, map).tensors(), 2);
  const safetensors::Reader file = safetensors::Reader::open(exported);
  ASSERT_NE(file.find("net.conv.weight"), nullptr);
  EXPECT_THAT(file.find("net.conv.weight")->dims, ElementsAre(4, 5, 3, 2));
  EXPECT_EQ(file.metadata().at("format"), "pt");

  const std::string back = path("back.ckpt");
  EXPECT_EQ(from_safetensors(exported, back, map).tensors(), 2);
  const report::Comparison out = diff(original, back);
  EXPECT_EQ(out.equal_tensors(), 2);
  ASSERT_THAT(out.tensors(), SizeIs(1));
  EXPECT_EQ(out.tensors(0).role(), "moment1");  // not a weight
}

// "pt" tells PyTorch's programs to take the layouts as theirs.
TEST_F(Operations, SafetensorsSayWhoseLayoutTheyHave) {
  SampleTensors tensors;
  tensors.add("conv.weight", Role::kValue, DType::kF32, {4, 3, 2, 5}, 1);
  tensors.add("fc.weight", Role::kValue, DType::kF32, {4, 3}, 2);
  const std::string original = save("original.ckpt", {}, tensors.records());
  const auto format_with = [&](const char* map) {
    const std::string exported = path("exported.safetensors");
    to_safetensors(original, exported, weights::parse_name_map(map));
    return safetensors::Reader::open(exported).metadata().at("format");
  };
  EXPECT_EQ(format_with(""), "assay");
  EXPECT_EQ(format_with(R"({"rules":[{"file":"*","model":"*","layout":"HWIO"}]})"), "assay");
  EXPECT_EQ(format_with(R"({"rules":[{"file":"fc.*","model":"fc.*","layout":"IO"},
                                     {"file":"*","model":"*","layout":"OIHW"}]})"),
            "assay");
  EXPECT_EQ(format_with(R"({"rules":[{"file":"*","model":"*","layout":"OIHW"}]})"), "pt");
}

// One of two networks: what the map does not name is counted and told.
TEST_F(Operations, ConvertsWhatAPartialMapNames) {
  SampleTensors tensors;
  tensors.add("generator.weight", Role::kValue, DType::kF32, {4, 3}, 1);
  tensors.add("reader.weight", Role::kValue, DType::kF32, {4, 3}, 2);
  const std::string original = save("original.ckpt", {}, tensors.records());
  const std::string exported = path("exported.safetensors");
  const report::Conversion out = to_safetensors(
      original, exported,
      weights::parse_name_map(
          R"({"rules": [{"file": "electra.*", "model": "reader.*"}], "partial": true})"));
  EXPECT_EQ(out.tensors(), 1);
  EXPECT_THAT(out.skipped(), ElementsAre("generator.weight"));
  EXPECT_EQ(safetensors::Reader::open(exported).tensors().size(), 1u);
}

// Roles survive the way through a format that has none.
TEST_F(Operations, StatisticsComeBackAsStatisticsWithoutAMap) {
  SampleTensors tensors;
  tensors.add("bn.weight", Role::kValue, DType::kF32, {4}, 1);
  tensors.add("bn.running_mean", Role::kStatistic, DType::kF32, {4}, 2);
  const std::string original = save("original.ckpt", {}, tensors.records());
  const std::string exported = path("exported.safetensors");
  to_safetensors(original, exported, {});
  const std::string back = path("back.ckpt");
  from_safetensors(exported, back, {});
  const CheckpointReader reader = CheckpointReader::open(back);
  EXPECT_NE(reader.find("bn.weight", Role::kValue), nullptr);
  EXPECT_NE(reader.find("bn.running_mean", Role::kStatistic), nullptr);
  EXPECT_EQ(reader.find("bn.running_mean", Role::kValue), nullptr);
}

// Files of PyTorch list none.
TEST_F(Operations, StatisticsOfPyTorchAreKnownByTheirNames) {
  from_safetensors(ASSAY_SOURCE_DIR "/tests/fixtures/safetensors/small.safetensors",
                   path("torch.ckpt"));
  const CheckpointReader reader = CheckpointReader::open(path("torch.ckpt"));
  EXPECT_NE(reader.find("bn1.running_mean", Role::kStatistic), nullptr);
  EXPECT_EQ(reader.find("bn1.running_mean", Role::kValue), nullptr);
  EXPECT_EQ(reader.find("conv1.weight", Role::kValue)->dims, (Dims{4, 2, 2, 3}));
  from_safetensors(
      ASSAY_SOURCE_DIR "/tests/fixtures/safetensors/small.safetensors", path("told.ckpt"),
      weights::parse_name_map(R"({"rules": [{"file": "*", "model": "*", "role": "value"}]})"));
  EXPECT_NE(CheckpointReader::open(path("told.ckpt")).find("bn1.running_mean", Role::kValue),
            nullptr);
}

TEST_F(Operations, ExportsTheAverageWhereThereIsOne) {
  const std::array<float, 4> value = {1, 2, 3, 4};
  const std::array<float, 4> average = {5, 6, 7, 8};
  const std::string file =
      save("ema.ckpt", {},
           std::array{floats(value), floats(average, "w", Role::kEma), floats(value, "plain"),
                      floats(value, "mean", Role::kStatistic),
                      floats(average, "mean", Role::kStatisticEma)});
  const std::string exported = path("ema.safetensors");
  EXPECT_EQ(to_safetensors(file, exported, {}, Role::kEma).tensors(), 3);
  const safetensors::Reader reader = safetensors::Reader::open(exported);
  std::array<float, 4> read{};
  reader.read(*reader.find("w"), std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, average);
  reader.read(*reader.find("mean"), std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, average);
  reader.read(*reader.find("plain"), std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, value);
  const std::string without = save("plain.ckpt", {}, std::array{floats(value)});
  EXPECT_EQ(outcome_of([&] { to_safetensors(without, exported, {}, Role::kEma); }).code,
            Code::kNotFound);
}

TEST_F(Operations, ConversionReportsWhatItSkips) {
  const std::string source = ASSAY_SOURCE_DIR "/tests/fixtures/safetensors/small.safetensors";
  const report::Conversion out = from_safetensors(source, path("skipped.ckpt"));
  EXPECT_EQ(out.tensors(), 10);
  EXPECT_THAT(out.skipped(), ElementsAre("flags"));
}

}  // namespace
}  // namespace assay::checkpoint
