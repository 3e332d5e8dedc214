#include "tools/recipe_run/run/bench_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/run/gpu_watch.h"
#include "tools/recipe_run/run_record/json_file.h"
#include "tools/recipe_run/run_record/machine.h"
#include "tools/recipe_run/run_record/step_log.h"
#include "tools/recipe_run/statistics/noise.h"

namespace reciperun {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kFewestSteps = 8;    // fewer carry no noise statistics
constexpr size_t kSettledSteps = 20;  // that show whether the warm-up is over
constexpr size_t kStepsAlone = 24;    // most of loading alone, and of computing alone

fs::path folder_of(const RunRecord& record, const BenchTask& t) {
  return record.repeat_folder(t.bench, t.devices, t.batch, t.repeat);
}

std::string configuration_of(const BenchTask& t) {
  std::string text = "bench " + t.bench + ", batch " + std::to_string(t.batch);
  return t.devices > 1 ? text + ", " + std::to_string(t.devices) + " devices" : text;
}

std::string title_of(const BenchTask& t) {
  return configuration_of(t) + ", repeat " + std::to_string(t.repeat);
}

void check_stop(const std::atomic<bool>& stop) {
  if (stop.load()) throw Error(Exit::kInterrupted, "stopped while measuring");
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of the warm-up steps: as many as the bench says, and up to as many again while the last
// twenty become faster or slower.
double warm_up(BenchSession& session, const v1::Bench& bench, const std::atomic<bool>& stop) {
  const auto start = Clock::now();
  std::vector<double> steps;
  const auto still_moves = [&] {
    return steps.size() >= kSettledSteps && steps.size() < 2 * size_t{bench.warmup_steps()} &&
           has_trend(std::span(steps).last(kSettledSteps));
  };
  while (steps.size() < bench.warmup_steps() || still_moves()) {
    check_stop(stop);
    steps.push_back(session.run_batch());
    // A slow configuration must not spend longer warming up than measuring.
    if (bench.max_seconds() > 0 && steps.size() > 2 &&
        seconds_since(start) > bench.max_seconds() / 2)
      break;
  }
  return seconds_since(start);
}

std::vector<double> time_steps(BenchSession& session, const v1::Bench& bench,
                               const std::atomic<bool>& stop, const Tick& tick) {
  const auto start = Clock::now();
  std::vector<double> seconds;
  while (seconds.size() < bench.measure_steps()) {
    check_stop(stop);
    seconds.push_back(session.run_batch());
    if (bench.max_seconds() > 0 && seconds_since(start) > bench.max_seconds() &&
        seconds.size() >= kFewestSteps)
      break;
    tick(static_cast<double>(seconds.size()) / bench.measure_steps());
  }
  return seconds;
}

// Items per second of one half of a batch alone; 0 if it has none. What was loaded ahead comes out
// of the queue at once, and fills it while the first steps compute: the first half of the batches
// does not count.
double rate_alone(BenchSession& session, double (BenchSession::*half)(), const v1::Bench& bench,
                  const std::atomic<bool>& stop) {
  const size_t most = std::clamp<size_t>(bench.measure_steps(), kFewestSteps, kStepsAlone);
  const auto start = Clock::now();
  std::vector<double> seconds;
  while (seconds.size() < most) {
    check_stop(stop);
    seconds.push_back((session.*half)());
    if (seconds.back() == 0) return 0;
    const bool late = bench.max_seconds() > 0 && seconds_since(start) > bench.max_seconds();
    if (late && seconds.size() >= kFewestSteps) break;
  }
  const std::span<const double> counted = std::span(seconds).subspan(seconds.size() / 2);
  const double items =
      static_cast<double>(counted.size()) * static_cast<double>(session.items_per_batch());
  return items / std::accumulate(counted.begin(), counted.end(), 0.0);
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
             const std::string& device, const fs::path& folder, const std::atomic<bool>& stop,
             const Tick& tick, record::BenchRepeat& out) {
  out.set_warmup_seconds(warm_up(session, bench, stop));
  const double before = driver.probe();
  GpuWatch gpu(device);
  const HostWatch host;
  const std::vector<double> seconds = time_steps(session, bench, stop, tick);
  const HostWindow window = host.result();
  set_gpu_window(gpu.result(), device, out);
  out.set_probe_before(before);
  out.set_probe_after(driver.probe());
  write_steps(folder, seconds);
  out.set_items_per_second(
      rate_of(bench.rate(), seconds, static_cast<double>(session.items_per_batch())));
  out.set_steps(static_cast<uint32_t>(seconds.size()));
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
        if (devices > devices_available) continue;
        for (const uint32_t batch : bench.batch()) {
          const BenchTask task{bench.id(), devices, batch, repeat};
          std::error_code ignored;
          if (!fs::exists(folder_of(record, task) / "result.json", ignored)) tasks.push_back(task);
        }
      }
    }
  }
  return tasks;
}

void measure_repeat(const RunRecord& record, const BenchTask& task, const fs::path& checkpoint,
                    TrainerDriver& driver, const std::atomic<bool>& stop, const Tick& tick) {
  const v1::Bench* bench = find_bench(record.recipe(), task.bench);
  if (bench == nullptr)
    throw Error(Exit::kUsage, "the recipe of this run has no bench '" + task.bench + "'");
  const fs::path folder = folder_of(record, task);
  create_folders(folder);
  record::BenchRepeat result;
  try {
    const auto session =
        driver.bench(record.recipe(), {*bench, task.devices, task.batch}, checkpoint);
    measure(*bench, driver, *session, record.place().device, folder, stop, tick, result);
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

double rate_of(v1::Bench::Rate rate, std::span<const double> step_seconds, double items_per_batch) {
  const double n = static_cast<double>(step_seconds.size());
  if (rate == v1::Bench::MEAN_OF_STEP_RATES) {
    double sum = 0;
    for (const double s : step_seconds) sum += items_per_batch / s;
    return sum / n;
  }
  const auto time_of = [](std::span<const double> part) {
    return std::accumulate(part.begin(), part.end(), 0.0);
  };
  if (rate == v1::Bench::HARMONIC_MEAN_OF_SEGMENTS && step_seconds.size() >= 2) {
    // Two halves, as the published tables have two epochs.
    const size_t half = step_seconds.size() / 2;
    const double a =
        static_cast<double>(half) * items_per_batch / time_of(step_seconds.first(half));
    const double b =
        (n - static_cast<double>(half)) * items_per_batch / time_of(step_seconds.subspan(half));
    return 2 / (1 / a + 1 / b);
  }
  return n * items_per_batch / time_of(step_seconds);
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
  progress.end(left.empty()
                   ? std::to_string(tasks.size()) + " measurements done"
                   : std::to_string(left.size()) + " configurations could not be measured");
  if (first_failure) throw *first_failure;
}

}  // namespace reciperun
