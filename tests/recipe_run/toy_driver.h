// An engine for tests of recipe-run: its whole training state is one number, moved by each step in
// a way that depends on all steps before it, so that a resume that loses anything shows.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>

#include "tools/recipe_run/run/trainer.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {

struct Toy {
  int64_t total = 40;
  std::atomic<bool>* stop = nullptr;
  int64_t stop_at = -1;   // sets *stop after this step of any trial
  int64_t crash_at = -1;  // raises Killed at this step, as a killed process ends: nothing is saved
  uint64_t nan_seed = 0;  // this seed's training fails
  bool no_data = false;
  std::string refused_model;  // what the engine says against the hparams
  std::string missing_data;   // there is no folder of a data set
  std::string why_not;        // it cannot run here
  bool has_model = true;
  int evaluations = 0;
  int evaluated_batches = 0;
  int stop_in_evaluation = -1;  // sets *stop in the third batch of this evaluation
  int starts = 0;
  int resumes = 0;
  int batches = 0;
  uint32_t devices = 1;
  std::string device;  // that the driver was made for
  std::string gpu;
  bool disk_full = false;                        // benches of batch 8 cannot be measured now
  double noise = 0.001;                          // relative, of the accuracies
  double probe_seconds = 0.001;                  // of the A/A probe
  int shards = 0;                                // of an evaluation
  double load_seconds = 0, compute_seconds = 0;  // of a batch's halves alone
  bool emulates = false;
  uint32_t emulated = 0;
};

struct Killed {};

class ToyTrial : public TrainingTrial {
 public:
  ToyTrial(Toy& toy, uint64_t seed) : toy_(toy), seed_(seed), weight_(static_cast<double>(seed)) {}
  int64_t step() const override { return step_; }
  int64_t total_steps() const override { return toy_.total; }
  double steps_per_epoch() const override { return 10; }
  uint64_t parameters() const override { return 1; }
  StepResult run_step() override {
    if (seed_ == toy_.nan_seed && step_ == 5) throw Failed("loss is NaN at step 6");
    if (step_ + 1 == toy_.crash_at) throw Killed{};
    ++step_;
    weight_ = std::sin(weight_ * 1.7) + 0.1 * static_cast<double>(step_);
    if (step_ == toy_.stop_at) *toy_.stop = true;
    return {step_, step_ * 32, 2.0 / static_cast<double>(step_) + 0.01 * std::abs(weight_), 0.1,
            0.001};
  }
  record::Eval evaluate(const fs::path&, const Tick& tick) override {
    ++toy_.evaluations;
    for (int batch = 1; batch <= 10; ++batch) {
      ++toy_.evaluated_batches;
      if (toy_.evaluations == toy_.stop_in_evaluation && batch == 3) *toy_.stop = true;
      if (!tick(batch / 10.0)) throw Error(Exit::kInterrupted, "stopped while evaluating");
    }
    const double accuracy = 0.93 + toy_.noise * std::sin(weight_);
    record::Eval out;
    (*out.mutable_metric())["accuracy"] = accuracy;
    (*out.mutable_metric())["loss"] = 0.2;
    for (int i = 0; i < toy_.shards; ++i) {
      const double apart = toy_.noise * (2 * i - toy_.shards + 1);  // no difference to the mean
      record::Shard& shard = *out.add_shard();
      shard.set_samples(100);
      (*shard.mutable_metric())["accuracy"] = accuracy + apart;
      (*shard.mutable_metric())["loss"] = 0.2;
    }
    return out;
  }
  std::vector<std::string> metrics() const override { return {"accuracy", "loss"}; }
  void save(const fs::path& file) override {
    std::string bytes(24, '\0');
    std::memcpy(bytes.data(), &step_, 8);
    std::memcpy(bytes.data() + 8, &weight_, 8);
    std::memcpy(bytes.data() + 16, &seed_, 8);
    write_file_atomic(file, bytes);
  }
  void load(const fs::path& file) {
    const std::string bytes = read_file(file);
    std::memcpy(&step_, bytes.data(), 8);
    std::memcpy(&weight_, bytes.data() + 8, 8);
  }

 private:
  Toy& toy_;
  uint64_t seed_;
  int64_t step_ = 0;
  double weight_;
};

class ToyBench : public BenchSession {
 public:
  ToyBench(Toy& toy, uint32_t batch) : toy_(toy), batch_(batch) {}
  int64_t items_per_batch() const override { return batch_; }
  double run_batch() override { return 0.001 * batch_ * (1 + 0.001 * (++toy_.batches % 7)); }
  // The first of them come out of a full queue.
  double load_batch() override { return toy_.load_seconds * batch_ * (++loaded_ > 4 ? 1 : 0.01); }
  double compute_batch() override { return toy_.compute_seconds * batch_; }

 private:
  Toy& toy_;
  uint32_t batch_;
  int loaded_ = 0;
};

class ToyDriver : public TrainerDriver {
 public:
  explicit ToyDriver(Toy& toy) : toy_(toy) {}
  EngineInfo info() const override { return {"toy 1.0", toy_.devices, toy_.gpu, ""}; }
  std::string why_not(const v1::Recipe&) const override { return toy_.why_not; }
  bool has_model(const v1::Recipe&) const override { return toy_.has_model; }
  void check_offered(const v1::Recipe&) const override {
    if (!toy_.refused_model.empty()) throw Error(Exit::kUsage, toy_.refused_model);
  }
  std::string missing_data(const v1::Recipe&) const override { return toy_.missing_data; }
  // A manifest of the toy: the text of train.txt is its records' digest.
  data::Entry describe_data(const fs::path& folder) const override {
    if (!fs::exists(folder / "train.txt"))
      throw Error(Exit::kDataMismatch, folder.string() + " holds no data set");
    data::Entry out;
    out.set_dataset("toy");
    data::Split& train = *out.add_split();
    train.set_name("train");
    train.set_samples(read_file(folder / "train.txt").size());
    train.set_content_sha256(read_file(folder / "train.txt"));
    return out;
  }
  uint64_t check(const v1::Recipe&) override {
    if (toy_.no_data) throw Error(Exit::kDataMismatch, "there is no data");
    return 1'000'000;
  }
  std::unique_ptr<TrainingTrial> start(const v1::Recipe&, uint64_t seed) override {
    ++toy_.starts;
    return std::make_unique<ToyTrial>(toy_, seed);
  }
  std::unique_ptr<TrainingTrial> resume(const v1::Recipe&, uint64_t seed,
                                        const fs::path& checkpoint) override {
    ++toy_.resumes;
    auto trial = std::make_unique<ToyTrial>(toy_, seed);
    trial->load(checkpoint);
    return trial;
  }
  std::unique_ptr<BenchSession> bench(const v1::Recipe&, const BenchTask& task,
                                      const fs::path&) override {
    if (task.batch == 13) throw Failed("does not fit into memory");
    if (task.batch == 8 && toy_.disk_full) throw Error(Exit::kCrashed, "the disk is full");
    return std::make_unique<ToyBench>(toy_, task.batch);
  }
  void emulate(const v1::Recipe& recipe, uint32_t devices) override {
    if (!toy_.emulates) TrainerDriver::emulate(recipe, devices);
    toy_.emulated = devices;
  }
  double probe() override { return toy_.probe_seconds; }

 private:
  Toy& toy_;
};

}  // namespace reciperun
