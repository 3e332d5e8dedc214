// What this machine is, read from /proc, /sys and the cgroup: captured, never typed.
#pragma once

#include <filesystem>

#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/stats/noise.h"

namespace reciperun {

// `root` stands for "/" in tests. Unreadable facts stay empty.
record::Machine capture_machine(const std::filesystem::path& root = "/");

// Digest of what must be equal for two timings to be comparable.
std::string machine_digest(const record::Machine& machine);

// "Intel(R) Xeon(R) ..., 2 of 2 threads, 8 GiB"; where a GPU computes, "NVIDIA H200, Intel(R) ..."
std::string machine_title(const record::Machine& machine);

// Watches what the host takes away between construction and result().
class HostWatch {
 public:
  // With `siblings`, other processes of this one's parent are not foreign: ranks on this machine.
  explicit HostWatch(bool siblings = false, std::filesystem::path root = "/");
  HostWindow result() const;

 private:
  struct Counters {
    double seconds = 0;   // monotonic
    double steal = -1;    // of all CPUs, in CPU seconds
    double busy = -1;     // non-idle of all CPUs
    double own = 0;       // of this process, and its siblings
    double periods = -1;  // cgroup periods, and those throttled
    double throttled = -1;
    double waiting = -1;  // seconds in which some thread waited for a CPU
    int cpus = 1;
  };
  Counters read() const;
  double siblings_seconds() const;
  bool siblings_;
  std::filesystem::path root_;
  Counters start_;
};

}  // namespace reciperun
