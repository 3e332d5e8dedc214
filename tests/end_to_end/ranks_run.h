// recipe-run as the ranks of mpirun, on the small recipe made one of two devices.
#pragma once

#include <signal.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/end_to_end/small_run.h"

namespace end_to_end {

inline const char* const kMpirun = "/usr/bin/mpirun";
inline const std::vector<std::string> kTwoDevices = {"--set", "topology.devices_per_node=2",
                                                     "--set", "topology.parallel=data"};

class Ranks : public SmallRun {
 protected:
  void SetUp() override {
    if (!fs::exists(kMpirun)) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
  }

  static std::vector<std::string> with(std::vector<std::string> words,
                                       const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> ranks(int n, const std::string& runs,
                                 const std::vector<std::string>& more = {}) const {
    // Open MPI does not free what its plug-ins hold, and closes them before a leak could be told.
    return with({"/usr/bin/env", "LSAN_OPTIONS=detect_leaks=0", kMpirun, "--allow-run-as-root",
                 "--oversubscribe", "-np", std::to_string(n)},
                command(runs, with(kTwoDevices, more)));
  }
  Ended run_ranks(const std::string& runs, const std::vector<std::string>& more = {}) const {
    return Process(ranks(2, runs, more), at("")).wait();
  }

  // Processes of recipe-run on these runs that mpirun started as a rank.
  std::vector<pid_t> processes(const std::string& runs, const std::string& rank) const {
    std::vector<pid_t> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const auto text = [&](const char* name) {
        std::ifstream file(entry.path() / name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
      };
      if (!text("cmdline").starts_with(ASSAY_RECIPE_RUN)) continue;
      if (text("cmdline").find("--runs=" + at(runs).string()) == std::string::npos) continue;
      if (text("environ").find("OMPI_COMM_WORLD_RANK=" + rank) != std::string::npos)
        found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
  }
  // Whether there was one.
  bool signal_rank(const std::string& runs, const std::string& rank, int number) const {
    const std::vector<pid_t> found = processes(runs, rank);
    for (const pid_t process : found) kill(process, number);
    return !found.empty();
  }
};

}  // namespace end_to_end
