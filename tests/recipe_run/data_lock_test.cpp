// data.lock: one content digest for the same images as record files, RecordIO and image files, and
// every change found and named.
#include "tools/recipe_run/data_lock/lock_file.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sdk/data/example.h"
#include "sdk/data/record.h"
#include "sdk/data/recordio.h"
#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/data_lock/container.h"
#include "tools/recipe_run/data_lock/merkle.h"
#include "tools/recipe_run/data_lock/verify.h"

namespace reciperun {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "Images" of tests: one row of grey pixels as text; "broken" cannot be decoded.
bool decode_text(std::string_view file, Picture& out) {
  if (file.starts_with("broken")) return false;
  out = {1, static_cast<int>(file.size()), 1, std::string(file)};
  return true;
}

struct Image {
  int label;
  std::string file;
};

class DataLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        fs::path(::testing::TempDir()) /
        ("data_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
  }
  void TearDown() override { std::fclose(log_); }

  fs::path put_record_files(const std::vector<Image>& images, int shards = 2) {
    const fs::path folder = root_ / ("records" + std::to_string(shards));
    fs::remove_all(folder);
    create_folders(folder);
    std::string listed;
    const size_t per_shard = (images.size() + shards - 1) / static_cast<size_t>(shards);
    for (int shard = 0; shard < shards; ++shard) {
      const std::string name = "train-" + std::to_string(shard) + ".tfrecord";
      assay::data::RecordWriter writer((folder / name).string());
      for (size_t i = 0; i < images.size(); ++i) {
        if (i / per_shard != static_cast<size_t>(shard)) continue;
        assay::data::Example example;
        assay::data::set_bytes_feature(example, "jpeg", images[i].file);
        assay::data::set_int64_feature(example, "label", images[i].label);
        assay::data::set_int64_feature(example, "id", static_cast<int64_t>(i));
        std::string payload;
        assay::data::serialize_example(example, payload);
        writer.write(payload);
      }
      writer.finish();
      listed += std::string(shard > 0 ? "," : "") + "{\"file\":\"" + name + "\"}";
    }
    write_file_atomic(folder / "dataset.json",
                      "{\"format_version\":1,\"dataset\":\"toys\",\"licence\":\"MIT\",\"splits\":[{"
                      "\"name\":\"train\",\"records\":\"" +
                          std::to_string(images.size()) +
                          "\",\"content_sha256\":\"abc\",\"shards\":[" + listed + "]}]}");
    return folder;
  }
  fs::path put_recordio(const std::vector<Image>& images) {
    const fs::path folder = root_ / "recordio";
    create_folders(folder);
    assay::data::RecordIoWriter writer((folder / "train").string());
    std::string payload;
    for (size_t i = images.size(); i-- > 0;) {  // another order
      assay::data::pack_recordio_image(i, static_cast<float>(images[i].label), images[i].file,
                                       payload);
      writer.write(i, payload);
    }
    writer.finish();
    return folder;
  }
  fs::path put_image_files(const std::vector<Image>& images) {
    const fs::path folder = root_ / "files";
    for (size_t i = 0; i < images.size(); ++i) {
      write_file_atomic(folder / "train" / ("class" + std::to_string(images[i].label)) /
                            (std::to_string(i) + ".jpg"),
                        images[i].file);
    }
    return folder;
  }

  Fingerprint fingerprint(const fs::path& folder) {
    return fingerprint_of("toys", folder, decoder_, progress_, stop_);
  }
  DataCheck verify(const fs::path& folder) {
    const data::Lock lock = read_lock(root_ / "data.lock");
    return verify_data(root_ / "data.lock", *find_entry(lock, "toys"), folder, decoder_, progress_,
                       stop_);
  }

  // RecordIO's own marker inside of an image, at a multiple of 4.
  const std::vector<Image> images_ = {{0, "aaaa"},
                                      {1, std::string("bbbb\x0a\x23\xd7\xce") + "bb"},
                                      {1, "cccccc"},
                                      {2, "dd"},
                                      {2, "e"}};
  fs::path root_;
  PictureDecoder decoder_{"text 1.0", decode_text};
  std::FILE* log_ = std::tmpfile();
  Progress progress_{log_, false};
  std::atomic<bool> stop_{false};
};

TEST(Merkle, IsThatOfRfc6962) {
  EXPECT_EQ(merkle_root({}), sha256_hex(""));
  const std::string zero(1, '\0'), one(1, '\1');
  const std::string a = sha256_hex(zero + "a"), b = sha256_hex(zero + "b"),
                    c = sha256_hex(zero + "c");
  EXPECT_EQ(merkle_root({"a"}), a);
  EXPECT_EQ(merkle_root({"a", "b", "c"}), sha256_hex(one + sha256_hex(one + a + b) + c));
}

TEST_F(DataLockTest, TheContentIsTheSameInEveryContainer) {
  const Fingerprint records = fingerprint(put_record_files(images_));
  const Fingerprint one_shard = fingerprint(put_record_files(images_, 1));
  const Fingerprint recordio = fingerprint(put_recordio(images_));
  const Fingerprint files = fingerprint(put_image_files(images_));
  const std::string content = records.entry.split(0).content_root();
  for (const Fingerprint* other : {&one_shard, &recordio, &files}) {
    ASSERT_EQ(other->entry.split_size(), 1);
    EXPECT_EQ(other->entry.split(0).name(), "train");
    EXPECT_EQ(other->entry.split(0).content_root(), content);
    EXPECT_EQ(other->entry.split(0).label_histogram(), records.entry.split(0).label_histogram());
    EXPECT_NE(other->entry.root(), records.entry.root());
  }
  EXPECT_EQ(records.entry.split(0).samples(), 5u);
  EXPECT_EQ(records.entry.split(0).labels(), 3u);
  EXPECT_EQ(records.entry.dataset(), "toys");
  EXPECT_EQ(records.entry.decoder(), "text 1.0");
  std::vector<Image> other = images_;
  other[3].label = 1;
  EXPECT_NE(fingerprint(put_record_files(other)).entry.split(0).content_root(), content);
}

TEST_F(DataLockTest, PixelsThatAreNotEncodedCountAsTheyAre) {
  const fs::path folder = put_record_files({{7, "xy"}}, 1);
  assay::data::RecordWriter writer((folder / "train-0.tfrecord").string());
  assay::data::Example example;
  assay::data::set_bytes_feature(example, "image", "xy");
  assay::data::set_int64_feature(example, "height", 1);
  assay::data::set_int64_feature(example, "width", 2);
  assay::data::set_int64_feature(example, "channels", 1);
  assay::data::set_int64_feature(example, "label", 7);
  std::string payload;
  assay::data::serialize_example(example, payload);
  writer.write(payload);
  writer.finish();
  decoder_ = {};
  const Fingerprint raw = fingerprint(folder);
  EXPECT_EQ(raw.entry.decoder(), "");
  const fs::path encoded = put_record_files({{7, "xy"}}, 1);
  EXPECT_THROW(fingerprint(encoded), Error) << "there is no decoder";
  decoder_ = {"text 1.0", decode_text};
  EXPECT_EQ(fingerprint(encoded).entry.split(0).content_root(), raw.entry.split(0).content_root());
}

TEST_F(DataLockTest, TheSameFilesPassWithoutDecoding) {
  const fs::path folder = put_record_files(images_);
  write_entry(root_ / "data.lock", fingerprint(folder));
  decoder_ = {};  // nothing needs it
  const DataCheck check = verify(folder);
  EXPECT_TRUE(check.same_files);
  EXPECT_THAT(check.problems, IsEmpty());
}

TEST_F(DataLockTest, AFirstLookReadsAHundredthOfEveryFile) {
  const fs::path folder = put_record_files(images_);
  const fs::path big = folder / "readme.bin";
  write_file_atomic(big, std::string(3 << 20, 'x'));
  write_entry(root_ / "data.lock", fingerprint(folder));
  const auto look = [&] {
    const data::Lock lock = read_lock(root_ / "data.lock");
    return verify_sampled(*find_entry(lock, "toys"), folder, progress_, stop_);
  };
  EXPECT_TRUE(look().same_files);
  EXPECT_THAT(look().problems, IsEmpty());
  std::string bytes(3 << 20, 'x');
  bytes.replace(1 << 20, 1 << 20, std::string(1 << 20, '\0'));  // a third was never written
  write_file_atomic(big, bytes);
  EXPECT_THAT(look().problems, ElementsAre("file readme.bin has other bytes"));
  EXPECT_THAT(look().notes, Contains(HasSubstr("without --fast")));
  write_file_atomic(big, std::string((3 << 20) - 1, 'x'));
  EXPECT_THAT(look().problems,
              ElementsAre("file readme.bin has 3145727 bytes, locked with 3145728"));
  fs::remove(big);
  EXPECT_THAT(look().problems, ElementsAre("file readme.bin is missing"));
}

TEST_F(DataLockTest, AFirstLookNeedsItsDigest) {
  const fs::path folder = put_record_files(images_);
  data::Entry entry = fingerprint(folder).entry;
  entry.clear_sampled_root();
  try {
    verify_sampled(entry, folder, progress_, stop_);
    FAIL() << "nothing was compared";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kUsage);
    EXPECT_THAT(error.hint(), HasSubstr("without --fast"));
  }
}

TEST_F(DataLockTest, OtherFilesOfTheSameSamplesPass) {
  write_entry(root_ / "data.lock", fingerprint(put_record_files(images_)));
  for (const fs::path& folder : {put_recordio(images_), put_image_files(images_)}) {
    const DataCheck check = verify(folder);
    EXPECT_FALSE(check.same_files);
    EXPECT_TRUE(check.same_samples);
    EXPECT_THAT(check.problems, IsEmpty());
  }
}

TEST_F(DataLockTest, ASampleThatDiffersIsNamed) {
  write_entry(root_ / "data.lock", fingerprint(put_record_files(images_)));
  std::vector<Image> other = images_;
  other[3].file = "dx";
  const DataCheck check = verify(put_record_files(other));
  EXPECT_FALSE(check.same_samples);
  EXPECT_THAT(check.problems, Contains("file train-1.tfrecord has another SHA-256"));
  EXPECT_THAT(check.problems, Contains(HasSubstr("train-1.tfrecord, record 0 (label 2)")));
  EXPECT_THAT(check.problems, Contains(HasSubstr("is locked, and not here")));
  // Without the list, or with one that was changed too, it is still found, only not named.
  const fs::path list = root_ / "data.lock.lists/toys.train.tsv";
  write_file_atomic(list, read_file(list) + sha256_hex("dx") + "\t2\tinvented\n");
  const DataCheck unnamed = verify(put_record_files(other));
  EXPECT_FALSE(unnamed.same_samples);
  EXPECT_THAT(unnamed.notes, Contains(HasSubstr("data.lock.lists")));
}

TEST_F(DataLockTest, CountsAndDamageAreNamed) {
  write_entry(root_ / "data.lock", fingerprint(put_record_files(images_)));
  std::vector<Image> fewer = images_;
  fewer.pop_back();
  EXPECT_THAT(verify(put_record_files(fewer)).problems,
              Contains("split train has 4 samples, locked with 5"));
  std::vector<Image> damaged = images_;
  damaged[2].file = "broken";
  EXPECT_THAT(verify(put_record_files(damaged)).problems,
              Contains("train-0.tfrecord, record 2: the image cannot be decoded"));
  const fs::path folder = put_record_files(images_);
  fs::resize_file(folder / "train-1.tfrecord", fs::file_size(folder / "train-1.tfrecord") - 3);
  EXPECT_THAT(verify(folder).problems, Contains(HasSubstr("ends inside of a record")));
}

TEST_F(DataLockTest, TheSameContentInTwoSplitsIsCounted) {
  const fs::path folder = put_image_files(images_);
  write_file_atomic(folder / "test/class0/9.jpg", "cccccc");
  write_file_atomic(folder / "test/class1/8.jpg", "new");
  const Fingerprint print = fingerprint(folder);
  for (const data::Split& split : print.entry.split()) {
    ASSERT_EQ(split.overlap_size(), 1);
    EXPECT_EQ(split.overlap(0).samples(), 1u) << "the same picture, whatever its label";
  }
}

TEST_F(DataLockTest, ARecipeIsHeldToTheLock) {
  const fs::path folder = put_record_files(images_, 1);
  fs::rename(folder, root_ / "toys");
  write_entry(root_ / "data.lock", fingerprint(root_ / "toys"));
  v1::Recipe recipe;
  v1::DataRef& train = *recipe.add_data();
  train.set_id("train");
  train.set_lock("toys");
  train.set_split("train");
  recipe.mutable_io()->set_data_root(root_.string());
  const data::Lock lock = entries_of(read_lock(root_ / "data.lock"), recipe);
  ASSERT_EQ(lock.entry_size(), 1);
  EXPECT_NO_THROW(require_locked_data(lock, recipe));
  const fs::path manifest = root_ / "toys/dataset.json";
  std::string text = read_file(manifest);
  text.replace(text.find("abc"), 3, "abd");
  write_file_atomic(manifest, text);
  try {
    require_locked_data(lock, recipe);
    FAIL() << "other records were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kDataMismatch);
    EXPECT_THAT(error.what(), HasSubstr("split train"));
  }
  train.set_lock("other");
  EXPECT_EQ(entries_of(read_lock(root_ / "data.lock"), recipe).entry_size(), 0);
}

TEST_F(DataLockTest, MalformedLocksAndEmptyFoldersAreRefused) {
  write_file_atomic(root_ / "data.lock", "schema: 1\nentry { idd: \"x\" }\n");
  try {
    read_lock(root_ / "data.lock");
    FAIL() << "a malformed lock was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("data.lock:2:12: there is no field 'idd' in Entry"));
  }
  write_file_atomic(root_ / "data.lock", "schema: 9");
  EXPECT_THROW(read_lock(root_ / "data.lock"), Error);
  create_folders(root_ / "empty");
  EXPECT_THROW(open_container(root_ / "empty"), Error);
  EXPECT_THROW(open_container(root_ / "nowhere"), Error);
}

TEST_F(DataLockTest, StopsWhenAsked) {
  const fs::path folder = put_record_files(images_);
  stop_ = true;
  try {
    fingerprint(folder);
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kInterrupted);
  }
}

}  // namespace
}  // namespace reciperun
