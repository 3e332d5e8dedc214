// Files of every format version are read forever: tests/golden/checkpoint_v<N>.zip is never
// written again. A new version's file is made with `checkpoint_writer_process golden PATH`.
#include <gtest/gtest.h>

#include <algorithm>

#include "sdk/base/crc32c.h"
#include "tests/train/checkpoint/sample.h"

namespace assay::checkpoint {
namespace {

const std::string kVersion1 = ASSAY_SOURCE_DIR "/tests/golden/checkpoint_v1.zip";

TEST(CheckpointGolden, Version1IsRead) {
  const CheckpointReader reader = CheckpointReader::open(kVersion1);
  reader.verify_all();
  EXPECT_EQ(reader.format_version(), 1u);
  const CheckpointState& state = reader.state();
  EXPECT_EQ(state.parts, 31u);
  EXPECT_EQ(state.library_version, "0.1.0");
  EXPECT_EQ(state.created_unix_s, 1700000000);
  EXPECT_EQ(state.step, 1234);
  EXPECT_EQ(state.updates, 1230);
  EXPECT_EQ(state.batches, 2469);
  EXPECT_EQ(state.samples, 157952);
  EXPECT_EQ(state.seed, 0xFEDCBA9876543210u);
  EXPECT_EQ(state.loss_scale.value().scale, 65536.0);
  EXPECT_EQ(state.loss_scale.value().growth_counter, 77);
  EXPECT_EQ(state.optimizer_name, "sgd");
  EXPECT_EQ(state.optimizer_config, R"({"momentum":0.9})");
  EXPECT_EQ(state.schedule_config, R"({"kind":"cosine"})");
  EXPECT_EQ(state.model_name, "resnet18");
  EXPECT_EQ(state.model_config, R"({"classes":10})");
  EXPECT_EQ(state.precision, "amp-bf16");
  EXPECT_EQ(state.data_cursor, std::string("\0\1\xFF cursor", 10));
  EXPECT_EQ(state.metadata.at("note"), "gr\xC3\xBC\xC3\x9F");
  // All element types; numbers of types and roles as they were in 2026.
  const SampleTensors expected = sample_tensors();
  ASSERT_EQ(reader.tensors().size(), expected.records().size());
  for (const TensorRecord& record : expected.records()) {
    const TensorInfo* info = reader.find(record.name, record.role);
    ASSERT_NE(info, nullptr) << record.name;
    EXPECT_EQ(info->dtype, record.dtype);
    EXPECT_EQ(info->dims, record.dims);
    std::vector<std::byte> data(info->bytes);
    reader.read(*info, data);
    EXPECT_TRUE(std::ranges::equal(data, record.data)) << record.name;
  }
}

TEST(CheckpointGolden, TheFileItselfIsTheOneCommittedFirst) {
  EXPECT_EQ(crc32c(read_file(kVersion1)), 1042723028u);
}

}  // namespace
}  // namespace assay::checkpoint
