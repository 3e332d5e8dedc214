#include "tools/recipe_run/run/bench_runner.h"

#include <array>
#include <chrono>
#include <numeric>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/run_record/json_file.h"
#include "tools/recipe_run/run_record/machine.h"
#include "tools/recipe_run/run_record/step_log.h"

namespace reciperun {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kFewestSteps = 8;  // fewer carry no noise statistics

struct Task {
  const v1::Bench* bench;
  uint32_t devices;
  uint32_t batch;
  uint32_t repeat;
  fs::path folder;
};

std::vector<Task> open_tasks(const BenchJob& job) {
  std::vector<Task> tasks;
  uint32_t most_repeats = 0;
  for (const v1::Bench& bench : job.record.recipe().bench())
    most_repeats = std::max(most_repeats, bench.repeats());
  for (uint32_t repeat = 1; repeat <= most_repeats; ++repeat) {
    for (const v1::Bench& bench : job.record.recipe().bench()) {
      if (repeat > bench.repeats()) continue;
      const int counts = std::max(bench.devices_size(), 1);
      for (int c = 0; c < counts; ++c) {
        const uint32_t d = bench.devices().empty() ? 1 : bench.devices(c);
        for (const uint32_t batch : bench.batch()) {
          const fs::path folder = job.record.repeat_folder(bench.id(), d, batch, repeat);
          std::error_code ignored;
          const bool done = fs::exists(folder / "result.json", ignored);
          if (d <= job.devices_available && !done)
            tasks.push_back({&bench, d, batch, repeat, folder});
        }
      }
    }
  }
  return tasks;
}

std::string task_title(const Task& task) {
  std::string text = task.bench->mode() == v1::Bench::TRAIN ? "training" : "inference";
  return text + " batch " + std::to_string(task.batch) + ", repeat " + std::to_string(task.repeat);
}

void check_stop(const BenchJob& job) {
  if (job.stop.load()) throw Error(Exit::kInterrupted, "stopped while measuring");
}

// Measures one repeat. `tick` is told the fraction done.
record::BenchRepeat measure(const Task& task, const BenchJob& job, TrainerDriver& driver,
                            const Tick& tick) {
  const v1::Bench& bench = *task.bench;
  const auto session =
      driver.bench(job.record.recipe(), {bench, task.devices, task.batch}, job.checkpoint);
  const auto warm = Clock::now();
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (uint32_t i = 0; i < bench.warmup_steps(); ++i) {
    check_stop(job);
    session->run_batch();
    // A slow configuration must not spend longer warming up than measuring.
    if (bench.max_seconds() > 0 && i >= 2 && seconds_since(warm) > bench.max_seconds() / 2) break;
  }
  record::BenchRepeat out;
  out.set_warmup_seconds(seconds_since(warm));
  const HostWatch host;
  const auto start = Clock::now();
  std::vector<double> seconds;
  while (seconds.size() < bench.measure_steps()) {
    check_stop(job);
    seconds.push_back(session->run_batch());
    const double spent = seconds_since(start);
    if (bench.max_seconds() > 0 && spent > bench.max_seconds() && seconds.size() >= kFewestSteps)
      break;
    tick(static_cast<double>(seconds.size()) / bench.measure_steps());
  }
  const HostWindow window = host.result();
  fs::remove(task.folder / "steps.bin");  // of a repeat that was cut short
  StepLog log(task.folder / "steps.bin", 1, -1);
  for (const double s : seconds) log.append({&s, 1});
  log.sync();
  out.set_items_per_second(
      rate_of(bench.rate(), seconds, static_cast<double>(session->items_per_batch())));
  out.set_steps(static_cast<uint32_t>(seconds.size()));
  out.set_stolen_cpu(window.steal);
  out.set_cgroup_throttled(window.throttled);
  out.set_foreign_cpu(window.foreign_cpu);
  return out;
}

}  // namespace

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

void run_benches(const BenchJob& job, TrainerDriver& driver, Progress& progress) {
  const std::vector<Task> tasks = open_tasks(job);
  if (tasks.empty()) return;
  progress.begin("measuring");
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    const Tick tick = [&](double fraction) {
      progress.update((static_cast<double>(i) + fraction) / static_cast<double>(tasks.size()),
                      task_title(task));
      return true;
    };
    tick(0);
    record::BenchRepeat result;
    try {
      result = measure(task, job, driver, tick);
    } catch (const Error& error) {
      if (error.exit_code() == Exit::kInterrupted) throw;
      result.set_failure(error.what());
      progress.note(task_title(task) + " failed: " + error.what());
    }
    result.set_bench(task.bench->id());
    result.set_devices(task.devices);
    result.set_batch(task.batch);
    result.set_repeat(task.repeat);
    write_json(task.folder / "result.json", result);
  }
  progress.end(std::to_string(tasks.size()) + " measurements done");
}

}  // namespace reciperun
