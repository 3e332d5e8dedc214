// The loop of a trial: steps, evaluations and checkpoints, in an order that survives being killed.
#include "tools/recipe_run/run/trial_runner.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/tensorboard.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr int64_t kStepsPerEvent = 50;

// One trial being trained.
class TrialRunner {
 public:
  TrialRunner(const TrialJob& job, TrainerDriver& driver, Progress& progress)
      : job_(job), driver_(driver), progress_(progress), events_(job.folder / "events.jsonl") {}

  record::TrialMetrics run() {
    open();
    const EvaluationTimes times(job_.recipe.evaluation().when(), trial_->steps_per_epoch(),
                                trial_->total_steps(), job_.recipe.evaluation().first_epoch());
    StepLog steps(job_.folder / "steps.bin", kTrialColumns, static_cast<double>(state_.step()));
    if (job_.tensorboard)
      board_.emplace(job_.folder / "tensorboard", state_.step(), state_.segments());
    last_checkpoint_ = Stopwatch();
    evaluate_if_due(times, steps);  // an evaluation that was stopped is made up for
    while (trial_->step() < trial_->total_steps()) {
      const StepResult result = trial_->run_step();
      samples_ = result.samples;
      record(result, steps);
      evaluate_if_due(times, steps);
      const bool is_due = job_.recipe.training().checkpoint_every_steps() > 0 &&
                          result.step % job_.recipe.training().checkpoint_every_steps() == 0;
      const bool stop = job_.stop.load();
      if (stop || is_due || last_checkpoint_.seconds() > job_.checkpoint_seconds) checkpoint(steps);
      if (stop)
        throw Error(Exit::kInterrupted,
                    fmt::format("stopped in {} at step {}", job_.title, result.step));
    }
    checkpoint(steps);
    trial_->illustrate(job_.folder / "pictures");
    if (board_) board_->write_pictures(trial_->step(), job_.folder / "pictures");
    return finish();
  }

 private:
  void open() {
    const fs::path state_file = job_.folder / "state.json";
    if (is_there(state_file)) {
      read_json(state_file, state_);
      if (state_.exec_digest() != job_.exec_digest || state_.seed() != job_.seed) {
        throw Error(Exit::kTampered,
                    "'" + state_file.string() + "' belongs to another recipe or seed");
      }
      const fs::path checkpoint = job_.folder / state_.checkpoint();
      trial_ = driver_.resume(job_.recipe, job_.seed, checkpoint);
      if (trial_->step() != state_.step())
        throw Error(Exit::kTampered,
                    fmt::format("checkpoint '{}' stands at step {}, state.json at {}",
                                checkpoint.string(), trial_->step(), state_.step()));
    } else {
      state_.set_seed(job_.seed);
      state_.set_exec_digest(job_.exec_digest);
      trial_ = driver_.start(job_.recipe, job_.seed);
    }
    state_.set_segments(state_.segments() + 1);
    segment_ = Stopwatch();
    before_ = state_.active_seconds();
    events_.write_durably(
        event(state_.segments() > 1 ? "resume" : "trial", "seed", static_cast<double>(job_.seed)));
  }

  double epoch() const { return static_cast<double>(trial_->step()) / trial_->steps_per_epoch(); }

  record::Event event(const std::string& kind, const std::string& key, double value,
                      const std::string& unit = "1") const {
    record::Event out;
    out.set_kind(kind);
    out.set_key(key);
    out.set_value(value);
    out.set_unit(unit);
    out.set_epoch(epoch());
    out.set_step(static_cast<uint32_t>(trial_->step()));
    out.set_samples(static_cast<double>(samples_));
    return out;
  }

  void record(const StepResult& result, StepLog& steps) {
    const std::array<double, kTrialColumns> row = {static_cast<double>(result.step), epoch(),
                                                   result.loss, result.learning_rate,
                                                   result.seconds};
    steps.append(row);
    if (board_) {
      board_->write(result.step, {{"train/loss", result.loss},
                                  {"train/learning_rate", result.learning_rate},
                                  {"train/seconds", result.seconds},
                                  {"train/epoch", epoch()}});
    }
    smooth_loss_ = smooth_loss_ < 0 ? result.loss : 0.98 * smooth_loss_ + 0.02 * result.loss;
    if (result.step % kStepsPerEvent == 0)
      events_.write(event("step_block", "loss", smooth_loss_, "nats"));
    progress_.update(
        static_cast<double>(result.step) / static_cast<double>(trial_->total_steps()),
        fmt::format("epoch {}, loss {}{}", fixed(epoch(), 1), fixed(smooth_loss_, 3), headline_));
  }

  bool evaluated() const {
    return state_.eval_size() > 0 && state_.eval(state_.eval_size() - 1).step() == trial_->step();
  }

  void evaluate_if_due(const EvaluationTimes& times, StepLog& steps) {
    if (trial_->step() == 0 || !times.due(trial_->step()) || evaluated()) return;
    record::Eval& eval = *state_.add_eval() = evaluate(steps);
    eval.set_step(trial_->step());
    eval.set_epoch(epoch());
    const std::map<std::string, double> found(eval.metric().begin(), eval.metric().end());
    for (const auto& [name, value] : found) events_.write(event("eval", name, value));
    if (board_) {
      std::map<std::string, double> tagged;
      for (const auto& [name, value] : found) tagged["eval/" + name] = value;
      board_->write(trial_->step(), tagged);
    }
    if (job_.recipe.evaluation().metric().empty()) return;
    const std::string& name = job_.recipe.evaluation().metric(0);
    if (found.contains(name)) headline_ = fmt::format(", {} {}", name, fixed(found.at(name), 4));
    // Written before the state that knows of the evaluation: who resumes from the state before
    // comes here again, with the same bits.
    if (job_.recipe.evaluation().select() == v1::Evaluation::BEST_OVER_EVALS &&
        &selected() == &state_.eval(state_.eval_size() - 1))
      trial_->save(job_.folder / "best");
  }

  // A stop ends it after the batch under way; the steps trained so far are kept.
  record::Eval evaluate(StepLog& steps) {
    progress_.phase(fmt::format("{}, evaluating after step {}", job_.title, trial_->step()));
    try {
      record::Eval found = trial_->evaluate(job_.folder, [&](double fraction) {
        progress_.update(fraction, "");
        return !job_.stop.load();
      });
      progress_.phase(job_.title);
      return found;
    } catch (const Error& error) {
      if (error.exit_code() == Exit::kInterrupted) checkpoint(steps);
      throw;
    }
  }

  // Order matters: steps and checkpoint reach the disk before the state that names them, and the
  // checkpoint that the old state names stays until then. Whenever the process dies, state.json
  // points at a whole checkpoint of its own step.
  void checkpoint(StepLog& steps) {
    steps.sync();
    const std::string name = "checkpoint-" + std::to_string(trial_->step());
    trial_->save(job_.folder / name);
    state_.set_step(trial_->step());
    state_.set_checkpoint(name);
    state_.set_active_seconds(before_ + segment_.seconds());
    write_json(job_.folder / "state.json", state_);
    remove_other_checkpoints(name);
    events_.write_durably(event("ckpt", "step", static_cast<double>(trial_->step())));
    last_checkpoint_ = Stopwatch();
  }

  void remove_other_checkpoints(const std::string& keep) const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(job_.folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("checkpoint-", 0) == 0 && name != keep) fs::remove_all(entry.path(), ignored);
    }
  }

  record::TrialMetrics finish() {
    record::TrialMetrics out;
    out.set_seed(job_.seed);
    out.set_train_seconds(state_.active_seconds());
    out.set_segments(state_.segments());
    out.set_steps(trial_->total_steps());
    out.set_steps_per_epoch(trial_->steps_per_epoch());
    *out.mutable_eval() = state_.eval();
    *out.mutable_metric() = selected().metric();
    if (const auto communication = trial_->communication())
      *out.mutable_communication() = *communication;
    add_best_and_last(*out.mutable_metric());
    events_.write_durably(event("trial", "finished", out.train_seconds(), "s"));
    return out;
  }

  static bool better(const std::string& name, double a, double b) {
    const bool lower = name.find("loss") != std::string::npos;
    return lower ? a < b : a > b;
  }

  static double value_of(const record::Eval& eval, const std::string& name) {
    const auto found = eval.metric().find(name);
    if (found != eval.metric().end()) return found->second;
    throw Error(Exit::kUsage, "evaluation.metric: the evaluation did not measure '" + name + "'");
  }

  // The evaluation the recipe reports: the last, or the best by its first metric.
  const record::Eval& selected() const {
    const record::Eval* best = &state_.eval(state_.eval_size() - 1);
    if (job_.recipe.evaluation().select() != v1::Evaluation::BEST_OVER_EVALS ||
        job_.recipe.evaluation().metric().empty()) {
      return *best;
    }
    const std::string& name = job_.recipe.evaluation().metric(0);
    for (const record::Eval& eval : state_.eval()) {
      if (better(name, value_of(eval, name), value_of(*best, name))) best = &eval;
    }
    return *best;
  }

  // Whatever the recipe reports, both readings of "the accuracy of a run" are kept: "top1.last" of
  // the last evaluation, and "top1.best" over all of them, each metric on its own.
  void add_best_and_last(google::protobuf::Map<std::string, double>& metrics) const {
    const record::Eval& last = state_.eval(state_.eval_size() - 1);
    for (const auto& [name, value] : last.metric()) {
      double best = value;
      for (const record::Eval& eval : state_.eval()) {
        if (better(name, value_of(eval, name), best)) best = value_of(eval, name);
      }
      metrics[name + ".last"] = value;
      metrics[name + ".best"] = best;
    }
  }

  const TrialJob& job_;
  TrainerDriver& driver_;
  Progress& progress_;
  EventLog events_;
  std::optional<TensorBoardLog> board_;
  record::TrialState state_;
  std::unique_ptr<TrainingTrial> trial_;
  Stopwatch segment_, last_checkpoint_;
  double before_ = 0;
  double smooth_loss_ = -1;
  int64_t samples_ = 0;  // seen in this segment's last step
  std::string headline_;
};

// "3 min 20 s, top1 0.9339 (best 0.9351, last 0.9339)".
std::string result_text(const v1::Recipe& recipe, const record::TrialMetrics& metrics) {
  const auto& values = metrics.metric();
  std::string text = metrics.failure().empty() ? duration_text(metrics.train_seconds())
                                               : "failed: " + metrics.failure();
  for (const std::string& name : recipe.evaluation().metric()) {
    if (!values.contains(name)) continue;
    text += fmt::format(", {} {}", name, fixed(values.at(name), 4));
    if (!values.contains(name + ".best")) continue;
    const double best = values.at(name + ".best"), last = values.at(name + ".last");
    if (best != last) text += fmt::format(" (best {}, last {})", fixed(best, 4), fixed(last, 4));
  }
  return text;
}

}  // namespace

EvaluationTimes::EvaluationTimes(const std::string& when, double steps_per_epoch,
                                 int64_t total_steps, double first_epoch)
    : first_(first_epoch * steps_per_epoch), total_(total_steps) {
  if (when.empty() || when == "end") return;
  double number = 0;
  const char* begin = when.data() + 6;
  const char* end = when.data() + when.size();
  const bool prefixed = when.rfind("every:", 0) == 0;
  const char* rest = prefixed ? std::from_chars(begin, end, number).ptr : begin;
  const std::string unit = prefixed ? std::string(rest, end) : "";
  require(number > 0 && (unit == "epoch" || unit == "step"),
          "evaluation.when '" + when + "' is not understood", "end, every:2epoch or every:500step");
  every_ = unit == "epoch" ? number * steps_per_epoch : number;
}

bool EvaluationTimes::due(int64_t step) const {
  if (step == total_) return true;
  const double tolerance = 1e-9;
  if (every_ <= 0 || static_cast<double>(step) + tolerance < first_) return false;
  // A multiple of the period lies in (step - 1, step].
  return std::floor(static_cast<double>(step) / every_ + tolerance) >
         std::floor(static_cast<double>(step - 1) / every_ + tolerance);
}

void run_trial(const TrialJob& job, TrainerDriver& driver, Progress& progress) {
  const fs::path result = job.folder / "metrics.json";
  if (is_there(result)) return;
  record::TrialMetrics metrics;
  create_folders(job.folder);
  progress.begin(job.title);
  try {
    metrics = TrialRunner(job, driver, progress).run();
  } catch (const Failed& error) {
    metrics.set_seed(job.seed);
    metrics.set_failure(error.what());
  }
  write_json(result, metrics);
  progress.end(result_text(job.recipe, metrics));
}

}  // namespace reciperun
