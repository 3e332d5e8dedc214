#include "tools/recipe_run/sources/attribution.h"

#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/sources/conditions.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

std::string precision_of(const v1::Recipe& recipe) {
  switch (recipe.numerics().compute()) {
    case v1::Numerics::FP32:
      return "FP32";
    case v1::Numerics::TF32:
      return "TF32";
    case v1::Numerics::AMP_FP16:
      return "AMP";
    case v1::Numerics::AMP_BF16:
      return "AMP, bf16";
    default:
      return "";
  }
}

bool contains(const google::protobuf::RepeatedField<uint32_t>& list, uint32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool has_deviation(const v1::Recipe& recipe, const std::string& path) {
  return std::any_of(recipe.deviation().begin(), recipe.deviation().end(),
                     [&](const v1::Deviation& d) { return d.path() == path; });
}

// The quantile a row is about, 0 if it is about none.
double quantile_of(const v1::Expect& row) {
  return row.has_tail() ? row.tail().q().p() : row.quantile().p();
}

class Check {
 public:
  Check(const v1::Recipe& recipe, const v1::Expect& expect, const FindSource& sources,
        const FindRow& rows)
      : recipe_(recipe), expect_(expect), scope_(expect.scope()), sources_(sources), rows_(rows) {}

  std::vector<std::string> run() {
    check_scope();
    check_unit();
    check_place(expect_.at(), true);
    for (const v1::Locator& seen : expect_.seen()) check_seen(seen);
    check_ratio();
    check_numbers_of_runs();
    check_scales();
    check_lender();
    return std::move(problems_);
  }

 private:
  void problem(const std::string& text) { problems_.push_back(text); }

  // Says so if the source has `printed` where the recipe has `stated`.
  template <typename T>
  void compare(const std::string& what, const T& printed, const T& stated) {
    if (printed == T{} || printed == stated) return;
    problem(what + ": the source says " + shown(printed) + ", the recipe " + shown(stated));
  }
  static std::string shown(const std::string& value) {
    return value.empty() ? "nothing" : "'" + value + "'";
  }
  static std::string shown(uint32_t value) {
    return value == 0 ? "nothing" : std::to_string(value);
  }

  // --- the row's scope against what its recipe runs ---

  void check_scope() {
    if (!scope_.precision().empty())
      compare("scope.precision", precision_of(recipe_), scope_.precision());
    const v1::Bench* bench = find_bench(recipe_, expect_.bench());
    if (bench == nullptr) {
      if (scope_.devices() > 0) compare("scope.devices", devices_of(recipe_), scope_.devices());
      if (scope_.batch() > 0)
        compare("scope.batch", recipe_.training().batch_per_device(), scope_.batch());
      if (scope_.epochs() > 0)
        compare("scope.epochs", static_cast<uint32_t>(recipe_.training().epochs()),
                scope_.epochs());
      return;
    }
    if (scope_.devices() > 0 && !bench->devices().empty() &&
        !contains(bench->devices(), scope_.devices()))
      problem("scope.devices: the bench '" + bench->id() + "' does not run on " +
              std::to_string(scope_.devices()));
    if (scope_.batch() > 0 && !contains(bench->batch(), scope_.batch()))
      problem("scope.batch: the bench '" + bench->id() + "' has no batch of " +
              std::to_string(scope_.batch()));
    if (scope_.epochs() > 0) problem("scope.epochs: a bench has no epochs");
  }

  // Where no column names the metric, its unit still does.
  void check_unit() {
    const std::string &metric = expect_.metric(), &unit = expect_.unit();
    if (unit == "x") return;
    const bool of_rates = unit.ends_with("/s"), of_latencies = unit == "ms";
    if (of_rates != (metric == "throughput") || of_latencies != metric.starts_with("latency"))
      problem("unit: '" + unit + "' is not one of '" + metric + "'");
  }

  // --- the row against its cell ---

  bool mixed() const { return precision_of(recipe_) == "AMP"; }

  void check_place(const v1::Locator& at, bool is_own) {
    const SourceFile* file = sources_(at.source());
    if (file == nullptr) return;
    std::string ignored;
    const auto place = find_cell(*file, at, ignored);
    if (!place) return;  // said by the comparison of the characters
    const Conditions said = conditions_of(*file, *place, at.part(), mixed());
    compare("scope.devices", said.devices, scope_.devices());
    compare("scope.epochs", said.epochs, scope_.epochs());
    check_batch(said);
    check_precision(said.precision);
    check_machine(said.machine);
    check_data(said);
    if (!is_own) return;
    has_document_ = !file->document.empty();
    seeds_ = said.seeds;
    speed_up_ = said.speed_up;
    scaling_ = said.scaling;
    check_metric(said);
    percent_ = said.percent;
    if (!expect_.has_ratio()) check_quantile(expect_, "the row");
  }

  void check_batch(const Conditions& said) {
    compare("scope.batch", said.batch, scope_.batch());
    if (said.accumulate > 0 && scope_.devices() == devices_of(recipe_)) {
      for (const v1::Phase& phase : recipe_.training().phase()) {
        if (phase.seq_len() == said.sequence)
          compare("accumulate", said.accumulate, phase.training().accumulate());
      }
    }
    const auto& phases = recipe_.training().phase();
    for (int i = 0; i < phases.size() && static_cast<size_t>(i) < said.phase_batch.size(); ++i) {
      const size_t k = static_cast<size_t>(i);
      const std::string path = "training.phase." + phases[i].name() + ".training.";
      if (has_deviation(recipe_, path + "accumulate")) continue;
      // Full precision ran at half the batch and twice the accumulation.
      const uint32_t half = mixed() ? 1 : 2;
      compare(path + "batch_per_device", said.phase_batch[k] / half,
              phases[i].training().batch_per_device());
      compare(path + "accumulate", said.phase_accumulate[k] * half,
              phases[i].training().accumulate());
    }
  }

  void check_precision(const std::string& said) {
    const std::string own = precision_of(recipe_);
    if (said == "full") {
      const bool a100 = recipe_.platform().device().find("A100") != std::string::npos;
      compare<std::string>("numerics.compute", a100 ? "TF32" : "FP32", own);
    } else if (said != "FP32" || own != "TF32" || !has_deviation(recipe_, "numerics.compute")) {
      compare("numerics.compute", said, own);
    }
    if (!said.empty()) compare("scope.precision", own, scope_.precision());
  }

  void check_machine(const std::string& said) {
    const v1::Platform& platform = recipe_.platform();
    for (const Machine& machine : known_machines()) {
      if (machine.name != said) continue;
      if (machine.name != "T4") compare("platform.host", said, platform.host());
      if (platform.device().find(machine.device_word) == std::string::npos)
        problem("platform.device: a " + said + " has " + machine.device_word +
                ", the recipe says " + shown(platform.device()));
    }
  }

  void check_data(const Conditions& said) {
    for (const v1::DataRef& data : recipe_.data()) {
      if (!said.data.empty() && !data.lock().ends_with(said.data))
        problem("data." + data.id() + ".lock: the source says " + shown(said.data) +
                ", the recipe " + shown(data.lock()));
      if (said.sequence == 0) continue;
      for (const v1::Stage& stage : data.pipeline()) {
        const auto length = stage.arg().find("max_len");
        if (length != stage.arg().end())
          compare("data." + data.id() + ".pipeline", std::to_string(said.sequence), length->second);
      }
    }
    const v1::Bench* bench = find_bench(recipe_, expect_.bench());
    if (said.sequence == 0 || bench == nullptr || bench->phase().empty()) return;
    for (const v1::Phase& phase : recipe_.training().phase()) {
      if (phase.name() == bench->phase())
        compare("training.phase." + phase.name() + ".seq_len", said.sequence, phase.seq_len());
    }
  }

  void check_metric(const Conditions& said) {
    std::string metric = said.metric;
    if (metric.starts_with("headline") && !recipe_.evaluation().metric().empty())
      metric.replace(0, 8, recipe_.evaluation().metric(0));
    if (has_document_ && metric.empty()) problem("the column holds no results");
    compare("metric", metric, expect_.metric());
    if ((said.speed_up || said.scaling) != expect_.has_ratio())
      problem(expect_.has_ratio() ? "the column holds no ratios, the row is one"
                                  : "the column holds ratios, the row is none");
    compare("unit", said.unit, expect_.unit());
    if (said.metric.ends_with(":max") || said.metric.ends_with(":min")) {
      const bool max = said.metric.ends_with(":max");
      if (expect_.has_extreme() && (expect_.extreme().which() == v1::Extreme::MAX) != max)
        problem("extreme.which: the column is the other extreme");
    }
  }

  void check_quantile(const v1::Expect& row, const std::string& whose) {
    const double printed = percent_ / 100.0, stated = quantile_of(row);
    if (std::abs(printed - stated) > 1e-9)
      problem("quantile: the column is " + std::to_string(percent_) + " %, " + whose + " has p " +
              shortest(stated));
  }

  // Whatever prints it elsewhere prints the same, unless the row says that it does not.
  void check_seen(const v1::Locator& seen) {
    check_place(seen, false);
    const std::vector<std::string> numbers = numbers_in(seen.printed());
    const std::vector<double> stated = stated_numbers(expect_);
    const bool equal = !numbers.empty() && !stated.empty() && std::stod(numbers[0]) == stated[0];
    const auto& answers = expect_.answers();
    if (!equal && std::find(answers.begin(), answers.end(), "sources") == answers.end())
      problem("seen: prints " + shown(seen.printed()) + ", the row another number");
  }

  // --- the terms of a ratio ---

  // One device or many, full precision or mixed: what the column compares is what the terms are.
  void check_ratio() {
    if (!expect_.has_ratio()) return;
    const v1::Ratio& ratio = expect_.ratio();
    const v1::Expect* num = rows_(ratio.num_recipe(), ratio.num());
    const v1::Expect* den = rows_(ratio.den_recipe(), ratio.den());
    for (const v1::Expect* term : {num, den}) {
      if (term == nullptr) continue;
      if (term->metric() != expect_.metric() || term->bench() != expect_.bench())
        problem("ratio: '" + term->id() + "' is measured in another way");
      check_quantile(*term, "'" + term->id() + "'");
    }
    check_batches(num, den);
    const std::string& other = ratio.num_recipe().empty() ? ratio.den_recipe() : ratio.num_recipe();
    if (scaling_) {
      if (!other.empty()) problem("ratio: a scaling has both terms in one recipe");
      if (num != nullptr) compare("ratio.num: devices", scope_.devices(), num->scope().devices());
      if (den != nullptr) compare("ratio.den: devices", 1u, den->scope().devices());
    }
    if (speed_up_) check_speed_up(num, den, other);
  }

  // Training in full precision has room for fewer samples; else the batch is the same.
  void check_batches(const v1::Expect* num, const v1::Expect* den) {
    const v1::Bench* bench = find_bench(recipe_, expect_.bench());
    const bool infers = bench != nullptr && bench->mode() == v1::Bench::INFER;
    const auto check = [&](const v1::Expect* term, const std::string& recipe) {
      if (term != nullptr && (recipe.empty() || infers) && term->scope().batch() != scope_.batch())
        problem("ratio: '" + term->id() + "' has another batch size");
    };
    check(num, expect_.ratio().num_recipe());
    check(den, expect_.ratio().den_recipe());
  }

  // A rate grows, a time shrinks; full precision is the other recipe's.
  void check_speed_up(const v1::Expect* num, const v1::Expect* den, const std::string& other) {
    const v1::Ratio& ratio = expect_.ratio();
    const bool of_rates = expect_.metric() == "throughput";
    if (other.empty() || (of_rates ? ratio.den_recipe() : ratio.num_recipe()) != other ||
        !(of_rates ? ratio.num_recipe() : ratio.den_recipe()).empty())
      problem("ratio: a speed-up is of the mixed precision of this recipe over another's");
    for (const v1::Expect* term : {num, den}) {
      if (term != nullptr && term->scope().devices() != scope_.devices())
        problem("ratio: '" + term->id() + "' has another number of devices");
    }
    const v1::Expect* full = of_rates ? den : num;
    if (full != nullptr && full->scope().precision() == "AMP")
      problem("ratio: '" + full->id() + "' of '" + other + "' is not of full precision");
  }

  // --- numbers of runs and samples ---

  // Where it stands how many there were, or 0.
  uint32_t printed_runs() {
    if (!expect_.has_runs()) return 0;
    return count_in(expect_.runs().printed());
  }

  void check_numbers_of_runs() {
    const uint32_t printed = printed_runs();
    const auto expected = [&](uint32_t stated, uint32_t unprinted, const char* what) {
      const uint32_t due = expect_.has_runs() ? printed : unprinted;
      if (stated == due) return;
      problem(std::string(what) + ": the recipe says " + shown(stated) + ", " +
              (expect_.has_runs() ? "its source " : "without 'runs' it is ") + shown(due));
    };
    switch (expect_.value_case()) {
      case v1::Expect::kSingle:
        // Where no document is copied, it may be unknown.
        if (!expect_.has_runs() && expect_.single().n() == 0 && !has_document_) return;
        return expected(expect_.single().n(), 1, "single.n");
      case v1::Expect::kTail:
        return expected(expect_.tail().n(), 0, "tail.n");
      case v1::Expect::kSample:
        return expected(static_cast<uint32_t>(expect_.sample().v_size()), seeds_, "sample.v");
      case v1::Expect::kSpread:
        return expected(expect_.spread().n(), seeds_, "spread.n");
      case v1::Expect::kMeanStd:
        return expected(expect_.mean_std().n(), 0, "mean_std.n");
      case v1::Expect::kExtreme:
        return expected(expect_.extreme().n(), 0, "extreme.n");
      default:
        return;
    }
  }

  // --- units of standard deviations, borrowed ones ---

  // With its scale a standard deviation must be possible for runs between the printed extremes.
  void check_scales() {
    const bool mean = expect_.has_mean_std(), spread = expect_.has_spread();
    if (!mean && !spread) return;
    const double scale = mean ? expect_.mean_std().std_scale() : expect_.spread().scale();
    const double std = mean ? expect_.mean_std().std() : expect_.spread().v();
    const uint32_t n = mean ? expect_.mean_std().n() : expect_.spread().n();
    double low = 0, high = 0;
    for (const v1::Expect& other : recipe_.expect()) {
      if (!other.has_extreme() || !same_row(other)) continue;
      (other.extreme().which() == v1::Extreme::MAX ? high : low) = other.extreme().v();
    }
    if (high <= low || n < 2) {
      if (scale != 0) problem("std_scale: nothing printed bears it out");
      return;
    }
    const double range = high - low, real = std * (scale > 0 ? scale : 1);
    const bool possible =
        real >= range / std::sqrt(2.0 * (n - 1)) && real <= range / 2 * std::sqrt(n / (n - 1.0));
    if (!possible || (scale != 0 && scale != 1 && scale != 100))
      problem("std_scale: a standard deviation of " + shortest(real) + " is impossible for " +
              std::to_string(n) + " runs between " + shortest(low) + " and " + shortest(high));
  }

  bool same_row(const v1::Expect& other) const {
    const v1::Locator &a = expect_.at(), &b = other.at();
    return a.table() == b.table() && a.where_size() == b.where_size() &&
           std::equal(a.where().begin(), a.where().end(), b.where().begin(),
                      [](const v1::Cell& x, const v1::Cell& y) {
                        return x.column() == y.column() && x.equals() == y.equals();
                      });
  }

  void check_lender() {
    if (!expect_.has_lender()) return;
    const v1::Lender& lender = expect_.lender();
    if (lender.recipe().empty()) return problem("lender.recipe: not set");
    const v1::Expect* row = rows_(lender.recipe(), lender.row());
    if (row == nullptr) return;
    const bool sample = row->has_sample();
    const bool equal =
        lender.mean() == (sample ? row->sample().printed_mean() : row->mean_std().mean()) &&
        lender.std() == (sample ? row->sample().printed_std() : row->mean_std().std()) &&
        lender.std_scale() == (sample ? 0 : row->mean_std().std_scale()) &&
        lender.n() ==
            (sample ? static_cast<uint32_t>(row->sample().v_size()) : row->mean_std().n());
    if (!equal || row->metric() != expect_.metric())
      problem("lender: '" + lender.row() + "' of '" + lender.recipe() + "' has other numbers");
  }

  const v1::Recipe& recipe_;
  const v1::Expect& expect_;
  const v1::Scope& scope_;
  const FindSource& sources_;
  const FindRow& rows_;
  uint32_t seeds_ = 0, percent_ = 0;
  bool speed_up_ = false, scaling_ = false, has_document_ = false;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> attribution_problems(const v1::Recipe& recipe, const v1::Expect& expect,
                                              const FindSource& sources, const FindRow& rows) {
  return Check(recipe, expect, sources, rows).run();
}

}  // namespace reciperun
