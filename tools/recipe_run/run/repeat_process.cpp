#include "tools/recipe_run/run/repeat_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(20);

// Starts `words` with its stderr in `errors`.
pid_t start(const std::vector<std::string>& words, const fs::path& errors) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Error(Exit::kCrashed,
                "cannot start '" + words[0] + "' to measure: " + std::strerror(failed));
  }
  return pid;
}

// Waits, calling `tick` with the share of the expected time; ends the process when `stop` is set.
int wait_for(pid_t pid, double expected_seconds, const std::atomic<bool>& stop, const Tick& tick) {
  const auto begin = Clock::now();
  int status = 0;
  bool told = false;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (stop.load() && !told) {
      kill(pid, SIGTERM);
      told = true;
    }
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    tick(std::min(0.98, elapsed / expected_seconds));
    std::this_thread::sleep_for(kPoll);
  }
  return status;
}

// What a process said last: its first line is the error, a second one the hint.
Error error_of(int status, const fs::path& errors) {
  if (WIFSIGNALED(status)) {
    return {Exit::kCrashed,
            "the measuring process was ended by signal " + std::to_string(WTERMSIG(status)),
            "signal 9 is often the system running out of memory; the same command measures what is "
            "missing"};
  }
  std::string said = read_file(errors);
  if (const size_t end = said.find('\n'); end != std::string::npos) said.resize(end);
  const std::string prefix = "recipe-run: ";
  if (said.starts_with(prefix)) said.erase(0, prefix.size());
  return {static_cast<Exit>(WEXITSTATUS(status)),
          said.empty() ? "the measuring process failed without a word" : said};
}

}  // namespace

MeasureRepeat in_own_process(const fs::path& program, const RunRecord& record,
                             const fs::path& checkpoint, const std::atomic<bool>& stop) {
  // Of the last repeat of each configuration: how long the next one will take.
  auto seconds = std::make_shared<std::map<std::string, double>>();
  return [=, &stop](const BenchTask& task, const Tick& tick) {
    const fs::path folder = record.repeat_folder(task.bench, task.devices, task.batch, task.repeat);
    create_folders(folder);
    const fs::path errors = folder / "stderr.log";
    std::vector<std::string> words = {program.string(),
                                      "bench-repeat",
                                      record.folder().string(),
                                      "--bench",
                                      task.bench,
                                      "--devices",
                                      std::to_string(task.devices),
                                      "--batch",
                                      std::to_string(task.batch),
                                      "--repeat",
                                      std::to_string(task.repeat)};
    if (!checkpoint.empty()) words.insert(words.end(), {"--checkpoint", checkpoint.string()});
    const std::string configuration = folder.parent_path().filename().string();
    const auto known = seconds->find(configuration);
    const auto begin = Clock::now();
    const int status =
        wait_for(start(words, errors), known == seconds->end() ? 10 : known->second, stop, tick);
    if (stop.load()) throw Error(Exit::kInterrupted, "stopped while measuring");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw error_of(status, errors);
    (*seconds)[configuration] = std::chrono::duration<double>(Clock::now() - begin).count();
    std::error_code ignored;
    fs::remove(errors, ignored);
  };
}

}  // namespace reciperun
