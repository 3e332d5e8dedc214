// A child process that a test starts, watches and kills.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace end_to_end {

namespace fs = std::filesystem;

struct Ended {
  int code = -1;    // exit code; -1 when a signal ended it
  int signal = 0;   // the signal that ended it, else 0
  std::string out;  // all of its stdout
  std::string err;  // all of its stderr
};

class Process {
 public:
  // Starts `words` (the first is the program's path), with its output going to files below
  // `folder`. `largest_file`: bytes that no file it writes may exceed, as on a full disk; 0 = no
  // limit.
  Process(const std::vector<std::string>& words, const fs::path& folder, int64_t largest_file = 0);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running();  // has not ended yet
  void signal(int number);
  // Its end. After the limit it is killed, which the result then shows.
  Ended wait(std::chrono::seconds limit = std::chrono::minutes(2));

 private:
  void collect(int status);

  pid_t child_ = -1;
  fs::path out_, err_;
  Ended ended_;
};

}  // namespace end_to_end
