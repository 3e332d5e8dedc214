// What we write is a zip archive to everybody else.
#include <gtest/gtest.h>
#include <zip.h>

#include <memory>

#include "sdk/train/checkpoint/manifest.pb.h"
#include "tests/train/checkpoint/sample.h"

namespace assay::checkpoint {
namespace {

using Zip = std::unique_ptr<zip_t, decltype(&zip_discard)>;

Zip open_zip(const std::string& bytes) {
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, nullptr);
  return {zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, nullptr), &zip_discard};
}

// libzip checks the CRC-32 of the entry on the way.
std::string read_entry(zip_t* zip, const std::string& name) {
  zip_stat_t stat;
  if (zip_stat(zip, name.c_str(), 0, &stat) != 0) return "no such entry";
  EXPECT_EQ(stat.comp_method, ZIP_CM_STORE) << name;
  std::string contents(stat.size, '\0');
  zip_file_t* file = zip_fopen(zip, name.c_str(), 0);
  EXPECT_EQ(zip_fread(file, contents.data(), contents.size()),
            static_cast<zip_int64_t>(contents.size()));
  char beyond = 0;
  EXPECT_EQ(zip_fread(file, &beyond, 1), 0) << name;
  EXPECT_EQ(zip_fclose(file), 0) << name;
  return contents;
}

TEST(CheckpointArchive, IsAConsistentZipOfStoredEntries) {
  const SampleTensors tensors = sample_tensors();
  const std::string bytes = write_to_string(sample_state(), tensors.records());
  const Zip zip = open_zip(bytes);
  ASSERT_NE(zip, nullptr);
  EXPECT_EQ(zip_get_num_entries(zip.get(), 0),
            static_cast<zip_int64_t>(tensors.records().size() + 1));
  pb::Manifest manifest;
  ASSERT_TRUE(manifest.ParseFromString(read_entry(zip.get(), "manifest.pb")));
  ASSERT_EQ(static_cast<size_t>(manifest.tensors_size()), tensors.records().size());
  for (size_t i = 0; i < tensors.records().size(); ++i) {
    const pb::Tensor& tensor = manifest.tensors(static_cast<int>(i));
    const auto& data = tensors.records()[i].data;
    const std::string expected(reinterpret_cast<const char*>(data.data()), data.size());
    EXPECT_EQ(read_entry(zip.get(), tensor.entry()), expected) << tensor.entry();
    EXPECT_EQ(bytes.substr(tensor.offset(), tensor.size()), expected) << tensor.entry();
  }
  EXPECT_EQ(manifest.tensors(0).entry(), "value/0000.conv1.weight");
}

TEST(CheckpointArchive, HostileTensorNamesBecomePlainEntries) {
  SampleTensors tensors;
  tensors.add("../../etc/passwd", Role::kValue, DType::kU8, {3});
  tensors.add("a b\\c:\xC3\xA9", Role::kEma, DType::kU8, {3});
  tensors.add(std::string(1024, 'x'), Role::kValue, DType::kU8, {3});
  const CheckpointReader reader = open_string(write_to_string(sample_state(), tensors.records()));
  EXPECT_EQ(reader.tensors()[0].entry, "value/0000..._.._etc_passwd");
  EXPECT_EQ(reader.tensors()[1].entry, "ema/0001.a_b_c___");
  EXPECT_EQ(reader.tensors()[0].name, "../../etc/passwd");
}

}  // namespace
}  // namespace assay::checkpoint
