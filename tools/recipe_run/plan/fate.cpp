#include "tools/recipe_run/plan/fate.h"

#include <algorithm>

#include "tools/recipe_run/recipe/comparability.h"
#include "tools/recipe_run/verdict/expectation.h"
#include "tools/recipe_run/verdict/hardware.h"
#include "tools/recipe_run/verdict/training_length.h"

namespace reciperun {
namespace {

std::string device_count(uint32_t devices) {
  return std::to_string(devices) + (devices == 1 ? " device" : " devices");
}

bool has_published_value(const v1::Expect& e) {
  return e.value_case() != v1::Expect::VALUE_NOT_SET;
}

class FateFinder {
 public:
  FateFinder(const v1::Recipe& recipe, const PlanMachine& machine)
      : recipe_(recipe), machine_(machine) {}

  RowFate of(const v1::Expect& e) const {
    RowFate out = run_or_not(e);
    out.expect = &e;
    if (out.fate != Fate::kJudged && out.fate != Fate::kProjected) return out;
    if (!has_published_value(e)) {
      out.fate = Fate::kMeasuredOnly;
      out.why.clear();
    } else if (const std::string why = incomparable(e); !why.empty()) {
      out.fate = Fate::kNotComparable;
      out.why = why;
    }
    return out;
  }

 private:
  static RowFate not_run(const std::string& why) { return {nullptr, Fate::kNotRun, why}; }

  RowFate run_or_not(const v1::Expect& e) const {
    if (!machine_.cannot_run.empty()) return not_run(machine_.cannot_run);
    switch (kind_of(e)) {
      case RowKind::kTrials:
        return trials(e);
      case RowKind::kTime:
        return time(e);
      case RowKind::kBench:
        return bench(e);
      case RowKind::kScaling:
        return scaling(e);
    }
    return {};
  }

  uint32_t trained_devices() const { return std::max(1u, machine_.emulated_devices); }

  RowFate trials(const v1::Expect& e) const {
    if (recipe_.trials().count() == 0) return not_run("this recipe trains nothing to the end");
    const uint32_t needed = devices_of(recipe_, e);
    if (!has_published_value(e) || needed == trained_devices()) return {};
    std::string why =
        "needs " + device_count(needed) + ", would train on " + device_count(trained_devices());
    if (needed > 1) why += "; --emulate-devices " + std::to_string(needed) + " would do";
    return not_run(why);
  }

  RowFate time(const v1::Expect& e) const {
    const uint32_t needed = devices_of(recipe_, e);
    if (machine_.emulated_devices > 0) return not_run("nothing is timed with emulated devices");
    if (recipe_.trials().count() > 0 && (needed == 1 || !has_published_value(e))) return {};
    if (needed > machine_.devices)
      return not_run("needs " + device_count(needed) + ", there is " +
                     std::to_string(machine_.devices));
    for (const TrainingPhase& phase : training_phases(recipe_, needed)) {
      if (training_bench(recipe_, phase) == nullptr)
        return not_run(
            "no bench of this recipe measures its training; 'report --with' takes the throughput "
            "from a run of another");
    }
    return {nullptr, Fate::kProjected, "from the measured training throughput"};
  }

  RowFate bench(const v1::Expect& e) const {
    if (machine_.emulated_devices > 0) return not_run("nothing is timed with emulated devices");
    const uint32_t needed = devices_of(recipe_, e);
    if (needed <= machine_.devices) return {};
    return not_run("needs " + device_count(needed) + ", there is " +
                   std::to_string(machine_.devices));
  }

  RowFate scaling(const v1::Expect& e) const {
    for (const std::string& other : {e.ratio().num_recipe(), e.ratio().den_recipe()}) {
      if (!other.empty()) return not_run("needs a run of '" + other + "' too");
    }
    for (const std::string& id : {e.ratio().num(), e.ratio().den()}) {
      const v1::Expect* part = find_expectation(recipe_, id);
      if (part == nullptr) return not_run("the recipe has no row '" + id + "'");
      if (const RowFate f = run_or_not(*part); f.fate == Fate::kNotRun) return f;
    }
    return {};
  }

  std::string incomparable(const v1::Expect& e) const {
    if (std::string why = incomparable_as_it_stands(recipe_); !why.empty()) return why;
    return is_timing(e) ? other_hardware(recipe_, machine_.title) : "";
  }

  const v1::Recipe& recipe_;
  const PlanMachine& machine_;
};

}  // namespace

std::string fate_word(Fate fate) {
  switch (fate) {
    case Fate::kJudged:
      return "judged";
    case Fate::kMeasuredOnly:
      return "measured only";
    case Fate::kProjected:
      return "PROJECTED";
    case Fate::kNotComparable:
      return "NOT COMPARABLE";
    case Fate::kNotRun:
      return "NOT RUN";
  }
  return "?";
}

std::vector<RowFate> row_fates(const v1::Recipe& recipe, const PlanMachine& machine) {
  std::vector<RowFate> out;
  const FateFinder finder(recipe, machine);
  for (const v1::Expect& e : recipe.expect()) out.push_back(finder.of(e));
  return out;
}

}  // namespace reciperun
