// Warm-up, timed steps and the two halves of a batch, each repeat here or in a process of its own.
#include "tools/recipe_run/run/bench_runner.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/machine.h"
#include "tools/recipe_run/run/gpu_watch.h"
#include "tools/recipe_run/stats/noise.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

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
  if (failed != 0)
    throw Error(Exit::kCrashed,
                fmt::format("cannot start '{}' to measure: {}", words[0], std::strerror(failed)));
  return pid;
}

// Waits, calling `tick` with the share of the expected time; ends the process when `stop` is set.
int wait_for(pid_t pid, double expected_seconds, const std::atomic<bool>& stop, const Tick& tick) {
  const Stopwatch watch;
  int status = 0;
  bool told = false;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (stop.load() && !told) {
      kill(pid, SIGTERM);
      told = true;
    }
    tick(std::min(0.98, watch.seconds() / expected_seconds));
    std::this_thread::sleep_for(kPoll);
  }
  return status;
}

// What a process said last: its first line is the error, a second one the hint.
Error error_of(int status, const fs::path& errors) {
  if (WIFSIGNALED(status)) {
    return {Exit::kCrashed,
            fmt::format("the measuring process was ended by signal {}", WTERMSIG(status)),
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
    const fs::path folder = record.repeat_folder(task);
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
    const Stopwatch watch;
    const int status =
        wait_for(start(words, errors), known == seconds->end() ? 10 : known->second, stop, tick);
    if (stop.load()) throw Error(Exit::kInterrupted, "stopped while measuring");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw error_of(status, errors);
    (*seconds)[configuration] = watch.seconds();
    std::error_code ignored;
    fs::remove(errors, ignored);
  };
}

namespace {

constexpr size_t kFewestSteps = 8;    // fewer carry no noise statistics
constexpr size_t kSettledSteps = 20;  // that show whether the warm-up is over
constexpr size_t kStepsAlone = 24;    // most of loading alone, and of computing alone

std::string configuration_of(const BenchTask& t) {
  return fmt::format("bench {}, batch {}{}", t.bench, t.batch,
                     t.devices > 1 ? fmt::format(", {} devices", t.devices) : "");
}

std::string title_of(const BenchTask& t) {
  return fmt::format("{}, repeat {}", configuration_of(t), t.repeat);
}

void check_stop(const std::atomic<bool>& stop) {
  if (stop.load()) throw Error(Exit::kInterrupted, "stopped while measuring");
}

// Seconds of the warm-up steps: as many as the bench says, and up to as many again while the last
// twenty become faster or slower.
double warm_up(BenchSession& session, const v1::Bench& bench, const std::atomic<bool>& stop) {
  const Stopwatch watch;
  std::vector<double> steps;
  const auto still_moves = [&] {
    return steps.size() >= kSettledSteps && steps.size() < 2 * size_t{bench.warmup_steps()} &&
           has_trend(std::span(steps).last(kSettledSteps));
  };
  while (steps.size() < bench.warmup_steps() || still_moves()) {
    check_stop(stop);
    steps.push_back(session.run_batch());
    // A slow configuration must not spend longer warming up than measuring.
    if (bench.max_seconds() > 0 && steps.size() > 2 && watch.seconds() > bench.max_seconds() / 2)
      break;
  }
  return watch.seconds();
}

struct Steps {
  std::vector<double> seconds, items;
  void add(double time, int64_t n) {
    seconds.push_back(time);
    items.push_back(static_cast<double>(n));
  }
};

Steps time_steps(BenchSession& session, const v1::Bench& bench, const std::atomic<bool>& stop,
                 const Tick& tick) {
  const Stopwatch watch;
  Steps steps;
  std::vector<double>& seconds = steps.seconds;
  while (seconds.size() < bench.measure_steps()) {
    check_stop(stop);
    const double time = session.run_batch();
    steps.add(time, session.items_per_batch());
    if (bench.max_seconds() > 0 && watch.seconds() > bench.max_seconds() &&
        seconds.size() >= kFewestSteps)
      break;
    tick(static_cast<double>(seconds.size()) / bench.measure_steps());
  }
  return steps;
}

// Items per second of one half of a batch alone; 0 if it has none. What was loaded ahead comes out
// of the queue at once, and fills it while the first steps compute: the first half of the batches
// does not count.
double rate_alone(BenchSession& session, double (BenchSession::*half)(), const v1::Bench& bench,
                  const std::atomic<bool>& stop) {
  const size_t most = std::clamp<size_t>(bench.measure_steps(), kFewestSteps, kStepsAlone);
  const Stopwatch watch;
  Steps steps;
  std::vector<double>& seconds = steps.seconds;
  while (seconds.size() < most) {
    check_stop(stop);
    const double time = (session.*half)();
    if (time == 0) return 0;
    steps.add(time, session.items_per_batch());
    const bool late = bench.max_seconds() > 0 && watch.seconds() > bench.max_seconds();
    if (late && seconds.size() >= kFewestSteps) break;
  }
  const size_t first = seconds.size() / 2;
  return rate_of(v1::Bench::ITEMS_OVER_TIME, std::span(seconds).subspan(first),
                 std::span(steps.items).subspan(first));
}

void write_steps(const fs::path& folder, const std::vector<double>& seconds) {
  fs::remove(folder / "steps.bin");  // of a repeat that was cut short
  StepLog log(folder / "steps.bin", 1, -1);
  for (const double s : seconds) log.append({&s, 1});
  log.sync();
}

void set_gpu_window(const GpuWindow& window, const std::string& device, record::BenchRepeat& out) {
  if (device == "cpu") return;
  out.set_gpu_unwatched(window.unwatched);
  if (window.clock_drop >= 0) out.set_gpu_clock_drop(window.clock_drop);
  if (window.power_capped >= 0) out.set_gpu_power_capped(window.power_capped);
  if (window.slowed >= 0) out.set_gpu_slowed(window.slowed);
  if (window.foreign >= 0) out.set_gpu_foreign(window.foreign);
}

void measure(const v1::Bench& bench, TrainerDriver& driver, BenchSession& session,
             const std::string& device, uint32_t devices, const fs::path& folder,
             const std::atomic<bool>& stop, const Tick& tick, record::BenchRepeat& out) {
  out.set_warmup_seconds(warm_up(session, bench, stop));
  const double before = driver.probe();
  GpuWatch gpu(device);
  const HostWatch host(devices > 1);
  const Steps steps = time_steps(session, bench, stop, tick);
  const HostWindow window = host.result();
  set_gpu_window(gpu.result(), device, out);
  out.set_probe_before(before);
  out.set_probe_after(driver.probe());
  write_steps(folder, steps.seconds);
  out.set_items_per_second(rate_of(bench.rate(), steps.seconds, steps.items));
  out.set_steps(static_cast<uint32_t>(steps.seconds.size()));
  out.set_stolen_cpu(window.steal);
  out.set_cgroup_throttled(window.throttled);
  out.set_foreign_cpu(window.foreign_cpu);
  out.set_cpu_pressure(window.pressure);
  out.set_load_items_per_second(rate_alone(session, &BenchSession::load_batch, bench, stop));
  out.set_compute_items_per_second(rate_alone(session, &BenchSession::compute_batch, bench, stop));
}

}  // namespace

std::vector<BenchTask> open_bench_tasks(const RunRecord& record, uint32_t devices_available) {
  std::vector<BenchTask> tasks;
  const auto& benches = record.recipe().bench();
  uint32_t most_repeats = 0;
  for (const v1::Bench& bench : benches) most_repeats = std::max(most_repeats, bench.repeats());
  for (uint32_t repeat = 1; repeat <= most_repeats; ++repeat) {
    for (const v1::Bench& bench : benches) {
      if (repeat > bench.repeats()) continue;
      for (int c = 0; c < std::max(bench.devices_size(), 1); ++c) {
        const uint32_t devices = bench.devices().empty() ? 1 : bench.devices(c);
        if (devices > 1 && devices != devices_available) continue;  // one device is always there
        for (const uint32_t batch : bench.batch()) {
          const BenchTask task{bench.id(), devices, batch, repeat};
          if (!record.has_result(task)) tasks.push_back(task);
        }
      }
    }
  }
  return tasks;
}

void measure_repeat(const RunRecord& record, const BenchTask& task, const fs::path& checkpoint,
                    TrainerDriver& driver, const std::atomic<bool>& stop, const Tick& tick) {
  const v1::Bench* bench = find_bench(record.recipe(), task.bench);
  require(bench != nullptr, "the recipe of this run has no bench '" + task.bench + "'");
  const fs::path folder = record.repeat_folder(task);
  create_folders(folder);
  record::BenchRepeat result;
  try {
    const auto session = driver.bench(record.recipe(), task, checkpoint);
    measure(*bench, driver, *session, record.place().device, task.devices, folder, stop, tick,
            result);
  } catch (const Failed& error) {
    result.Clear();
    result.set_failure(error.what());
  }
  result.set_bench(task.bench);
  result.set_devices(task.devices);
  result.set_batch(task.batch);
  result.set_repeat(task.repeat);
  write_json(folder / "result.json", result);
}

double rate_of(v1::Bench::Rate rate, std::span<const double> step_seconds,
               std::span<const double> step_items) {
  const size_t n = step_seconds.size();
  if (rate == v1::Bench::MEAN_OF_STEP_RATES) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += step_items[i] / step_seconds[i];
    return sum / static_cast<double>(n);
  }
  const auto rate_between = [&](size_t first, size_t end) {
    const auto sum = [&](std::span<const double> of) {
      return std::accumulate(of.begin() + static_cast<std::ptrdiff_t>(first),
                             of.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
    };
    return sum(step_items) / sum(step_seconds);
  };
  if (rate == v1::Bench::HARMONIC_MEAN_OF_SEGMENTS && n >= 2) {
    // Two halves, as the published tables have two epochs.
    return 2 / (1 / rate_between(0, n / 2) + 1 / rate_between(n / 2, n));
  }
  return rate_between(0, n);
}

void run_benches(const std::vector<BenchTask>& tasks, const MeasureRepeat& measure,
                 const std::atomic<bool>& stop, Progress& progress) {
  if (tasks.empty()) return;
  progress.begin("measuring");
  std::optional<Error> first_failure;
  std::set<std::string> left;  // configurations that cannot be measured now
  for (size_t i = 0; i < tasks.size(); ++i) {
    const BenchTask& task = tasks[i];
    if (left.contains(configuration_of(task))) continue;
    check_stop(stop);
    const Tick tick = [&](double fraction) {
      progress.update((static_cast<double>(i) + fraction) / static_cast<double>(tasks.size()),
                      title_of(task));
      return true;
    };
    tick(0);
    try {
      measure(task, tick);
    } catch (const Error& error) {
      if (error.exit_code() == Exit::kInterrupted) throw;
      left.insert(configuration_of(task));
      progress.note(title_of(task) + ": " + error.what());
      if (!first_failure) first_failure = error;
    }
  }
  progress.end(left.empty() ? fmt::format("{} measurements done", tasks.size())
                            : fmt::format("{} configurations could not be measured", left.size()));
  if (first_failure) throw *first_failure;
}

}  // namespace reciperun
