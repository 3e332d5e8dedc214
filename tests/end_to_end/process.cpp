#include "tests/end_to_end/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace end_to_end {
namespace {

using Clock = std::chrono::steady_clock;

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// In the child, between fork and exec: system calls only.
[[noreturn]] void become(char* const* argv, int out, int err, int64_t largest_file) {
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (largest_file > 0) {
    std::signal(SIGXFSZ, SIG_IGN);  // ignored across exec: writes then fail with EFBIG
    const rlimit limit{static_cast<rlim_t>(largest_file), static_cast<rlim_t>(largest_file)};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& words, const fs::path& folder,
                 int64_t largest_file)
    : out_(folder / "stdout"), err_(folder / "stderr") {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int out = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const int err = open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  child_ = fork();
  if (child_ == 0) become(argv.data(), out, err, largest_file);
  close(out);
  close(err);
  if (child_ < 0) throw std::runtime_error("cannot start " + words[0]);
}

Process::~Process() {
  if (child_ < 0) return;
  signal(SIGKILL);
  waitpid(child_, nullptr, 0);
}

bool Process::running() {
  int status = 0;
  if (child_ >= 0 && waitpid(child_, &status, WNOHANG) == child_) collect(status);
  return child_ >= 0;
}

void Process::signal(int number) {
  if (child_ >= 0) kill(child_, number);
}

Ended Process::wait(std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  while (running()) {
    if (Clock::now() > end) signal(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ended_;
}

void Process::collect(int status) {
  child_ = -1;
  if (WIFEXITED(status)) ended_.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended_.signal = WTERMSIG(status);
  ended_.out = content_of(out_);
  ended_.err = content_of(err_);
}

}  // namespace end_to_end
