// Every pinned fact is held by something: whatever a wrong edit changes in a recipe, the checks of
// 'sources verify' see it. Twenty random changes of each kind, from fixed seeds; all must be
// caught.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

const fs::path kRoot = fs::path(ASSAY_SOURCE_DIR) / "recipes";
constexpr int kTampers = 20;

using Random = std::mt19937;

size_t below(Random& random, size_t n) { return random() % n; }

// The text with one digit replaced by another; unchanged if it has none.
std::string with_another_digit(std::string text, Random& random) {
  std::vector<size_t> digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] >= '0' && text[i] <= '9') digits.push_back(i);
  }
  if (digits.empty()) return text;
  char& digit = text[digits[below(random, digits.size())]];
  digit = static_cast<char>('0' + (digit - '0' + 1 + static_cast<int>(below(random, 9))) % 10);
  return text;
}

double with_another_digit(double value, Random& random) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return std::stod(with_another_digit(std::string(text), random));
}

uint32_t another(uint32_t value, Random& random) {
  static const std::vector<uint32_t> kOthers = {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 100, 128, 256};
  uint32_t other = value;
  while (other == value) other = kOthers[below(random, kOthers.size())];
  return other;
}

// Changes one thing in a recipe's expectation `e`, or in the recipe; false if it has no such thing.
using Tamper = std::function<bool(v1::Recipe& recipe, v1::Expect& e, Random& random)>;

class TamperTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    recipes_ = new std::map<std::string, v1::Recipe>;
    for (const std::string& id : recipe_ids(kRoot)) {
      const ResolvedRecipe resolved = load_recipe({kRoot, id});
      if (!resolved.recipe.abstract()) recipes_->emplace(id, resolved.recipe);
    }
  }
  static void TearDownTestSuite() {
    delete recipes_;
    recipes_ = nullptr;
  }

  // The first problem of the tampered recipe, or of one that points at its rows.
  static std::string problem_with(const v1::Recipe& tampered) {
    const FindRow rows = [&](const std::string& recipe,
                             const std::string& row) -> const v1::Expect* {
      if (recipe == tampered.id()) return find_expectation(tampered, row);
      const auto found = recipes_->find(recipe);
      return found == recipes_->end() ? nullptr : find_expectation(found->second, row);
    };
    const auto first = [&](const v1::Recipe& recipe) {
      const auto problems = verify_sources(recipe, kRoot, rows);
      return problems.empty() ? "" : problems[0].expectation + ": " + problems[0].text;
    };
    if (std::string problem = first(tampered); !problem.empty()) return problem;
    for (const auto& [id, recipe] : *recipes_) {
      if (id != tampered.id() && points_at(recipe, tampered.id())) {
        if (const std::string problem = first(recipe); !problem.empty()) return id + ": " + problem;
      }
    }
    return "";
  }

  static bool points_at(const v1::Recipe& recipe, const std::string& other) {
    return std::any_of(recipe.expect().begin(), recipe.expect().end(), [&](const v1::Expect& e) {
      return e.ratio().num_recipe() == other || e.ratio().den_recipe() == other ||
             e.lender().recipe() == other;
    });
  }

  static std::string incompleteness_of(const v1::Recipe& tampered) {
    std::vector<const v1::Recipe*> all;
    for (const auto& [id, recipe] : *recipes_)
      all.push_back(id == tampered.id() ? &tampered : &recipe);
    const Completeness found = completeness_of(all, kRoot);
    return found.problems.empty() ? "" : found.problems[0];
  }

  // Applies `tamper` to random published rows until it took kTampers times.
  static void expect_caught(
      const char* kind, unsigned seed, const Tamper& tamper,
      const std::function<std::string(const v1::Recipe&)>& check = problem_with) {
    std::vector<std::pair<std::string, int>> rows;
    for (const auto& [id, recipe] : *recipes_) {
      for (int i = 0; i < recipe.expect_size(); ++i) {
        // Fashion-MNIST's table and the reduced U-Net, which shows a number again, name no
        // conditions.
        const bool published = recipe.expect(i).has_at() && id != "unet_medical/reduced" &&
                               recipe.expect(i).at().source() != "benchmark";
        if (published) rows.emplace_back(id, i);
      }
    }
    Random random(seed);
    std::shuffle(rows.begin(), rows.end(), random);
    int done = 0;
    for (const auto& [id, row] : rows) {
      v1::Recipe recipe = recipes_->at(id);
      v1::Expect& e = *recipe.mutable_expect(row);
      if (!tamper(recipe, e, random)) continue;
      EXPECT_NE(check(recipe), "")
          << kind << " of " << id << ": " << recipes_->at(id).expect(row).id();
      if (++done == kTampers) return;
    }
    EXPECT_GT(done, 0) << kind;
  }

  static std::map<std::string, v1::Recipe>* recipes_;
};
std::map<std::string, v1::Recipe>* TamperTest::recipes_ = nullptr;

TEST_F(TamperTest, NothingIsWrongAsItStands) {
  for (const auto& [id, recipe] : *recipes_) EXPECT_EQ(problem_with(recipe), "") << id;
  EXPECT_EQ(incompleteness_of(recipes_->begin()->second), "");
}

// Replaces the value by one with another digit; false for lists of seeds.
bool change_value(v1::Expect& e, Random& random) {
  const auto change = [&](double v) { return with_another_digit(v, random); };
  switch (e.value_case()) {
    case v1::Expect::kSingle:
      e.mutable_single()->set_v(change(e.single().v()));
      return true;
    case v1::Expect::kMeanStd:
      e.mutable_mean_std()->set_mean(change(e.mean_std().mean()));
      return true;
    case v1::Expect::kExtreme:
      e.mutable_extreme()->set_v(change(e.extreme().v()));
      return true;
    case v1::Expect::kRatio:
      e.mutable_ratio()->set_v(change(e.ratio().v()));
      return true;
    case v1::Expect::kTail:
      e.mutable_tail()->set_v(change(e.tail().v()));
      return true;
    case v1::Expect::kSpread:
      e.mutable_spread()->set_v(change(e.spread().v()));
      return true;
    default:
      return false;
  }
}

TEST_F(TamperTest, Numbers) {
  expect_caught("value", 1, [](auto&, auto& e, auto& r) { return change_value(e, r); });
  expect_caught("printed", 2, [](auto&, auto& e, auto& r) {
    e.mutable_at()->set_printed(with_another_digit(e.at().printed(), r));
    return true;
  });
  expect_caught("value and printed alike", 3, [](auto&, auto& e, auto& r) {
    if (!e.has_single()) return false;
    const std::string printed = with_another_digit(numbers_in(e.at().printed())[0], r);
    e.mutable_at()->set_printed(printed);
    e.mutable_single()->set_v(std::stod(printed));
    return true;
  });
  expect_caught("a seed", 4, [](auto&, auto& e, auto& r) {
    if (!e.has_sample()) return false;
    const int k = static_cast<int>(below(r, static_cast<size_t>(e.sample().v_size())));
    e.mutable_sample()->set_v(k, with_another_digit(e.sample().v(k), r));
    return true;
  });
  expect_caught("printed mean", 5, [](auto&, auto& e, auto& r) {
    if (!e.has_sample()) return false;
    e.mutable_sample()->set_printed_mean(with_another_digit(e.sample().printed_mean(), r));
    return true;
  });
  expect_caught("printed standard deviation", 6, [](auto&, auto& e, auto& r) {
    if (!e.has_sample()) return false;
    e.mutable_sample()->set_printed_std(with_another_digit(e.sample().printed_std(), r));
    return true;
  });
  expect_caught("standard deviation", 7, [](auto&, auto& e, auto& r) {
    if (!e.has_mean_std()) return false;
    e.mutable_mean_std()->set_std(with_another_digit(e.mean_std().std(), r));
    return true;
  });
  expect_caught("a further cell", 8, [](auto&, auto& e, auto& r) {
    if (e.at().also().empty()) return false;
    v1::Cell& cell = *e.mutable_at()->mutable_also(0);
    cell.set_equals(with_another_digit(cell.equals(), r));
    return true;
  });
  expect_caught("part of a cell", 9, [](auto&, auto& e, auto&) {
    if (e.at().part() == 0) return false;
    e.mutable_at()->set_part(e.at().part() + 1);
    return true;
  });
  expect_caught("number of a cell elsewhere", 10, [](auto&, auto& e, auto& r) {
    if (e.seen().empty()) return false;
    e.mutable_seen(0)->set_printed(with_another_digit(e.seen(0).printed(), r));
    return true;
  });
}

TEST_F(TamperTest, Places) {
  expect_caught("row", 11, [](auto&, auto& e, auto& r) {
    if (e.at().where().empty()) return false;
    v1::Cell& cell = *e.mutable_at()->mutable_where(0);
    const std::string changed = with_another_digit(cell.equals(), r);
    if (changed == cell.equals()) return false;
    cell.set_equals(changed);
    return true;
  });
  expect_caught("row elsewhere", 12, [](auto&, auto& e, auto& r) {
    if (e.seen().empty()) return false;
    v1::Cell& cell = *e.mutable_seen(0)->mutable_where(0);
    cell.set_equals(with_another_digit(cell.equals(), r));
    return true;
  });
  // To another column of the same row, with the number that is printed there.
  expect_caught("column, with its number", 13, [](auto& recipe, auto& e, auto& r) {
    if (!e.has_single()) return false;
    std::vector<SourceProblem> none;
    const auto files = source_files(recipe, kRoot, none);
    std::string problem;
    const auto place = find_cell(files.at(e.at().source()), e.at(), problem);
    const size_t column = below(r, place->table->columns.size());
    const std::string& cell = place->cell(static_cast<int>(column));
    const bool same = static_cast<int>(column) == place->column;
    if (same || numbers_in(cell).size() != 1 || e.at().part() > 0) return false;
    // In DLPerf's report a column is a framework, which nothing else names.
    if (e.at().source() == "report") return false;
    e.mutable_at()->set_column(place->table->columns[column]);
    e.mutable_at()->set_printed(cell);
    e.mutable_single()->set_v(std::stod(numbers_in(cell)[0]));
    return true;
  });
  expect_caught("source without tables", 14, [](auto& recipe, auto& e, auto&) {
    v1::Source& source = *recipe.add_source();
    source.set_id("page");
    source.set_file("page.html");
    e.mutable_at()->set_source("page");
    return true;
  });
  const auto completeness = [](const v1::Recipe& recipe) { return incompleteness_of(recipe); };
  expect_caught(
      "a claim twice", 15,
      [](auto& recipe, auto& e, auto&) {
        if (e.at().printed().empty()) return false;
        v1::Expect& twin = *recipe.add_expect();
        twin = e;
        twin.set_id("twin");
        return true;
      },
      completeness);
  expect_caught(
      "a claim gone", 16,
      [](auto& recipe, auto& e, auto&) {
        if (e.at().source() != "readme") return false;
        const std::string& id = e.id();
        for (int i = 0; i < recipe.expect_size(); ++i) {
          if (recipe.expect(i).id() == id)
            return recipe.mutable_expect()->DeleteSubrange(i, 1), true;
        }
        return false;
      },
      completeness);
}

TEST_F(TamperTest, Conditions) {
  expect_caught("devices", 21, [](auto&, auto& e, auto& r) {
    if (e.scope().devices() == 0) return false;
    e.mutable_scope()->set_devices(another(e.scope().devices(), r));
    return true;
  });
  expect_caught("no devices", 22, [](auto& recipe, auto& e, auto&) {
    // How many had the 250-epoch runs? Only their commands say it.
    if (e.scope().devices() == 0 || e.at().table() == "stability.dgx1") return false;
    e.mutable_scope()->clear_devices();
    return !recipe.id().empty();
  });
  expect_caught("batch", 23, [](auto&, auto& e, auto& r) {
    if (e.scope().batch() == 0) return false;
    e.mutable_scope()->set_batch(another(e.scope().batch(), r));
    return true;
  });
  expect_caught("epochs", 24, [](auto&, auto& e, auto& r) {
    if (e.scope().epochs() == 0) return false;
    e.mutable_scope()->set_epochs(another(e.scope().epochs(), r));
    return true;
  });
  expect_caught("precision", 25, [](auto&, auto& e, auto&) {
    if (e.scope().precision().empty()) return false;
    e.mutable_scope()->set_precision(e.scope().precision() == "AMP" ? "FP32" : "AMP");
    return true;
  });
  expect_caught("compute of the recipe and its scope", 26, [](auto& recipe, auto& e, auto&) {
    if (e.scope().precision().empty()) return false;
    const bool amp = recipe.numerics().compute() == v1::Numerics::AMP_FP16;
    recipe.mutable_numerics()->set_compute(amp ? v1::Numerics::FP32 : v1::Numerics::AMP_FP16);
    for (v1::Expect& row : *recipe.mutable_expect())
      row.mutable_scope()->set_precision(amp ? "FP32" : "AMP");
    return true;
  });
  expect_caught("machine", 27, [](auto& recipe, auto& e, auto&) {
    // DLPerf's machines have no name; a T4 stands in whatever host.
    if (recipe.platform().host().find("DGX") == std::string::npos) return false;
    recipe.mutable_platform()->set_host(recipe.platform().host() == "DGX-1" ? "DGX A100" : "DGX-1");
    return !e.id().empty();
  });
  expect_caught("device", 28, [](auto& recipe, auto& e, auto&) {
    if (recipe.platform().host().find("DGX") == std::string::npos) return false;
    const bool a100 = recipe.platform().device().find("A100") != std::string::npos;
    recipe.mutable_platform()->set_device(a100 ? "Tesla V100-SXM2-16GB" : "A100-SXM4-40GB");
    return !e.id().empty();
  });
  expect_caught("batch of the training", 29, [](auto& recipe, auto& e, auto& r) {
    if (!e.bench().empty() || e.scope().batch() == 0) return false;
    recipe.mutable_training()->set_batch_per_device(another(e.scope().batch(), r));
    return true;
  });
  expect_caught("devices of the training", 30, [](auto& recipe, auto& e, auto&) {
    if (!e.bench().empty() || e.scope().devices() == 0) return false;
    recipe.mutable_topology()->set_nodes(recipe.topology().nodes() + 1);
    return true;
  });
  expect_caught("epochs of the training", 31, [](auto& recipe, auto& e, auto&) {
    if (e.scope().epochs() == 0) return false;
    recipe.mutable_training()->set_epochs(recipe.training().epochs() + 1);
    return true;
  });
}

TEST_F(TamperTest, WhatIsMeasured) {
  expect_caught("metric", 41, [](auto&, auto& e, auto&) {
    e.set_metric(e.metric() == "throughput" ? "latency_mean" : "throughput");
    return true;
  });
  expect_caught("quantile", 42, [](auto&, auto& e, auto& r) {
    if (!e.has_tail()) return false;
    static const std::vector<double> kOthers = {0.5, 0.9, 0.95, 0.98, 0.99};
    double p = e.tail().q().p();
    while (p == e.tail().q().p()) p = kOthers[below(r, kOthers.size())];
    e.mutable_tail()->mutable_q()->set_p(p);
    return true;
  });
  expect_caught("extreme", 43, [](auto&, auto& e, auto&) {
    if (!e.has_extreme()) return false;
    const bool max = e.extreme().which() == v1::Extreme::MAX;
    e.mutable_extreme()->set_which(max ? v1::Extreme::MIN : v1::Extreme::MAX);
    return true;
  });
  expect_caught("terms of a ratio", 44, [](auto& recipe, auto& e, auto& r) {
    if (!e.has_ratio()) return false;
    const int other = static_cast<int>(below(r, static_cast<size_t>(recipe.expect_size())));
    const v1::Expect& row = recipe.expect(other);
    // Of two rows that differ in nothing that is checked, either is right.
    const v1::Expect* den = find_expectation(recipe, e.ratio().den());
    if (den == nullptr || row.id() == den->id() || row.has_ratio()) return false;
    e.mutable_ratio()->set_den(row.id());
    return row.scope().devices() != den->scope().devices() ||
           row.scope().batch() != den->scope().batch() || row.metric() != den->metric();
  });
  expect_caught("terms the other way round", 45, [](auto&, auto& e, auto&) {
    if (!e.has_ratio()) return false;
    v1::Ratio& ratio = *e.mutable_ratio();
    std::swap(*ratio.mutable_num(), *ratio.mutable_den());
    std::swap(*ratio.mutable_num_recipe(), *ratio.mutable_den_recipe());
    return true;
  });
}

TEST_F(TamperTest, RunsAndSpreads) {
  expect_caught("number of runs", 51, [](auto&, auto& e, auto& r) {
    switch (e.value_case()) {
      case v1::Expect::kSingle:
        return e.mutable_single()->set_n(another(e.single().n(), r)), true;
      case v1::Expect::kTail:
        return e.mutable_tail()->set_n(another(e.tail().n(), r)), true;
      case v1::Expect::kMeanStd:
        return e.mutable_mean_std()->set_n(another(e.mean_std().n(), r)), true;
      case v1::Expect::kExtreme:
        return e.mutable_extreme()->set_n(another(e.extreme().n(), r)), true;
      case v1::Expect::kSpread:
        return e.mutable_spread()->set_n(another(e.spread().n(), r)), true;
      default:
        return false;
    }
  });
  expect_caught("where the number of runs stands", 52, [](auto&, auto& e, auto& r) {
    if (!e.has_runs()) return false;
    e.mutable_runs()->set_printed(with_another_digit(e.runs().printed(), r));
    return true;
  });
  expect_caught("scale of a standard deviation", 53, [](auto&, auto& e, auto& r) {
    static const std::vector<double> kOthers = {0, 10, 50, 900, 1000};
    const double other = kOthers[below(r, kOthers.size())];
    if (e.has_mean_std()) return e.mutable_mean_std()->set_std_scale(other), true;
    if (e.has_spread() && e.spread().scale() > 0) return e.mutable_spread()->set_scale(other), true;
    return false;
  });
  expect_caught("a borrowed spread", 54, [](auto&, auto& e, auto& r) {
    if (!e.has_lender()) return false;
    v1::Lender& lender = *e.mutable_lender();
    switch (below(r, 4)) {
      case 0:
        return lender.set_std(with_another_digit(lender.std(), r)), true;
      case 1:
        return lender.set_mean(with_another_digit(lender.mean(), r)), true;
      case 2:
        return lender.set_n(another(lender.n(), r)), true;
      default:
        return lender.set_std_scale(lender.std_scale() + 1), true;
    }
  });
}

}  // namespace
}  // namespace reciperun
