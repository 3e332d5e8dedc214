#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/train/checkpoint/sample.h"

namespace assay::checkpoint {
namespace {

using testing::HasSubstr;

void expect_same_elements(const CheckpointReader& reader, const TensorRecord& record) {
  const TensorInfo* info = reader.find(record.name, record.role);
  ASSERT_NE(info, nullptr) << record.name;
  EXPECT_EQ(info->dtype, record.dtype);
  EXPECT_EQ(info->dims, record.dims);
  EXPECT_EQ(info->offset % 64, 0u);
  std::vector<std::byte> data(info->bytes);
  reader.read(*info, data);
  EXPECT_TRUE(std::ranges::equal(data, record.data)) << record.name;
}

TEST(CheckpointRoundTrip, KeepsEveryTypeRoleAndShapeBitForBit) {
  SampleTensors tensors;
  for (int dtype = 1; dtype <= 7; ++dtype) {
    for (int role = 1; role <= 7; ++role) {
      const auto seed = static_cast<unsigned>(10 * dtype + role);
      tensors.add(cat("t", dtype), Role{role}, DType{dtype}, {dtype, role, 3}, seed);
    }
  }
  tensors.add("scalar", Role::kValue, DType::kF32, {});
  tensors.add("none", Role::kValue, DType::kI32, {3, 0, 2});
  tensors.add("rank8", Role::kValue, DType::kU8, {1, 2, 1, 2, 1, 2, 1, 2});
  tensors.add("longer than a chunk", Role::kValue, DType::kF32, {300, 1000});
  const CheckpointReader reader = open_string(write_to_string(sample_state(), tensors.records()));
  ASSERT_EQ(reader.tensors().size(), tensors.records().size());
  for (const TensorRecord& record : tensors.records()) expect_same_elements(reader, record);
  reader.verify_all();
}

TEST(CheckpointRoundTrip, KeepsTheState) {
  const CheckpointState saved = sample_state();
  const CheckpointReader reader = open_string(write_to_string(saved, sample_tensors().records()));
  const CheckpointState& state = reader.state();
  EXPECT_EQ(reader.format_version(), 1u);
  EXPECT_EQ(state.parts, kAllParts);
  EXPECT_EQ(state.created_unix_s, saved.created_unix_s);
  EXPECT_FALSE(state.library_version.empty());
  EXPECT_EQ(state.step, saved.step);
  EXPECT_EQ(state.updates, saved.updates);
  EXPECT_EQ(state.batches, saved.batches);
  EXPECT_EQ(state.samples, saved.samples);
  EXPECT_EQ(state.seed, saved.seed);
  ASSERT_TRUE(state.loss_scale);
  EXPECT_EQ(state.loss_scale->scale, saved.loss_scale->scale);
  EXPECT_EQ(state.loss_scale->growth_counter, saved.loss_scale->growth_counter);
  EXPECT_EQ(state.optimizer_name, saved.optimizer_name);
  EXPECT_EQ(state.optimizer_config, saved.optimizer_config);
  EXPECT_EQ(state.schedule_config, saved.schedule_config);
  EXPECT_EQ(state.model_name, saved.model_name);
  EXPECT_EQ(state.model_config, saved.model_config);
  EXPECT_EQ(state.precision, saved.precision);
  EXPECT_EQ(state.data_cursor, saved.data_cursor);
  EXPECT_EQ(state.metadata, saved.metadata);
}

TEST(CheckpointRoundTrip, EmptyStateWithoutTensors) {
  CheckpointState saved;
  const CheckpointReader reader = open_string(write_to_string(saved, {}));
  EXPECT_TRUE(reader.tensors().empty());
  EXPECT_FALSE(reader.state().loss_scale);
  EXPECT_GT(reader.state().created_unix_s, 0);
  reader.verify_all();
}

TEST(CheckpointRoundTrip, SameStateGivesSameBytes) {
  EXPECT_EQ(write_to_string(sample_state(), sample_tensors().records()),
            write_to_string(sample_state(), sample_tensors().records()));
}

TEST(CheckpointRoundTrip, ThroughAFile) {
  const std::string path = testing::TempDir() + cat("checkpoint_round_trip_", getpid(), ".ckpt");
  const SampleTensors tensors = sample_tensors();
  write_checkpoint(path, sample_state(), tensors.records());
  const CheckpointReader reader = CheckpointReader::open(path);
  for (const TensorRecord& record : tensors.records()) expect_same_elements(reader, record);
  EXPECT_EQ(reader.name(), path);
  remove_file(path);
  EXPECT_EQ(outcome_of([&] { CheckpointReader::open(path); }).code, Code::kNotFound);
}

TEST(CheckpointRoundTrip, RefusesWhatItCouldNotReadBack) {
  const auto save = [](const TensorRecord& record, uint32_t parts = kAllParts) {
    CheckpointState state;
    state.parts = parts;
    return outcome_of([&] { write_to_string(state, {record}); });
  };
  const std::vector<std::byte> data(8);
  const TensorRecord good{"w", Role::kValue, DType::kF32, {2}, data};
  EXPECT_EQ(save(good).code, Code::kOk);
  EXPECT_EQ(save({"", Role::kValue, DType::kF32, {2}, data}).code, Code::kInvalid);
  EXPECT_EQ(save({"a\nb", Role::kValue, DType::kF32, {2}, data}).code, Code::kInvalid);
  EXPECT_EQ(save({"\xFF", Role::kValue, DType::kF32, {2}, data}).code, Code::kInvalid);
  EXPECT_EQ(save({"w", Role{9}, DType::kF32, {2}, data}).code, Code::kInvalid);
  EXPECT_EQ(save({"w", Role::kValue, DType{99}, {2}, data}).code, Code::kInvalid);
  EXPECT_EQ(save({"w", Role::kValue, DType::kF32, {-2}, data}).code, Code::kInvalid);
  EXPECT_EQ(save({"w", Role::kMoment1, DType::kF32, {2}, data}, kWeights).code, Code::kInvalid);
  const Outcome sizes = save({"layer.w", Role::kValue, DType::kF32, {3}, data});
  EXPECT_EQ(sizes.code, Code::kInvalid);
  EXPECT_EQ(sizes.message, "saving tensor layer.w: shape [3] of f32 takes 12 bytes, it has 8");
  const Outcome twice = outcome_of([&] { write_to_string({}, {good, good}); });
  EXPECT_EQ(twice.code, Code::kInvalid);
  EXPECT_THAT(twice.message, HasSubstr("tensor w: it is given twice"));
}

TEST(CheckpointRoundTrip, ReadingIntoAWrongSizeNamesBoth) {
  const CheckpointReader reader =
      open_string(write_to_string(sample_state(), sample_tensors().records()));
  std::vector<std::byte> small(5);
  const Outcome outcome = outcome_of([&] { reader.read(reader.tensors()[0], small); });
  EXPECT_EQ(outcome.code, Code::kInvalid);
  EXPECT_EQ(outcome.message,
            "sample: value of tensor conv1.weight has 72 bytes, the place for it 5");
}

}  // namespace
}  // namespace assay::checkpoint
