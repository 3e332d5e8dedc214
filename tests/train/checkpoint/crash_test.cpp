// Whatever stops the writer, the file under its name is a complete checkpoint.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "sdk/base/file.h"
#include "tests/train/checkpoint/sample.h"

namespace assay::checkpoint {
namespace {

pid_t start_writer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ASSAY_WRITER_PROCESS);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// The step of the checkpoint at `path`, after checking that its tensor belongs to that step.
int64_t complete_step(const std::string& path) {
  const CheckpointReader reader = CheckpointReader::open(path);
  reader.verify_all();
  SampleTensors expected;
  const int64_t step = reader.state().step;
  expected.add("w", Role::kValue, DType::kF32, {500, 1000}, static_cast<unsigned>(step));
  std::vector<std::byte> data(reader.tensors().at(0).bytes);
  reader.read(reader.tensors()[0], data);
  EXPECT_TRUE(std::ranges::equal(data, expected.records()[0].data));
  return step;
}

class CheckpointCrash : public testing::Test {
 protected:
  CheckpointCrash() : folder_(testing::TempDir() + cat("checkpoint_crash_", getpid())) {
    make_directories(folder_);
  }
  ~CheckpointCrash() override {
    for (const std::string& file : all_files()) remove_file(file);
    rmdir(folder_.c_str());
  }
  std::vector<std::string> all_files() const {
    std::vector<std::string> files = list_files(folder_, "*");
    const std::vector<std::string> hidden = list_files(folder_, ".*.tmp*");
    files.insert(files.end(), hidden.begin(), hidden.end());
    return files;
  }
  std::string folder_;
  std::string path_ = folder_ + "/model.ckpt";
};

TEST_F(CheckpointCrash, SigkillAtRandomMomentsLeavesACompleteFile) {
  ASSERT_EQ(wait_for(start_writer({path_, "1", "1"})), 0);
  ASSERT_EQ(complete_step(path_), 1);
  std::mt19937 random(7);
  int64_t last = 1;
  bool killed_inside_a_save = false;
  // At least 25 kills, and more on a machine so busy that they came before anything was saved.
  for (int round = 0; round < 25 || (round < 300 && !(last > 1 && killed_inside_a_save)); ++round) {
    const pid_t child = start_writer({path_, cat(last + 1), "1000000"});
    usleep(5000 + random() % 60000);
    kill(child, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(wait_for(child)));
    const int64_t step = complete_step(path_);
    ASSERT_GE(step, last);
    last = step;
    killed_inside_a_save |= all_files().size() > 1;
  }
  EXPECT_GT(last, 1) << "no save got through; the test proves nothing";
  EXPECT_TRUE(killed_inside_a_save) << "no kill hit a save; the test proves nothing";
  ASSERT_EQ(wait_for(start_writer({path_, "1", "1"})), 0);
  EXPECT_EQ(all_files().size(), 1u) << "the next save cleans up after the killed ones";
}

TEST_F(CheckpointCrash, FullDiskKeepsTheOldFile) {
  ASSERT_EQ(wait_for(start_writer({path_, "1", "1"})), 0);
  for (const char* limit : {"0", "1", "100", "5000", "1000000", "1999999"}) {
    const int status = wait_for(start_writer({path_, "2", "1", limit}));
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 3) << limit;
    EXPECT_EQ(complete_step(path_), 1) << limit;
    EXPECT_EQ(all_files().size(), 1u) << "the temporary file is left behind, limit " << limit;
  }
}

TEST_F(CheckpointCrash, MissingAndForbiddenFoldersAreNamed) {
  const std::string missing = folder_ + "/nowhere/model.ckpt";
  const Outcome outcome = outcome_of([&] { write_checkpoint(missing, {}, {}); });
  EXPECT_EQ(outcome.code, Code::kNotFound);
  EXPECT_NE(outcome.message.find(folder_ + "/nowhere"), std::string::npos) << outcome.message;
  // A folder where the file should be: the rename fails, and the temporary file goes.
  make_directories(folder_ + "/model.ckpt");
  EXPECT_EQ(outcome_of([&] { write_checkpoint(path_, {}, {}); }).code, Code::kIo);
  EXPECT_EQ(outcome_of([&] { CheckpointReader::open(path_); }).code, Code::kIo);
  rmdir(path_.c_str());
  EXPECT_TRUE(all_files().empty());
}

}  // namespace
}  // namespace assay::checkpoint
