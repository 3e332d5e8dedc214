// What recipe-run needs from an engine. Implemented over the public C ABI; tests implement it with
// a toy.
//
// A driver serves one recipe. Calls come from one thread. Every failure is an Error: kUsage for
// what the recipe asks wrongly, kDataMismatch for data that are missing or not the ones it names,
// kCrashed for the rest (out of memory, disk full), of which Failed for a NaN loss, kInterrupted
// where a Tick said so. Nothing prints.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/common/progress.h"
#include "tools/recipe_run/recipe/data_lock.pb.h"
#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {

using assay::tools::Progress;

// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The A/A probe: the same small piece of work, timed before and after every measurement on what is
// measured. If it takes longer one time than the other, so may everything else, and the machine is
// not fit to measure.

// Seconds of the fastest of as many runs as fit into a fifth of a second: what can be done now,
// short interruptions left out.
double fastest(const std::function<void()>& work);

// Of a fixed matrix product and copy on one thread of this machine.
double probe_seconds();

struct EngineInfo {
  std::string engine;          // name and version, "assay 0.1.0"
  uint32_t devices = 1;        // that one training or bench can use here
  std::string gpu = {};        // "NVIDIA H200"; "" = it computes on the machine's processor
  std::string libraries = {};  // of the GPU, with versions
};

struct StepResult {
  int64_t step = 0;     // updates done, this one included
  int64_t samples = 0;  // training samples seen since the beginning
  double loss = 0;      // mean over the batch, nats; finite
  double learning_rate = 0;
  double seconds = 0;  // wall time: waiting for the batch and computing
};

// Called now and then during long calls with the fraction done; returning false cancels (Error
// kInterrupted).
using Tick = std::function<bool(double fraction)>;

// One training run under way. Same seed, same recipe, same machine: same bits, also across save and
// resume.
class TrainingTrial {
 public:
  virtual ~TrainingTrial() = default;

  virtual int64_t step() const = 0;            // updates done
  virtual int64_t total_steps() const = 0;     // of the whole training
  virtual double steps_per_epoch() const = 0;  // > 0
  virtual uint64_t parameters() const = 0;     // trainable scalars of the model

  // One update (all its accumulated micro-batches).
  virtual StepResult run_step() = 0;

  // The recipe's metrics over the whole evaluation data, and over each of the contiguous shards
  // that the data fall into where several devices share them (none where one evaluates everything);
  // step and epoch are the caller's. What is scored by files, predictions of SQuAD, is left in
  // `folder`. Does not change the training.
  virtual record::Eval evaluate(const fs::path& folder, const Tick& tick) = 0;
  // The names of the metrics that evaluate() tells; none where nothing is evaluated.
  virtual std::vector<std::string> metrics() const = 0;

  // What went between the devices since it was started or resumed; nothing where there is one.
  virtual std::optional<record::Communication> communication() const { return std::nullopt; }

  // Everything a resume needs, in one file: atomic, and on the disk when the call returns.
  virtual void save(const fs::path& file) = 0;

  // Leaves pictures of what the model makes of the evaluation data in `folder`, where that is
  // something to be seen; reports show the PNG files in it. Called once, after the last step.
  virtual void illustrate(const fs::path& folder) { static_cast<void>(folder); }
};

// One bench configuration, ready to be measured. The first batches are the caller's to discard.
class BenchSession {
 public:
  virtual ~BenchSession() = default;
  virtual int64_t items_per_batch() const = 0;  // of the last one that was run or loaded
  // Runs one batch (TRAIN: one update, INFER: one forward pass); seconds of what the bench's
  // timing_span covers, ended by a device synchronisation.
  virtual double run_batch() = 0;

  // The two halves of a batch, each alone, in seconds: to get one from the loader while nothing
  // computes, and to compute on one that is there. 0 where the timed span has no loading in it.
  // Called when the last batch has run: first one of them many times, then the other.
  virtual double load_batch() { return 0; }
  virtual double compute_batch() { return 0; }
};

class TrainerDriver {
 public:
  virtual ~TrainerDriver() = default;
  virtual EngineInfo info() const = 0;

  // Why the recipe cannot run here, as far as can be told at once: a model or a precision that the
  // engine lacks, more devices than there are. "" if nothing is known against it.
  virtual std::string why_not(const v1::Recipe& /*recipe*/) const { return ""; }

  // Whether the engine has a model of the recipe's name.
  virtual bool has_model(const v1::Recipe& /*recipe*/) const { return true; }

  // Fails (kUsage) if the engine has the recipe's model but does not take its hparams, or does not
  // offer what else the recipe asks for. Needs no data.
  virtual void check_offered(const v1::Recipe& /*recipe*/) const {}

  // "" if every data set of the recipe is where it looks for it, else which one is not, and what to
  // do.
  virtual std::string missing_data(const v1::Recipe& /*recipe*/) const { return ""; }

  // What the manifest in a folder says of the data set: name, licence, and the records and content
  // digest of each split. Fails (kDataMismatch) if the folder holds none.
  virtual data::Entry describe_data(const fs::path& folder) const = 0;

  // Everything that can be checked before anything slow: the model builds and has the expected
  // number of parameters, the optimizer and pipeline are known, the data exist and hold the
  // expected number of samples. Returns the number of parameters.
  virtual uint64_t check(const v1::Recipe& recipe) = 0;

  virtual std::unique_ptr<TrainingTrial> start(const v1::Recipe& recipe, uint64_t seed) = 0;
  // Continues from a file of TrainingTrial::save.
  virtual std::unique_ptr<TrainingTrial> resume(const v1::Recipe& recipe, uint64_t seed,
                                                const fs::path& checkpoint) = 0;

  // `task` is of a bench of the recipe. `checkpoint`: weights to serve, "" for fresh ones (timing
  // does not depend on them).
  virtual std::unique_ptr<BenchSession> bench(const v1::Recipe& recipe, const BenchTask& task,
                                              const fs::path& checkpoint) = 0;

  // Where several processes train together: meets the others, and answers whether this one keeps
  // the record and says what is done; if not, it has done its part when this returns. A rank that
  // does not answer for so long is given up.
  virtual bool conducts(const v1::Recipe& /*recipe*/, double /*timeout_seconds*/) { return true; }

  // From now on trials train as on `devices` devices, one after another on the one there is: each
  // virtual rank has its own shard, random streams and batch statistics, gradients are averaged in
  // rank order in the recipe's wire type, and one optimizer step follows. Fails (kUsage) if this
  // engine cannot do that, or not for this recipe.
  virtual void emulate(const v1::Recipe& recipe, uint32_t devices) {
    throw Error(Exit::kUsage,
                info().engine + " cannot emulate " + std::to_string(devices) + " devices for '" +
                    recipe.id() + "'",
                "without --emulate-devices the rows published for one device can be run");
  }

  // The A/A probe: seconds of a fixed piece of work on the device that measures, the best of a
  // fifth of a second.
  virtual double probe();
};

}  // namespace reciperun
