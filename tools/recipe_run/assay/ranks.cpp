// A command is a line: what to do, and with what. Who conducts says it, the others listen; then all
// do the same, which is where trainers and evaluators of several ranks meet.
#include "tools/recipe_run/assay/ranks.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {
namespace {

std::optional<uint32_t> number_of(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

class ConductedTrial : public TrainingTrial {
 public:
  ConductedTrial(const RankGroup& ranks, const MakeTrial& make, uint64_t seed,
                 const fs::path& checkpoint)
      : ranks_(ranks) {
    tell(fmt::format("begin {} {}", seed, checkpoint.string()));
    own_ = make(seed, checkpoint);
  }
  int64_t step() const override { return own_->step(); }
  int64_t total_steps() const override { return own_->total_steps(); }
  double steps_per_epoch() const override { return own_->steps_per_epoch(); }
  uint64_t parameters() const override { return own_->parameters(); }
  std::vector<std::string> metrics() const override { return own_->metrics(); }
  void illustrate(const fs::path& folder) override { own_->illustrate(folder); }

  StepResult run_step() override {
    tell("step");
    return own_->run_step();
  }
  record::Eval evaluate(const fs::path& folder, const Tick& tick) override {
    tell("evaluate");
    return own_->evaluate(folder, tick);
  }
  void save(const fs::path& file) override {
    tell("save " + file.string());
    own_->save(file);
  }

 private:
  void tell(const std::string& command) const { ranks_.gather(command); }

  const RankGroup& ranks_;
  std::unique_ptr<TrainingTrial> own_;
};

// The word before the first space, and what stands behind it.
std::pair<std::string, std::string> first_word(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {text, ""};
  return {text.substr(0, space), text.substr(space + 1)};
}

// What a command makes of a trial that has failed, as it has for the first rank, too.
void obey(const std::string& command, const std::string& with, const MakeTrial& make,
          std::unique_ptr<TrainingTrial>& trial) {
  if (command == "begin") {
    const auto [seed, checkpoint] = first_word(with);
    trial.reset();  // before the next one takes its memory
    trial = make(std::stoull(seed), checkpoint);
  } else if (trial == nullptr) {
    throw Error(Exit::kCrashed, "the first rank goes on with a trial that is over here");
  } else if (command == "step") {
    trial->run_step();
  } else if (command == "evaluate") {
    trial->evaluate({}, [](double) { return true; });
  } else {
    trial->save(with);
  }
}

}  // namespace

RankPlace rank_of_process() {
  constexpr const char* kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank, world] : kVariables) {
    const auto own = number_of(rank), all = number_of(world);
    if (own && all && *own < *all) return {*own, *all};
  }
  return {};
}

RankGroup::RankGroup(const assay_context* context, const RankPlace& place, double timeout_seconds,
                     const std::string& recipe)
    : place_(place) {
  assay_comm_id id{};
  call(Exit::kNotRun, assay_comm_new_id, text("mpi"), &id);
  comm_ =
      made<Comm>(Exit::kNotRun, assay_comm_create, context, &id, static_cast<int32_t>(place.rank),
                 static_cast<int32_t>(place.world), static_cast<int64_t>(timeout_seconds * 1e9));
  const std::vector<std::string> all = gather(recipe);
  for (size_t rank = 1; rank < all.size(); ++rank)
    require(
        all[rank] == all[0],
        fmt::format("rank {} has another recipe, other data or other options than rank 0", rank),
        "start every rank with the same command, on the same files");
}

std::vector<std::string> RankGroup::gather(const std::string& mine) const {
  const Struct report = report_of(Exit::kCrashed, assay_comm_gather, comm_.get(), text(mine));
  std::vector<std::string> all;
  for (const auto& value : assay::tools::at(report, "texts").list_value().values())
    all.push_back(value.string_value());
  return all;
}

std::unique_ptr<TrainingTrial> conducted_trial(const RankGroup& ranks, const MakeTrial& make,
                                               uint64_t seed, const fs::path& checkpoint) {
  return std::make_unique<ConductedTrial>(ranks, make, seed, checkpoint);
}

void follow(const RankGroup& ranks, const MakeTrial& make) {
  std::unique_ptr<TrainingTrial> trial;
  for (;;) {
    const auto [command, with] = first_word(ranks.gather("")[0]);
    if (command == "end") return;
    try {
      obey(command, with, make, trial);
    } catch (const Failed&) {  // a loss that is no number is one on every rank
      trial.reset();
    } catch (const Error& error) {
      if (error.exit_code() != Exit::kInterrupted) throw;  // the first rank was told to stop
    }
  }
}

void dismiss(const RankGroup& ranks) noexcept {
  try {
    ranks.gather("end");
  } catch (const std::exception&) {
  }
}

}  // namespace reciperun::engine
