#include "sdk/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/harness/error_of.h"

namespace assay {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "assay_file_test_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(FileTest, AtomicWriteAndRead) {
  write_file_atomic(at("x"), "hello");
  EXPECT_EQ(read_file(at("x")), "hello");
  write_file_atomic(at("x"), "again");
  EXPECT_EQ(read_file(at("x")), "again");
  write_file_atomic(at("empty"), "");
  EXPECT_EQ(read_file(at("empty")), "");
}

TEST_F(FileTest, UncommittedFileLeavesNothing) {
  write_file_atomic(at("x"), "old");
  {
    AtomicFile file(at("x"));
    file.write("new");
    EXPECT_TRUE(path_exists(file.file().path()));
  }
  EXPECT_EQ(read_file(at("x")), "old");
  EXPECT_THAT(list_files(folder_, ".*tmp*"), IsEmpty());
}

TEST_F(FileTest, FailedCommitLeavesNothing) {
  make_directories(at("x/inner"));
  const Error error = error_of([&] { write_file_atomic(at("x"), "new"); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_EQ(error.message(), "writing " + at("x") + ": Is a directory");
  EXPECT_THAT(list_files(folder_, ".*tmp*"), IsEmpty());
}

TEST_F(FileTest, LinksStayLinks) {
  make_directories(at("store"));
  write_file_atomic(at("store/x"), "old");
  std::filesystem::create_symlink("store/x", at("there"));
  std::filesystem::create_symlink(at("there"), at("there and there"));
  std::filesystem::create_symlink("store/new", at("nowhere yet"));
  write_file_atomic(at("there and there"), "new");
  write_file_atomic(at("nowhere yet"), "first");
  EXPECT_EQ(read_file(at("store/x")), "new");
  EXPECT_EQ(read_file(at("store/new")), "first");
  for (const std::string name : {"there", "there and there", "nowhere yet"})
    EXPECT_TRUE(std::filesystem::is_symlink(at(name))) << name;
  std::filesystem::create_symlink("no/folder", at("broken"));
  const Error error = error_of([&] { write_file_atomic(at("broken"), "x"); });
  EXPECT_EQ(error.message(), "creating " + at("broken") + ": No such file or directory");
  std::filesystem::create_symlink("circle", at("circle"));
  EXPECT_EQ(error_of([&] { write_file_atomic(at("circle"), "x"); }).detail().native_code, ELOOP);
}

TEST_F(FileTest, OnlyRegularFilesAreReplaced) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", at("link"));
  for (const std::string& path : {at("pipe"), at("link"), std::string("/dev/null")}) {
    const Error error = error_of([&] { write_file_atomic(path, "x"); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_EQ(error.message(), "writing " + path + ": path is a device, pipe or socket, expected " +
                                   "a regular file, or a name that is still free");
  }
  EXPECT_TRUE(std::filesystem::is_fifo(at("pipe")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(FileTest, TheLongestNamesWork) {
  const std::string path = at(std::string(255, 'n'));
  write_file_atomic(path, "x");
  EXPECT_EQ(read_file(path), "x");
  EXPECT_EQ(
      error_of([&] { write_file_atomic(at(std::string(256, 'n')), "x"); }).detail().native_code,
      ENAMETOOLONG);
}

TEST_F(FileTest, ErrorsOfAtomicFilesNameTheTarget) {
  const std::string path = at("nowhere/x");
  const Error error = error_of([&] { write_file_atomic(path, "new"); });
  EXPECT_EQ(error.message(), "creating " + path + ": No such file or directory");
  EXPECT_EQ(error.detail().argument, path);
}

TEST_F(FileTest, FullDiskIsAnErrorWithItsNumber) {
  File file = File::create("/dev/full");
  const Error error = error_of([&] { file.write("x", 1); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_EQ(error.detail().domain, Domain::kErrno);
  EXPECT_EQ(error.detail().native_code, ENOSPC);
  EXPECT_THAT(error.message(), HasSubstr("/dev/full"));
}

// The file size limit makes the system accept the first part of a write and refuse the rest, as a
// filling disk does.
TEST_F(FileTest, ShortWriteIsContinuedUntilRefused) {
  const std::string old(1000, 'o');
  write_file_atomic(at("x"), old);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{2500, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Error error = error_of([&] { write_file_atomic(at("x"), std::string(5000, 'n')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.detail().native_code, EFBIG);
  EXPECT_EQ(error.message(), "writing " + at("x") + ": File too large");
  EXPECT_EQ(read_file(at("x")), old);
  EXPECT_THAT(list_files(folder_, ".*tmp*"), IsEmpty());
}

// Killed writers leave their files and no lock on them; those of others stay.
TEST_F(FileTest, StaleTemporariesAreThoseWithoutALock) {
  AtomicFile live(at("x"));
  live.write("half");
  const std::string stale = at(".x.tmp-0123456789abcdef"), other = at(".x.tmp-notes");
  for (const std::string& path : {stale, other}) File::create(path);
  ASSERT_EQ(::symlink(at("nowhere").c_str(), at(".x.tmp-fedcba9876543210").c_str()), 0);
  remove_stale_temporaries(at("x"));
  EXPECT_FALSE(path_exists(stale));
  EXPECT_TRUE(path_exists(other));
  live.commit();
  EXPECT_EQ(read_file(at("x")), "half");
}

TEST_F(FileTest, WritersOfOneFileDoNotShareATemporary) {
  AtomicFile first(at("x")), second(at("x"));
  first.write("first");
  second.write("second");
  first.commit();
  EXPECT_EQ(read_file(at("x")), "first");
  second.commit();
  EXPECT_EQ(read_file(at("x")), "second");
  EXPECT_THAT(list_files(folder_, ".*tmp*"), IsEmpty());
}

TEST_F(FileTest, MissingFileIsNotFound) {
  const Error error = error_of([&] { read_file(at("nothing")); });
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr(at("nothing")));
}

TEST_F(FileTest, FolderInsteadOfFile) {
  EXPECT_EQ(error_of([&] { read_file(folder_); }).detail().native_code, EISDIR);
}

TEST_F(FileTest, PositionalReads) {
  write_file_atomic(at("x"), "0123456789");
  const File file = File::open_read(at("x"));
  EXPECT_EQ(file.size(), 10u);
  char bytes[8] = {};
  file.read_exact_at(bytes, 3, 4);
  EXPECT_EQ(std::string(bytes), "456");
  EXPECT_EQ(file.read_at(bytes, 8, 7), 3u);
  EXPECT_EQ(file.read_at(bytes, 8, 70), 0u);
  const Error error = error_of([&] { file.read_exact_at(bytes, 8, 7); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("ends at byte 10"));
}

TEST_F(FileTest, ReadFileHoldsItsLimit) {
  write_file_atomic(at("x"), "0123456789");
  EXPECT_EQ(read_file(at("x"), 10), "0123456789");
  EXPECT_EQ(error_of([&] { read_file(at("x"), 9); }).code(), Code::kFormat);
  EXPECT_EQ(error_of([&] { read_file("/dev/zero", 1000); }).code(), Code::kFormat);
}

TEST_F(FileTest, Directories) {
  make_directories(at("a/b/c"));
  make_directories(at("a/b/c"));
  make_directories(at("d/"));
  EXPECT_TRUE(is_directory(at("a/b/c")));
  EXPECT_TRUE(is_directory(at("d")));
  write_file_atomic(at("file"), "x");
  EXPECT_EQ(error_of([&] { make_directories(at("file/x")); }).code(), Code::kIo);
  EXPECT_FALSE(path_exists(at("file/x")));
}

TEST_F(FileTest, FolderLockIsExclusiveUntilReleased) {
  {
    const File lock = File::lock_folder(folder_, "testing");
    const Error error = error_of([&] { File::lock_folder(folder_, "testing"); });
    EXPECT_EQ(error.code(), Code::kBusy);
    EXPECT_THAT(error.message(), HasSubstr(folder_));
  }
  EXPECT_NO_THROW(File::lock_folder(folder_, "testing"));
}

TEST_F(FileTest, ListsSorted) {
  for (const char* name : {"b.rec", "a.rec", "c.txt", ".hidden.rec"})
    write_file_atomic(at(name), name);
  make_directories(at("inner"));
  EXPECT_THAT(list_files(folder_, "*.rec"), ElementsAre(at("a.rec"), at("b.rec")));
  EXPECT_THAT(list_files(folder_, ".*.rec"), ElementsAre(at(".hidden.rec")));
  EXPECT_THAT(list_files(folder_, "*.nothing"), IsEmpty());
  const FolderListing listing = list_folder(folder_);
  EXPECT_THAT(listing.files, ElementsAre("a.rec", "b.rec", "c.txt"));
  EXPECT_THAT(listing.folders, ElementsAre("inner"));
  EXPECT_EQ(error_of([&] { list_files(at("missing"), "*"); }).code(), Code::kNotFound);
  EXPECT_EQ(error_of([&] { list_folder(at("missing")); }).code(), Code::kNotFound);
  EXPECT_EQ(error_of([&] { list_folder(at("a.rec")); }).detail().native_code, ENOTDIR);
}

TEST_F(FileTest, FoldersMayHaveAnyName) {
  for (const char* name : {"run [3]", "a*", "who?", "back\\slash"}) {
    make_directories(at(name));
    const std::string file = join_path(at(name), "x.rec");
    write_file_atomic(file, "x");
    EXPECT_THAT(list_files(at(name), "*.rec"), ElementsAre(file));
  }
}

TEST_F(FileTest, Remove) {
  write_file_atomic(at("x"), "x");
  remove_file(at("x"));
  remove_file(at("x"));
  EXPECT_FALSE(path_exists(at("x")));
}

TEST(Path, Parts) {
  EXPECT_EQ(join_path("a/b", "c"), "a/b/c");
  EXPECT_EQ(join_path("a/", "c"), "a/c");
  EXPECT_EQ(join_path("", "c"), "c");
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(file_name("a/b"), "b");
  EXPECT_EQ(file_name("a/b/"), "b");
  EXPECT_EQ(file_name("b"), "b");
}

}  // namespace
}  // namespace assay
