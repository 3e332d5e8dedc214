// assay-bench-step: times one training step or one inference of a model, as the opponents in peers/
// do, and prints the same line of JSON; with --profile, where the time goes, node by node.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/backend/cuda/loader.h"
#include "sdk/base/philox.h"
#include "sdk/base/version.h"
#include "sdk/comm/mpi.h"
#include "sdk/graph/elementwise.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"

namespace assay::bench {
namespace {

struct Options {
  std::string model = "cnn", config, precision = "fp32", mode = "train", device = "cpu";
  std::string optimizer = "sgd";
  std::optional<int64_t> sequence_length, prediction_slots, tokens;
  int64_t batch = 128;
  int threads = 2;
  int callers = 1;
  int repeats = 30;
  bool json = false;
  bool profile = false;
  bool plan = false;
  bool resident = false;
  bool fed = false;
  bool nondeterministic = false;
  bool rank = false;
};

std::unique_ptr<Backend> make_backend(const Options& o) {
  if (o.device == "cpu") return cpu::make_backend({.threads = o.threads});
  if (o.device == "h200-plan") {
    Target target = Target::h200();
    target.deterministic = !o.nondeterministic;
    return cuda::make_planner(target);
  }
  return cuda::make_backend(
      {.index = std::stoi(o.device.substr(5)), .deterministic = !o.nondeterministic});  // "cuda:0"
}

// A batch of noise that does not change: loading data is not part of a step. Sequences are full
// unless it is said how many `tokens` they have.
struct Batch {
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<int32_t>> labels;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<train::HostTensor> tensors;

  Batch(std::span<const nn::InputSpec> specs, int64_t rows, std::optional<int64_t> tokens = {}) {
    PhiloxStream random(1, 1);
    for (const nn::InputSpec& spec : specs) {
      std::vector<int64_t> sizes{rows};
      sizes.insert(sizes.end(), spec.sample.span().begin(), spec.sample.span().end());
      const Dims dims(sizes);
      if (spec.range) {
        auto& values = labels.emplace_back(dims.numel());
        auto [low, high] = *spec.range;
        if (spec.counts_places) low = tokens.value_or(high - 1), high = low + 1;
        if (tokens && spec.name.ends_with("positions")) high = *tokens;
        for (int32_t& value : values) {
          const auto drawn = static_cast<int64_t>(random.below(static_cast<uint32_t>(high - low)));
          value = static_cast<int32_t>(low + drawn);
        }
        tensors.push_back({spec.dtype, dims, values.data()});
      } else if (spec.dtype == DType::kI32) {  // placements that move nothing
        tensors.push_back({spec.dtype, dims, labels.emplace_back(dims.numel()).data()});
      } else if (spec.dtype == DType::kU8) {
        auto& values = bytes.emplace_back(dims.numel());
        for (uint8_t& value : values) value = static_cast<uint8_t>(random.below(256));
        tensors.push_back({spec.dtype, dims, values.data()});
      } else {
        auto& values = floats.emplace_back(dims.numel());
        for (float& value : values) value = random.uniform(-1, 1);
        tensors.push_back({spec.dtype, dims, values.data()});
      }
    }
  }
};

double milliseconds(const auto& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// At least 3 runs and one second of warm-up, then `repeats` timed runs, sorted. `action` does
// `per_action` runs. Ranks warm up with as many runs, as each waits for the others in every one.
std::vector<double> measure(int repeats, const auto& action, int per_action = 1,
                            bool as_rank = false) {
  constexpr int kWarmRuns = 10;
  double warm = 0;
  for (int i = 0; as_rank ? i < kWarmRuns : i < 3 || warm < 1000; ++i) warm += milliseconds(action);
  std::vector<double> times(static_cast<size_t>(repeats));
  for (double& time : times) time = milliseconds(action) / per_action;
  std::sort(times.begin(), times.end());
  return times;
}

// Of `callers` threads that predict without a pause, each with a slot of its own: sorted times of
// all calls from when each has warmed up until each has done `repeats`.
std::vector<double> measure_callers(const Options& o, const train::Predictor& predictor,
                                    const Batch& batch) {
  constexpr int kWarmRuns = 5;
  std::vector<std::vector<double>> times(static_cast<size_t>(o.callers));
  std::barrier warm(o.callers);
  std::atomic<int> left(o.callers);
  std::vector<std::thread> callers;
  for (auto& mine : times) {
    callers.emplace_back([&] {
      train::PredictorSlot slot(predictor);
      for (int i = 0; i < kWarmRuns; ++i) slot.run(batch.tensors);
      warm.arrive_and_wait();
      while (left > 0) {
        mine.push_back(milliseconds([&] { slot.run(batch.tensors); }));
        if (mine.size() == static_cast<size_t>(o.repeats)) --left;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  std::vector<double> all;
  for (const auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  return all;
}

void print_times(const Options& o, const std::vector<double>& times) {
  const auto quantile = [&](double p) {
    return times[static_cast<size_t>(p * static_cast<double>(times.size() - 1))];
  };
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr const char* kJson =
      R"({"name": "%s/%s/%s/%ld", "peer": "assay", "mode": "graph", "median_ms": %.4f, )"
      R"("p10": %.4f, "p90": %.4f, "p99": %.4f, "callers": %d, "repeats": %zu, "threads": %d, "version": "%s", )"
      R"("max_rss_mib": %ld})"
      "\n";
  constexpr const char* kText =
      "%s/%s/%s/%ld: median %.3f ms, p10 %.3f, p90 %.3f, p99 %.3f "
      "(callers: %d, %zu runs, %d threads, assay %s, %ld MiB)\n";
  std::printf(o.json ? kJson : kText, o.model.c_str(), o.mode.c_str(), o.precision.c_str(), o.batch,
              quantile(0.5), quantile(0.1), quantile(0.9), quantile(0.99), o.callers, times.size(),
              o.threads, std::string(kLibraryVersion).c_str(), usage.ru_maxrss / 1024);
}

// What this machine reaches at best, measured now with the same threads: the roof of the roofline.
struct Roof {
  double flops = 0;  // per second: a matrix product of the step's type
  double bytes = 0;  // per second: an addition too large for the caches
};

// The median of some runs of a graph of one op, in seconds.
double median_seconds(Backend& backend, const Op& op, const ValueType& a, const ValueType& b) {
  const VariableTable none;
  Segments segments(backend, none);
  Graph graph;
  const ValueId x = graph.emit1(Input{"a", a.dtype, a.dims}, {});
  const ValueId w = graph.emit1(Input{"b", b.dtype, b.dims}, {});
  graph.outputs() = {{"y", graph.emit1(op, {x, w})}};
  const auto program = compile(std::move(graph), segments);
  return program->profile(15).at(0).seconds;
}

Roof measure_roof(Backend& backend, DType dtype) {
  constexpr int64_t kSide = 2048;
  constexpr int64_t kElements = int64_t{1} << 25;
  const ValueType matrix{dtype, {kSide, kSide}};
  const ValueType vector{DType::kF32, {kElements}};
  return {
      2.0 * kSide * kSide * kSide / median_seconds(backend, Matmul{.dtype = dtype}, matrix, matrix),
      12.0 * kElements / median_seconds(backend, Pointwise{add_code(), {}}, vector, vector)};
}

bool multiplies_matrices(const ProfileRow& row) {
  return row.op == "matmul" || row.op.starts_with("conv2d") || row.op.starts_with("attention");
}

void print_profile(Program& program, const Roof& roof, int repeats) {
  auto rows = program.profile(repeats);
  // Data that fits the caches may exceed the memory roof: more than 100 %.
  const auto at_roof = [&](const ProfileRow& row) {
    return std::max(row.flops / roof.flops, row.bytes / roof.bytes);
  };
  double total = 0, flops = 0, floor = 0, rest = 0, rest_bytes = 0;
  for (const ProfileRow& row : rows) {
    total += row.seconds, flops += row.flops, floor += at_roof(row);
    if (!multiplies_matrices(row)) rest += row.seconds, rest_bytes += row.bytes;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  std::printf("roof: %.0f GFLOP/s, %.1f GB/s\n", roof.flops * 1e-9, roof.bytes * 1e-9);
  std::printf("%8s %6s %9s %8s %6s  %-22s %-26s %-30s %s\n", "us", "share", "GFLOP/s", "GB/s",
              "roof", "op", "output", "kernel", "scope");
  for (const ProfileRow& row : rows) {
    std::printf("%8.1f %5.1f%% %9.1f %8.1f %5.0f%%  %-22s %-26s %-30s %s\n", row.seconds * 1e6,
                100 * row.seconds / total, row.flops / row.seconds * 1e-9,
                row.bytes / row.seconds * 1e-9, 100 * at_roof(row) / row.seconds, row.op.c_str(),
                row.output.c_str(), row.kernel.c_str(), row.scope.c_str());
  }
  std::printf(
      "at the roof all nodes take %.3f ms; those without matrix products take %.3f ms, "
      "their bytes at the roof %.3f\n",
      floor * 1e3, rest * 1e3, rest_bytes / roof.bytes * 1e3);
  const MemoryReport& memory = program.memory();
  std::printf("sum %.3f ms, %.1f GFLOP/s; arena %.1f MiB (%.1f apart, %.1f at least)\n",
              total * 1e3, flops / total * 1e-9, static_cast<double>(memory.arena_bytes) / 1048576,
              static_cast<double>(memory.separate_bytes) / 1048576,
              static_cast<double>(memory.floor_bytes) / 1048576);
}

// Runs the program on the batch that lies on the device already, as often as keeps the host's
// waiting at the end out of the picture.
std::vector<double> measure_resident(const Options& o, Program& program) {
  constexpr int kRuns = 10;
  const Program::Port& result = program.outputs().front();
  std::vector<std::byte> host(result.type.bytes());
  const auto runs = [&] {
    for (int i = 0; i < kRuns; ++i) program.run();
    program.backend().read(host.data(), result.data, host.size());
  };
  return measure(o.repeats, runs, kRuns);
}

// As mpirun started this process.
std::shared_ptr<Channel> mpi_channel() {
  const auto number = [](const char* variable) {
    const char* const value = std::getenv(variable);
    require(value != nullptr, Code::kInvalid, "--rank is for processes that mpirun starts");
    return std::atoi(value);
  };
  return make_mpi_channel(number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"),
                          std::chrono::minutes(10));
}

void finish(const Options& o, Program& program, const std::vector<double>& times) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (o.rank && std::string_view(rank) != "0") return;
  if (!times.empty()) print_times(o, times);
  if (o.profile && o.device != "h200-plan") {
    const DType dtype = o.precision == "amp-bf16" ? DType::kBf16 : DType::kF32;
    print_profile(program, measure_roof(program.backend(), dtype), o.repeats);
  }
  if (o.plan) std::fputs(program.plan_text().c_str(), stdout);
}

int run(const Options& o) {
  const auto instance = std::make_shared<train::ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(o.model, o.config)),
      std::shared_ptr<Backend>(make_backend(o)));
  const bool plan_only = o.device == "h200-plan";
  const auto specs = instance->model().inputs(nn::Mode::kTrain);
  if (o.mode == "train") {
    train::TrainerConfig config;
    config.batch_size = o.batch;
    config.precision = o.precision;
    config.sequence_length = o.sequence_length;
    config.prediction_slots = o.prediction_slots;
    config.packed = o.tokens.has_value();
    config.optimizer.name = o.optimizer;
    config.optimizer.learning_rate = o.optimizer == "sgd" ? 0.01 : 1e-4;
    if (o.optimizer == "sgd") config.optimizer.momentum = 0.9;
    if (o.fed && specs[0].sample.rank() == 3 && specs[0].sample[2] <= 4)
      config.raw_images.emplace();
    const std::shared_ptr<Channel> channel = o.rank ? mpi_channel() : nullptr;
    train::Trainer trainer(instance, config, channel);
    if (plan_only && !o.tokens) return finish(o, trainer.step_program(), {}), 0;
    const Batch batch(trainer.training_inputs(), o.batch, o.tokens);
    Program& program =
        o.tokens ? trainer.packed_step_program(batch.tensors) : trainer.step_program();
    if (plan_only) return finish(o, program, {}), 0;
    if (o.fed) trainer.prefetch(batch.tensors);
    const auto step = [&] {
      if (o.fed) trainer.prefetch(batch.tensors);
      trainer.step(o.fed ? std::span<const train::HostTensor>() : batch.tensors);
    };
    if (o.resident) step();
    finish(o, program,
           o.resident ? measure_resident(o, program) : measure(o.repeats, step, 1, o.rank));
  } else {
    instance->ensure_initialized(1);
    const train::Predictor predictor(*instance, {.precision = parse_precision(o.precision),
                                                 .sequence_length = o.sequence_length,
                                                 .prediction_slots = o.prediction_slots});
    if (o.callers > 1)
      return print_times(o, measure_callers(o, predictor, Batch(predictor.inputs(), o.batch))), 0;
    train::PredictorSlot slot(predictor);
    if (plan_only) return finish(o, *slot.prepare(o.batch), {}), 0;
    const Batch batch(predictor.inputs(), o.batch);
    Program& program = *slot.prepare(o.batch);
    const Program::Port& result = program.outputs().front();
    std::vector<std::byte> host(result.type.bytes());
    const auto predict = [&] {  // until the result is in host memory, where it has to be copied
      slot.run(batch.tensors);
      if (!program.backend().host_accessible())
        program.backend().read(host.data(), result.data, host.size());
    };
    if (o.resident) predict();
    finish(o, program, o.resident ? measure_resident(o, program) : measure(o.repeats, predict));
  }
  return 0;
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  assay::bench::Options o;
  CLI::App app{
      "Times one training step or one inference.\n\n"
      "  assay-bench-step --model resnet18 --batch 64 --profile"};
  app.add_option("--model", o.model, "cnn, resnet18, resnet50 or another")->capture_default_str();
  app.add_option("--config", o.config, "the model's configuration as JSON, if not the default");
  app.add_option("--precision", o.precision, "fp32, bf16, tf32 or amp-fp16")->capture_default_str();
  app.add_option("--mode", o.mode, "train or infer")
      ->capture_default_str()
      ->check(CLI::IsMember({"train", "infer"}));
  app.add_option("--batch", o.batch, "samples")->capture_default_str();
  app.add_option("--optimizer", o.optimizer, "sgd (with momentum) or adamw")
      ->capture_default_str()
      ->check(CLI::IsMember({"sgd", "adamw"}));
  app.add_option("--sequence-length", o.sequence_length, "of text: tokens of a sample");
  app.add_option("--prediction-slots", o.prediction_slots, "of text: masked words of a sample");
  app.add_option("--tokens", o.tokens,
                 "of text: tokens of a sample that are no padding, which training then leaves out");
  app.add_option("--device", o.device, "cpu, cuda:0 ..., or h200-plan: only the plan for an H200")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "h200-plan"}) |
              CLI::Validator(
                  [](const std::string& text) {
                    const bool ok = text.size() == 6 && text.starts_with("cuda:") &&
                                    text[5] >= '0' && text[5] <= '9';
                    return ok ? std::string() : "no device";
                  },
                  "cuda:N"));
  app.add_flag("--resident", o.resident,
               "the batch lies on the device: neither its upload nor the host's waiting is timed");
  app.add_flag("--nondeterministic", o.nondeterministic,
               "CUDA: also kernels whose sums depend on the order in which they finish");
  app.add_flag("--fed", o.fed,
               "train: batches are prefetched, images as bytes, beside the step before")
      ->excludes("--resident");
  app.add_option("--threads", o.threads, "CPU threads")->capture_default_str();
  app.add_option("--callers", o.callers,
                 "infer: host threads that predict side by side, each with `threads` of the device")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024))
      ->excludes("--resident");
  app.add_option("--repeats", o.repeats, "timed runs, of each caller")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--json", o.json, "one line of JSON");
  app.add_flag("--profile", o.profile,
               "time, GFLOP/s, GB/s and share of the roofline of every node");
  app.add_flag("--plan", o.plan, "the compiled plan as text");
  app.add_flag("--rank", o.rank,
               "train with the other processes that mpirun started; the first prints")
      ->excludes("--resident", "--profile");
  CLI11_PARSE(app, argc, argv);
  try {
    if (o.precision == "bf16") o.precision = "amp-bf16";
    return assay::bench::run(o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "assay-bench-step: %s\n", error.what());
    return 1;
  }
}
