#include "sdk/data/dataset_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

DatasetManifest plan_of(int64_t train, int64_t test, int shards) {
  DatasetManifest plan;
  plan.set_dataset("toy");
  plan.set_licence("none");
  plan_split(plan, "train", train, shards);
  plan_split(plan, "test", test, 1);
  return plan;
}

void number_payload(int64_t index, std::string& payload) { payload = cat("payload ", index); }

DatasetManifest write(const std::string& folder, const DatasetManifest& plan,
                      const ProgressFunction& progress = {}, bool overwrite = false) {
  DatasetWriter writer(folder, plan, overwrite);
  if (!writer.complete()) {
    writer.write_split("train", number_payload, progress);
    writer.write_split("test", number_payload, progress);
    writer.finish();
  }
  return writer.manifest();
}

TEST(DatasetWriter, WritesWhatReadersFind) {
  const TemporaryFolder folder;
  const DatasetManifest written = write(folder.at("set"), plan_of(10, 3, 3));
  const DatasetManifest read = read_manifest(folder.at("set"));
  EXPECT_EQ(read.SerializeAsString(), written.SerializeAsString());
  EXPECT_EQ(read.splits(0).shards(2).file(), "train-00002-of-00003.tfrecord");
  const auto train = open_split(folder.at("set"), read, "train");
  ASSERT_EQ(train->size(), 10);
  std::string payload;
  for (int64_t i = 0; i < 10; ++i) {
    train->read(i, payload);
    EXPECT_EQ(payload, cat("payload ", i));
  }
  verify_dataset(folder.at("set"), {});
  const Error error = error_of([&] { open_split(folder.at("set"), read, "validation"); });
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("train and test"));
}

TEST(DatasetWriter, ContentDigestDoesNotDependOnShards) {
  const TemporaryFolder folder;
  const DatasetManifest one = write(folder.at("1"), plan_of(10, 3, 1));
  const DatasetManifest four = write(folder.at("4"), plan_of(10, 3, 4));
  EXPECT_EQ(one.splits(0).content_sha256(), four.splits(0).content_sha256());
  EXPECT_NE(one.splits(0).content_sha256(), one.splits(1).content_sha256());
}

TEST(DatasetWriter, SecondConversionOfTheSameDoesNothing) {
  const TemporaryFolder folder;
  write(folder.at("set"), plan_of(10, 3, 3));
  EXPECT_TRUE(DatasetWriter(folder.at("set"), plan_of(10, 3, 3), false).complete());
  // A shard that went missing, or changed its size, is written again.
  remove_file(folder.at("set/train-00001-of-00003.tfrecord"));
  EXPECT_EQ(write(folder.at("set"), plan_of(10, 3, 3)).splits(0).records(), 10);
  verify_dataset(folder.at("set"), {});
}

TEST(DatasetWriter, AnotherDataSetIsNotReplacedUnasked) {
  const TemporaryFolder folder;
  write(folder.at("set"), plan_of(10, 3, 3));
  const Error error = error_of([&] { write(folder.at("set"), plan_of(10, 4, 3)); });
  EXPECT_EQ(error.code(), Code::kInvalid);
  verify_dataset(folder.at("set"), {});
  write(folder.at("set"), plan_of(10, 4, 2), {}, true);
  EXPECT_EQ(read_manifest(folder.at("set")).splits(1).records(), 4);
  verify_dataset(folder.at("set"), {});
  EXPECT_THAT(list_files(folder.at("set"), "*"), testing::SizeIs(4));  // nothing of the old one
}

TEST(DatasetWriter, CancelledAtAnyRecordLeavesNothing) {
  for (int calls = 0; calls < 6; ++calls) {
    const TemporaryFolder folder;
    int left = calls;
    const Error error = error_of([&] {
      write(folder.at("set"), plan_of(600, 300, 3), [&](const Progress&) { return left-- > 0; });
    });
    EXPECT_EQ(error.code(), Code::kCancelled);
    EXPECT_THAT(error.message(), HasSubstr("cancelled at record"));
    EXPECT_EQ(folder.entries(), 0) << calls;
  }
}

TEST(DatasetWriter, ProgressReachesItsTotal) {
  const TemporaryFolder folder;
  int64_t before = 0;
  std::string phase;
  write(folder.at("set"), plan_of(1000, 300, 3), [&](const Progress& p) {
    if (p.phase != phase) before = 0;
    EXPECT_GE(p.done, before);
    EXPECT_EQ(p.total, p.phase == "train" ? 1000 : 300);
    before = p.done;
    phase = p.phase;
    return true;
  });
  EXPECT_EQ(phase, "test");
  EXPECT_EQ(before, 300);
}

TEST(DatasetWriter, OwnFilesOfOthersStay) {
  const TemporaryFolder folder;
  write_file_atomic(folder.at("notes.txt"), "mine");
  error_of([&] { write(folder.path(), plan_of(10, 3, 1), [](const Progress&) { return false; }); });
  EXPECT_EQ(folder.entries(), 1);
}

TEST(DatasetWriter, LeftoversOfAKilledConversionAreReplaced) {
  const TemporaryFolder folder;
  write_file_atomic(folder.at("train-00000-of-00001.tfrecord"), "half");
  write_file_atomic(folder.at(".test-00000-of-00001.tfrecord.tmp-0123456789abcdef"), "half");
  EXPECT_EQ(error_of([&] { read_manifest(folder.path()); }).code(), Code::kNotFound);
  write(folder.path(), plan_of(10, 3, 1));
  verify_dataset(folder.path(), {});
  EXPECT_EQ(folder.entries(), 3);
}

TEST(DatasetWriter, TwoConversionsIntoOneFolder) {
  const TemporaryFolder folder;
  const DatasetWriter first(folder.path(), plan_of(10, 3, 1), false);
  const Error error = error_of([&] { DatasetWriter(folder.path(), plan_of(10, 3, 1), false); });
  EXPECT_EQ(error.code(), Code::kBusy);
}

// The file size limit stands for a disk that fills up in the middle of a shard.
TEST(DatasetWriter, FullDiskLeavesNothing) {
  const TemporaryFolder folder;
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{3000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Error error = error_of([&] { write(folder.at("set"), plan_of(600, 300, 2)); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_EQ(error.detail().native_code, EFBIG);
  EXPECT_EQ(folder.entries(), 0);
}

TEST(DatasetWriter, PlanRefusesImpossibleSplits) {
  DatasetManifest plan;
  EXPECT_EQ(error_of([&] { plan_split(plan, "x", 0, 1); }).code(), Code::kFormat);
  EXPECT_EQ(error_of([&] { plan_split(plan, "x", 3, 4); }).code(), Code::kInvalid);
  EXPECT_EQ(error_of([&] { plan_split(plan, "x", 3, 0); }).code(), Code::kInvalid);
}

class ManifestTest : public testing::Test {
 protected:
  ManifestTest() { write(folder_.path(), plan_of(10, 3, 2)); }
  // Writes the manifest after a change.
  void change(const std::string& from, const std::string& to) {
    std::string text = read_file(folder_.at("dataset.json"));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    write_file_atomic(folder_.at("dataset.json"), text.replace(at, from.size(), to));
  }
  Error open_error() {
    return error_of([&] { open_split(folder_.path(), read_manifest(folder_.path()), "train"); });
  }

  TemporaryFolder folder_;
};

TEST_F(ManifestTest, RefusesOtherVersions) {
  change("\"format_version\": 1", "\"format_version\": 2");
  EXPECT_EQ(open_error().code(), Code::kVersion);
}

TEST_F(ManifestTest, RefusesUnknownFieldsAndNonsense) {
  change("\"format_version\"", "\"formal_version\"");
  EXPECT_EQ(open_error().code(), Code::kFormat);
  write_file_atomic(folder_.at("dataset.json"), "{");
  EXPECT_EQ(open_error().code(), Code::kFormat);
  write_file_atomic(folder_.at("dataset.json"), "");
  EXPECT_EQ(open_error().code(), Code::kVersion);
}

TEST_F(ManifestTest, ShardsCannotLeadElsewhere) {
  change("train-00000-of-00002.tfrecord", "../../etc/passwd");
  EXPECT_EQ(open_error().code(), Code::kFormat);
  EXPECT_THAT(open_error().message(), HasSubstr("not the name of a file"));
}

TEST_F(ManifestTest, SplitsCannotLeadElsewhere) {
  change("\"name\": \"train\"", "\"name\": \"../../train\"");
  EXPECT_EQ(open_error().code(), Code::kFormat);
  EXPECT_THAT(open_error().message(), HasSubstr("the name of a split"));
}

TEST_F(ManifestTest, ShardsThatChangedAreFound) {
  const std::string path = folder_.at("train-00000-of-00002.tfrecord");
  const std::string good = read_file(path);
  // Cut between two records: each record is whole, the size is not.
  write_file_atomic(path, good.substr(0, good.size() / 5));
  EXPECT_THAT(open_error().message(), HasSubstr("the manifest states"));
  remove_file(path);
  EXPECT_EQ(open_error().code(), Code::kNotFound);
  // Same size, other contents: opening does not read them, verifying does.
  std::string other;
  for (int i = 5; i < 10; ++i) append_record(cat("payload ", i), other);
  ASSERT_EQ(other.size(), good.size());
  write_file_atomic(path, other);
  EXPECT_EQ(open_error().code(), Code::kOk);
  const Error error = error_of([&] { verify_dataset(folder_.path(), {}); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr(path));
}

TEST_F(ManifestTest, VerifyCanBeCancelled) {
  EXPECT_EQ(error_of([&] {
              verify_dataset(folder_.path(), [](const Progress&) { return false; });
            }).code(),
            Code::kCancelled);
}

// Entries 0 to 39: every tenth cannot be used, every fourth is remarkable.
class Entries : public testing::Test {
 protected:
  static DatasetManifest plan(int shards = 4) {
    DatasetManifest plan;
    plan.set_dataset("toy");
    plan_split(plan, "train", 40, shards);
    return plan;
  }
  static void make(int64_t index, DatasetWriter::Entry& entry) {
    EXPECT_TRUE(entry.payload.empty() && entry.usable && entry.remarks.empty());
    if (index % 4 == 0) entry.remarks = {{"remarkable", cat("entry ", index), 1 + index / 4}};
    if (index % 10 == 0) {
      entry.usable = false;
      entry.remarks = {{"left out", cat("entry ", index)}};
    }
    entry.payload = cat("payload ", index);
  }
  // Returns how many entries were made.
  int64_t convert(const ProgressFunction& progress = {}, const DatasetManifest& wanted = plan(),
                  int threads = 3) {
    std::atomic<int64_t> made{0};
    DatasetWriter writer(folder_.at("set"), wanted, false, WhenStopped::kKeep);
    if (writer.complete()) return 0;
    const auto counted = [&](int64_t index, DatasetWriter::Entry& entry) {
      ++made;
      make(index, entry);
    };
    writer.write_entries("train", counted, threads, progress);
    writer.finish();
    return made;
  }
  void stop_after(int64_t entries) {
    const Error error =
        error_of([&] { convert([=](const Progress& state) { return state.done < entries; }); });
    EXPECT_EQ(error.code(), Code::kCancelled);
  }
  std::string manifest_text() const { return read_file(folder_.at("set/dataset.json")); }

  TemporaryFolder folder_;
};

TEST_F(Entries, LeavesOutAndReports) {
  EXPECT_EQ(convert(), 40);
  const DatasetManifest manifest = read_manifest(folder_.at("set"));
  const DatasetSplit& split = manifest.splits(0);
  EXPECT_EQ(split.records(), 36);
  EXPECT_EQ(split.shards(0).records(), 9);
  ASSERT_EQ(split.shards(0).findings_size(), 2);
  EXPECT_EQ(split.shards(0).findings(0).kind(), "left out");
  EXPECT_EQ(split.shards(0).findings(0).examples(0), "entry 0");
  EXPECT_EQ(split.shards(0).findings(1).kind(), "remarkable");
  EXPECT_EQ(split.shards(0).findings(1).count(), 5);  // of two entries
  verify_dataset(folder_.at("set"), {});
  const auto source = open_split(folder_.at("set"), manifest, "train");
  std::string payload;
  source->read(0, payload);
  EXPECT_EQ(payload, "payload 1");
  source->read(35, payload);
  EXPECT_EQ(payload, "payload 39");
  EXPECT_EQ(convert(), 0);  // is there already
  EXPECT_FALSE(path_exists(folder_.at("set/conversion.json")));
}

TEST_F(Entries, ThreadsChangeNothing) {
  convert({}, plan(), 1);
  const std::string one = manifest_text();
  std::filesystem::remove_all(folder_.at("set"));
  convert({}, plan(), 5);
  EXPECT_EQ(manifest_text(), one);
}

TEST_F(Entries, StoppedConversionsContinue) {
  convert();
  const std::string uninterrupted = manifest_text();
  std::filesystem::remove_all(folder_.at("set"));
  stop_after(20);  // two shards are finished
  EXPECT_TRUE(path_exists(folder_.at("set/conversion.json")));
  EXPECT_EQ(error_of([&] { read_manifest(folder_.at("set")); }).code(), Code::kNotFound);
  EXPECT_EQ(convert(), 20);
  EXPECT_EQ(manifest_text(), uninterrupted);
}

TEST_F(Entries, KilledConversionsContinue) {
  convert();
  const std::string uninterrupted = manifest_text();
  std::filesystem::remove_all(folder_.at("set"));
  const pid_t child = ::fork();
  if (child == 0) {
    convert([](const Progress& state) {
      if (state.done >= 30) ::kill(::getpid(), SIGKILL);
      return true;
    });
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  // What dies in the middle of writing the log or the manifest leaves these.
  test::write_quickly(folder_.at("set/.conversion.json.tmp-0123456789abcdef"), "{");
  test::write_quickly(folder_.at("set/.dataset.json.tmp-0123456789abcdee"), "{");
  EXPECT_EQ(convert(), 10);
  EXPECT_TRUE(list_files(folder_.at("set"), ".*tmp*").empty());
  EXPECT_EQ(manifest_text(), uninterrupted);
}

TEST_F(Entries, DamagedFinishedShardsAreWrittenAgain) {
  convert();
  const std::string uninterrupted = manifest_text();
  std::filesystem::remove_all(folder_.at("set"));
  stop_after(30);
  const std::string shard = folder_.at("set/train-00001-of-00004.tfrecord");
  std::string bytes = read_file(shard);
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  test::write_quickly(shard, bytes);
  remove_file(folder_.at("set/train-00002-of-00004.tfrecord"));
  EXPECT_EQ(convert(), 30);
  EXPECT_EQ(manifest_text(), uninterrupted);
}

TEST_F(Entries, AnotherPlanBeginsAnew) {
  stop_after(20);
  EXPECT_EQ(convert({}, plan(2)), 40);
  EXPECT_EQ(folder_.entries(), 1);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.at("set"))) {
    EXPECT_THAT(entry.path().string(),
                testing::AnyOf(HasSubstr("of-00002"), HasSubstr("dataset.json")));
  }
  test::write_quickly(folder_.at("set/conversion.json"), "junk");  // harmless beside a data set
  EXPECT_EQ(convert({}, plan(2)), 0);
}

TEST_F(Entries, AJunkLogIsNoLog) {
  make_directories(folder_.at("set"));
  test::write_quickly(folder_.at("set/conversion.json"), "junk");
  EXPECT_EQ(convert(), 40);
}

TEST_F(Entries, NothingUsableIsAnError) {
  DatasetWriter writer(folder_.at("set"), plan(), false, WhenStopped::kKeep);
  const auto none = [](int64_t, DatasetWriter::Entry& entry) {
    entry.usable = false;
    entry.remarks = {{"left out", "all"}};
  };
  const Error error = error_of([&] { writer.write_entries("train", none, 2, {}); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("none of its 40 entries is usable"));
}

}  // namespace
}  // namespace assay::data
