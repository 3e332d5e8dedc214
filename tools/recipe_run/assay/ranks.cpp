// A command is a line: what to do, and with what. Who conducts says it, the others listen; then all
// do the same, which is where trainers and evaluators of several ranks meet.
#include "tools/recipe_run/assay/ranks.h"

#include <fmt/core.h>

#include <algorithm>
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

// The first line in which two texts differ: "conv: 8, and that conv: 16".
std::string difference_of(std::string_view own, std::string_view other) {
  const auto lines = [](std::string_view text) { return split(text, '\n'); };
  const auto a = lines(own), b = lines(other);
  const auto [mine, theirs] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto shown = [](auto at, auto end) {
    const size_t begin = at == end ? std::string::npos : at->find_first_not_of(' ');
    return begin == std::string::npos ? "nothing more" : at->substr(begin);
  };
  return fmt::format("{}, and that {}", shown(mine, a.end()), shown(theirs, b.end()));
}

class ConductedTrial : public TrainingTrial {
 public:
  ConductedTrial(const RankGroup& ranks, const MakeTrial& make, uint64_t seed,
                 const fs::path& checkpoint)
      : ranks_(ranks) {
    tell(fmt::format("begin {} {}", seed, checkpoint.string()));
    own_ = ranks_.together([&] { return make(seed, checkpoint); });
  }
  int64_t step() const override { return own_->step(); }
  int64_t total_steps() const override { return own_->total_steps(); }
  double steps_per_epoch() const override { return own_->steps_per_epoch(); }
  uint64_t parameters() const override { return own_->parameters(); }
  std::vector<std::string> metrics() const override { return own_->metrics(); }
  void illustrate(const fs::path& folder) override { own_->illustrate(folder); }
  std::optional<record::Communication> communication() const override {
    return own_->communication();
  }

  StepResult run_step() override {
    tell("step");
    return ranks_.together([&] { return own_->run_step(); });
  }
  record::Eval evaluate(const fs::path& folder, const Tick& tick) override {
    tell("evaluate");
    return ranks_.together([&] { return own_->evaluate(folder, tick); });
  }
  void save(const fs::path& file) override {
    tell("save " + file.string());
    ranks_.together([&] { own_->save(file); });
  }

 private:
  void tell(const std::string& command) const { ranks_.gather(command); }

  const RankGroup& ranks_;
  std::unique_ptr<TrainingTrial> own_;
};

class ConductedBench : public BenchSession {
 public:
  ConductedBench(const RankGroup& ranks, const MakeBench& make, const std::string& bench,
                 uint32_t batch)
      : ranks_(ranks) {
    tell(fmt::format("bench {} {}", batch, bench));
    own_ = ranks_.together([&] { return make(bench, batch); });
  }
  int64_t items_per_batch() const override { return own_->items_per_batch() * ranks_.world(); }
  double run_batch() override { return told("batch", &BenchSession::run_batch); }
  double load_batch() override { return told("load", &BenchSession::load_batch); }
  double compute_batch() override { return told("compute", &BenchSession::compute_batch); }

 private:
  void tell(const std::string& command) const { ranks_.gather(command); }
  double told(const char* command, double (BenchSession::*what)()) {
    tell(command);
    return ranks_.together([&] { return ((*own_).*what)(); });
  }

  const RankGroup& ranks_;
  std::unique_ptr<BenchSession> own_;
};

// The word before the first space, and what stands behind it.
std::pair<std::string, std::string> first_word(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {text, ""};
  return {text.substr(0, space), text.substr(space + 1)};
}

// What the first rank has begun, here.
class Follower {
 public:
  Follower(const MakeTrial& make_trial, const MakeBench& make_bench)
      : make_trial_(make_trial), make_bench_(make_bench) {}

  void obey(const std::string& command, const std::string& with) {
    if (command == "begin" || command == "bench")
      begin(command, with);
    else if (trial_ != nullptr)
      train(command, with);
    else if (bench_ != nullptr)
      measure(command);
    else
      throw Error(Exit::kCrashed, "the first rank goes on with what is over here");
  }
  // What has failed here, as it has for the first rank, too.
  void forget() { trial_.reset(), bench_.reset(); }

 private:
  void begin(const std::string& command, const std::string& with) {
    const auto [number, text] = first_word(with);
    forget();  // before the next one takes its memory
    if (command == "begin")
      trial_ = make_trial_(std::stoull(number), text);
    else
      bench_ = make_bench_(text, static_cast<uint32_t>(std::stoul(number)));
  }
  void train(const std::string& command, const std::string& with) {
    if (command == "step")
      trial_->run_step();
    else if (command == "evaluate")
      trial_->evaluate({}, [](double) { return true; });
    else
      trial_->save(with);
  }
  void measure(const std::string& command) {
    if (command == "batch")
      bench_->run_batch();
    else if (command == "load")
      bench_->load_batch();
    else
      bench_->compute_batch();
  }

  const MakeTrial& make_trial_;
  const MakeBench& make_bench_;
  std::unique_ptr<TrainingTrial> trial_;
  std::unique_ptr<BenchSession> bench_;
};

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

void require_known_launcher() {
  const auto all = number_of("WORLD_SIZE");
  require(
      rank_of_process().world > 1 || !number_of("RANK") || all.value_or(1) < 2,
      fmt::format("RANK and WORLD_SIZE say that this is one of {} processes, as torchrun starts "
                  "them; they can only train together when Open MPI connects them",
                  all.value_or(1)),
      fmt::format("mpirun -np {} recipe-run ..., or srun --mpi=pmix; to train alone, unset "
                  "WORLD_SIZE",
                  all.value_or(1)));
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
        fmt::format("rank {} has another recipe, other data or other options than rank 0: this has "
                    "{}",
                    rank, difference_of(all[0], all[rank])),
        "start every rank with the same command, on the same files, by the same paths");
}

std::vector<std::string> RankGroup::gather(const std::string& mine) const {
  const Struct report = report_of(Exit::kCrashed, assay_comm_gather, comm_.get(), text(mine));
  std::vector<std::string> all;
  for (const auto& value : assay::tools::at(report, "texts").list_value().values())
    all.push_back(value.string_value());
  return all;
}

// A loss that is no number is one on every rank; an interrupt is the first rank's, whose words all
// hear.
bool RankGroup::is_everywhere(const std::exception& error) {
  if (dynamic_cast<const TooLarge*>(&error) != nullptr) return false;
  if (dynamic_cast<const Failed*>(&error) != nullptr) return true;
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr && known->exit_code() == Exit::kInterrupted;
}

void RankGroup::abort() const { assay_comm_abort(comm_.get(), nullptr); }

std::unique_ptr<TrainingTrial> conducted_trial(const RankGroup& ranks, const MakeTrial& make,
                                               uint64_t seed, const fs::path& checkpoint) {
  return std::make_unique<ConductedTrial>(ranks, make, seed, checkpoint);
}

std::unique_ptr<BenchSession> conducted_bench(const RankGroup& ranks, const MakeBench& make,
                                              const std::string& bench, uint32_t batch) {
  return std::make_unique<ConductedBench>(ranks, make, bench, batch);
}

void follow(const RankGroup& ranks, const MakeTrial& make_trial, const MakeBench& make_bench) {
  Follower follower(make_trial, make_bench);
  for (;;) {
    const auto told = first_word(ranks.gather("")[0]);
    if (told.first == "end") return;
    try {
      ranks.together([&] { follower.obey(told.first, told.second); });
    } catch (const TooLarge&) {
      throw;
    } catch (const Failed&) {
      follower.forget();
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
