// Writes the files of a run, finds them again, and reads what was measured back out of them.
#include "tools/recipe_run/record/run_folder.h"

#include <fmt/core.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/machine.h"
#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/stats/looks.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

constexpr uint32_t kRunSchema = 2;

std::string utc_text(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

std::vector<fs::path> sorted_folders(const fs::path& parent) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (entry.is_directory()) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// What this one repeat says about the machine's quiet.
std::vector<NoiseCheck> checks_of(const record::BenchRepeat& r,
                                  const std::vector<double>& step_seconds) {
  std::vector<NoiseCheck> checks = step_checks(step_seconds);
  HostWindow host{r.stolen_cpu(), r.cgroup_throttled(), r.foreign_cpu(), -1};
  if (r.has_cpu_pressure()) host.pressure = r.cpu_pressure();
  GpuWindow gpu;
  if (r.has_gpu_clock_drop()) gpu.clock_drop = r.gpu_clock_drop();
  if (r.has_gpu_power_capped()) gpu.power_capped = r.gpu_power_capped();
  if (r.has_gpu_slowed()) gpu.slowed = r.gpu_slowed();
  if (r.has_gpu_foreign()) gpu.foreign = r.gpu_foreign();
  for (const auto& more : {host_checks(host), gpu_checks(gpu)})
    checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

// One configuration of a bench, from the folders of its repeats; no bench's name without a result.
BenchResult read_bench(const fs::path& configuration) {
  BenchResult out;
  std::vector<double> probes;
  for (const fs::path& folder : sorted_folders(configuration)) {
    if (!is_there(folder / "result.json")) continue;
    record::BenchRepeat r;
    read_json(folder / "result.json", r);
    out.bench = r.bench();
    out.devices = r.devices();
    out.batch = r.batch();
    if (!r.failure().empty()) {
      out.failure = r.failure();
      continue;
    }
    BenchRepeat repeat{
        r.items_per_second(), {}, r.load_items_per_second(), r.compute_items_per_second()};
    for (const auto& row : read_steps(folder / "steps.bin", 1))
      repeat.step_seconds.push_back(row[0]);
    keep_worst(out.noise, checks_of(r, repeat.step_seconds));
    if (!r.gpu_unwatched().empty()) out.unwatched = r.gpu_unwatched();
    for (const double probe : {r.probe_before(), r.probe_after()}) {
      if (probe > 0) probes.push_back(probe);
    }
    out.repeats.push_back(std::move(repeat));
  }
  if (probes.size() >= 2) out.noise.insert(out.noise.begin(), probe_check(probes));
  if (out.repeats.size() >= 2) out.noise.insert(out.noise.begin(), repeat_check(out.rates()));
  return out;
}

uint64_t mixed(uint64_t root, uint64_t index) {  // splitmix64
  uint64_t z = root + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) >> 32;  // short enough to be typed and to fit every reader's integers
}

// The parts of the evaluation whose metrics are reported.
std::vector<record::Shard> reported_shards(const record::TrialMetrics& metrics) {
  const auto is_reported = [&](const record::Eval& eval) {
    return std::all_of(eval.metric().begin(), eval.metric().end(), [&](const auto& metric) {
      const auto found = metrics.metric().find(metric.first);
      return found != metrics.metric().end() && found->second == metric.second;
    });
  };
  const auto eval = std::find_if(metrics.eval().begin(), metrics.eval().end(), is_reported);
  if (eval == metrics.eval().end()) return {};
  return {eval->shard().begin(), eval->shard().end()};
}

RunPlace place_of(const record::Run& info) {
  return {info.place(),
          info.emulated_devices(),
          info.ranks(),
          {info.data().begin(), info.data().end()}};
}

// Why no row can be compared, as it stands beside every row: of many changes the first ones.
std::string short_reason(const RunRecord& run) {
  constexpr size_t kNamed = 2;
  std::vector<std::string> changes = change_texts(run.info().modification());
  if (changes.size() <= kNamed) return run.info().not_comparable();
  const size_t others = changes.size() - kNamed;
  changes.resize(kNamed);
  return fmt::format("modified: {} and {} more", join(changes, ", "), others);
}

}  // namespace

std::string utc_now() { return utc_text("%Y-%m-%dT%H:%M:%SZ"); }

std::string trial_name(uint64_t seed) { return fmt::format("seed-{:04}", seed); }

std::vector<uint64_t> trial_seeds(const v1::Trials& trials, uint32_t count) {
  std::vector<uint64_t> seeds(trials.seed().begin(), trials.seed().end());
  std::set<uint64_t> used(seeds.begin(), seeds.end());
  // The numbers of folds go on where the list ends, so that the next seed gets all of its folds.
  const bool folds = trials.unit() == "fold";
  for (uint64_t index = 0; seeds.size() < count; ++index) {
    const uint64_t seed = folds ? index : mixed(trials.derive_root(), index);
    if (used.insert(seed).second) seeds.push_back(seed);
  }
  seeds.resize(count);
  return seeds;
}

RunRecord RunRecord::create(const fs::path& runs, const ResolvedRecipe& resolved,
                            const record::Machine& machine, const std::string& engine,
                            const RunPlace& place) {
  RunRecord out;
  const std::string& recipe_id = resolved.recipe.id();
  const std::string stem =
      fmt::format("{}-{}-{}", utc_text("%Y%m%dT%H%M%SZ"),
                  recipe_id.substr(recipe_id.rfind('/') + 1), resolved.exec_digest.substr(0, 8));
  std::string id = stem;
  for (int n = 2; is_there(runs / id); ++n) id = fmt::format("{}-{}", stem, n);
  out.folder_ = runs / id;
  create_folders(out.folder_);
  out.recipe_ = resolved.recipe;
  record::Run& info = out.info_;
  info.set_schema(kRunSchema);
  info.set_id(id);
  info.set_recipe(recipe_id);
  info.set_recipe_version(resolved.recipe.version());
  info.set_exec_digest(resolved.exec_digest);
  info.set_expect_digest(resolved.expect_digest);
  info.set_status("running");
  info.set_created(utc_now());
  info.set_evidence(
      evidence_word(place.emulated_devices > 0 ? Evidence::kEmulated : Evidence::kMeasured));
  info.set_emulated_devices(place.emulated_devices);
  info.set_ranks(place.ranks);
  info.set_place(place.device);
  info.mutable_data()->insert(place.data.begin(), place.data.end());
  info.set_not_comparable(resolved.modified_reason());
  info.set_engine(engine);
  info.set_device(machine_title(machine));
  info.set_machine(machine_digest(machine));
  *info.mutable_modification() = resolved.modifications;
  out.save_recipe(resolved);
  write_json(out.folder_ / "env/machine.json", machine);
  out.save();  // last: a folder with run.json is complete
  return out;
}

void RunRecord::save_recipe(const ResolvedRecipe& resolved) const {
  write_json(folder_ / "recipe.resolved.json", resolved.recipe);
  std::string text;
  pb::TextFormat::PrintToString(resolved.recipe, &text);
  write_file_atomic(folder_ / "recipe.resolved.textproto", text);
  write_json(folder_ / "recipe.lock", resolved.lock);
  if (!resolved.data_lock.entry().empty())
    write_file_atomic(folder_ / kDataLockFile, lock_text(resolved.data_lock));
}

RunRecord RunRecord::open(const fs::path& folder) {
  RunRecord out;
  out.folder_ = folder;
  require(is_there(folder / "run.json"),
          "'" + folder.string() + "' is not a run: it has no run.json",
          "name a folder below runs/, or the run's id");
  read_json(folder / "run.json", out.info_);
  if (out.info_.schema() != kRunSchema)
    throw Error(Exit::kTampered,
                fmt::format("'{}' is of another version of recipe-run, or was changed",
                            (folder / "run.json").string()));
  const fs::path recipe_file = folder / "recipe.resolved.textproto";
  if (!pb::TextFormat::ParseFromString(read_file(recipe_file), &out.recipe_)) {
    throw Error(Exit::kTampered, "'" + recipe_file.string() + "' is damaged");
  }
  if (exec_digest(out.recipe_) != out.info_.exec_digest() ||
      expect_digest(out.recipe_) != out.info_.expect_digest()) {
    throw Error(Exit::kTampered,
                "'" + recipe_file.string() + "' is not the recipe that run.json names by digest",
                "the record was changed after the run");
  }
  return out;
}

RunPlace RunRecord::place() const { return place_of(info_); }

void RunRecord::save() const {
  record::Run info = info_;
  info.set_updated(utc_now());
  write_json(folder_ / "run.json", info);
}

void RunRecord::begin_changes() {
  info_.set_status("running");
  info_.clear_result();
  save();
}

void RunRecord::close(std::string status, const std::vector<record::Result>& results) {
  begin_changes();
  for (const record::Result& result : results) *info_.add_result() = result;
  info_.set_status(std::move(status));
  info_.set_updated(utc_now());
  const std::string text = json_text(info_);
  Digests digests = covered_digests(folder_);
  digests["run.json"] = sha256_hex(text);
  write_seal(folder_, digests);
  write_file_atomic(folder_ / "run.json", text);  // last: until then the run counts as running
}

void RunRecord::require_intact() const {
  const std::vector<std::string> problems =
      seal_problems(folder_, is_running() ? RunState::kRunning : RunState::kClosed);
  if (problems.empty()) return;
  throw Error(
      Exit::kTampered,
      fmt::format("'{}': {}{}", folder_.string(), problems[0],
                  problems.size() == 1 ? "" : fmt::format(" (and {} more)", problems.size() - 1)),
      fmt::format("the record was changed after the run; 'recipe-run verify {}' lists "
                  "everything; restore the files, or move the folder away and run again",
                  folder_.string()));
}

void RunRecord::add_look(uint32_t trials) {
  const int looks = info_.look_size();
  if (trials == 0 || (looks > 0 && info_.look(looks - 1) == trials)) return;
  const double level = level_of(trials);
  info_.add_look(trials);
  info_.add_look_level(level);
  save();
}

void RunRecord::refresh(const ResolvedRecipe& resolved) {
  require(resolved.exec_digest == info_.exec_digest(),
          fmt::format("run '{}' belongs to another recipe: exec digest {}, not {}", info_.id(),
                      info_.exec_digest().substr(0, 8), resolved.exec_digest.substr(0, 8)));
  recipe_ = resolved.recipe;
  info_.set_expect_digest(resolved.expect_digest);
  info_.set_recipe_version(resolved.recipe.version());
  info_.set_not_comparable(resolved.modified_reason());
  save_recipe(resolved);
  save();
}

fs::path RunRecord::trial_folder(uint64_t seed) const {
  return folder_ / "trials" / trial_name(seed);
}

fs::path RunRecord::checkpoint_of(uint64_t seed) const {
  const fs::path folder = trial_folder(seed);
  if (!is_there(folder / "state.json")) return {};
  record::TrialState state;
  read_json(folder / "state.json", state);
  std::error_code ignored;
  const fs::path checkpoint = folder / state.checkpoint();
  return fs::is_regular_file(checkpoint, ignored) ? checkpoint : fs::path();
}

fs::path RunRecord::repeat_folder(const BenchTask& t) const {
  return folder_ / "bench" / fmt::format("{}-d{}-b{}", t.bench, t.devices, t.batch) /
         fmt::format("rep-{}", t.repeat);
}

bool RunRecord::has_result(uint64_t seed) const {
  return is_there(trial_folder(seed) / "metrics.json");
}
bool RunRecord::has_result(const BenchTask& task) const {
  return is_there(repeat_folder(task) / "result.json");
}

Trial RunRecord::read_trial(const fs::path& folder) const {
  record::TrialMetrics metrics;
  read_json(folder / "metrics.json", metrics);
  Trial trial;
  trial.name = folder.filename().string();
  trial.seed = metrics.seed();
  trial.title = trial_title(recipe_, trial.seed);
  trial.failure = metrics.failure();
  trial.metrics.insert(metrics.metric().begin(), metrics.metric().end());
  trial.train_seconds = metrics.train_seconds();
  trial.segments = static_cast<int>(metrics.segments());
  for (const auto& row : read_steps(folder / "steps.bin", kTrialColumns)) {
    trial.loss_curve.push_back({row[kEpoch], row[kLoss]});
  }
  const std::string headline =
      recipe_.evaluation().metric().empty() ? "" : recipe_.evaluation().metric(0);
  for (const record::Eval& eval : metrics.eval()) {
    const auto it = eval.metric().find(headline);
    if (it != eval.metric().end()) trial.metric_curve.push_back({eval.epoch(), it->second});
  }
  trial.shards = reported_shards(metrics);
  if (metrics.has_communication()) trial.communication = metrics.communication();
  return trial;
}

Measurements RunRecord::measurements() const {
  Measurements out;
  for (const fs::path& folder : sorted_folders(folder_ / "trials")) {
    if (is_there(folder / "metrics.json")) out.trials.push_back(read_trial(folder));
  }
  for (const fs::path& configuration : sorted_folders(folder_ / "bench")) {
    BenchResult bench = read_bench(configuration);
    if (!bench.bench.empty()) out.benches.push_back(std::move(bench));
  }
  out.not_comparable = short_reason(*this);
  if (out.not_comparable.empty()) out.not_comparable = incomparable_as_it_stands(recipe_);
  out.device = info_.device();
  out.machine = info_.machine();
  if (info_.ranks() > 0) out.devices = info_.ranks();
  if (info_.emulated_devices() > 0) {
    out.devices = info_.emulated_devices();
    out.evidence = Evidence::kEmulated;
  }
  out.level = level_of(static_cast<uint32_t>(out.trials.size()));
  return out;
}

double RunRecord::level_of(uint32_t trials) const {
  std::vector<Look> looks;
  for (int i = 0; i < std::min(info_.look_size(), info_.look_level_size()); ++i)
    looks.push_back({info_.look(i), info_.look_level(i)});
  return level_at(looks, trials, recipe_.trials().max_count() > trials);
}

std::optional<fs::path> find_run(const fs::path& runs, const ResolvedRecipe& resolved,
                                 const RunPlace& place, std::vector<std::string>& skipped) {
  const std::vector<fs::path> folders = sorted_folders(runs);
  for (auto it = folders.rbegin(); it != folders.rend(); ++it) {
    if (!is_there(*it / "run.json")) continue;
    try {
      record::Run info;
      read_json(*it / "run.json", info);
      if (info.exec_digest() != resolved.exec_digest || info.recipe() != resolved.recipe.id())
        continue;
      RunPlace there = place_of(info);
      if (there == place) return *it;
      const bool says_data = !there.data.empty();
      there.data = place.data;
      if (there == place)
        skipped.push_back(fmt::format("run {} is of this recipe, but {}", info.id(),
                                      says_data ? "of other data" : "does not say of which data"));
    } catch (const Error& error) {
      skipped.push_back(error.what());
    }
  }
  return std::nullopt;
}

}  // namespace reciperun
