#include "tools/recipe_run/lint/answers.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tools/recipe_run/base/text.h"

namespace reciperun::lint {
namespace {

// "batch 2, 4" of rows that are told by their batch.
bool names_batch(const std::string& where, uint32_t batch) {
  const std::string prefix = "batch ";
  if (!where.starts_with(prefix)) return false;
  for (const std::string& number : split(where.substr(prefix.size()), ',')) {
    if (std::strtoul(number.c_str(), nullptr, 10) == batch && batch > 0) return true;
  }
  return false;
}

// "GPUs 8: Throughput" and "GPUs 1; GPUs 8" name rows by their beginnings.
bool names_row(const std::string& where, const std::string& row) {
  for (std::string part : split(where, ';')) {
    part.erase(0, part.find_first_not_of(' '));
    part = part.substr(0, part.find(": "));
    if (!part.empty() && (row.starts_with(part) || part.starts_with(row))) return true;
  }
  return false;
}

bool is_about_the_table(const std::string& where) {
  return where == "ratios" || where == "90 %, 95 %, 99 %" || where == "standard deviations";
}

bool concerns(const Finding& finding, const Printed& number) {
  if (number.file != finding.file || number.table->name != finding.table) return false;
  return is_about_the_table(finding.where) ||
         names_batch(finding.where, number.expect->scope().batch()) ||
         names_row(finding.where, number.where());
}

bool is_truncated(const v1::Expect& e) { return e.rounding() == v1::Expect::TRUNCATED; }

bool has_named_estimator(const v1::Expect& e) {
  return e.has_tail() && e.tail().q().def() != v1::Quantile::NEAREST_RANK;
}

bool has_scale(const v1::Expect& e) {
  return e.mean_std().std_scale() > 0 || e.spread().scale() > 0 || e.lender().std_scale() > 0;
}

bool has_run_count(const v1::Expect& e) { return e.single().n() > 1; }

bool borrows_spread(const v1::Expect& e) { return !e.spread_from().empty() || e.has_lender(); }

struct Answer {
  std::string word;
  std::function<bool(const v1::Expect&)> given;
};

const Answer kSuspect = {"suspect", [](const v1::Expect& e) { return e.has_suspect(); }};

std::vector<Answer> answers_for(const std::string& check) {
  static const std::map<std::string, std::vector<Answer>> kOthers = {
      {"rounding", {{"rounding", is_truncated}}},
      {"sample", {{"rounding", is_truncated}}},
      {"estimator", {{"estimator", has_named_estimator}}},
      {"unit", {{"scale", has_scale}}},
      {"copies", {kSuspect, {"number of runs", has_run_count}}},
      {"spread", {kSuspect, {"borrowed spread", borrows_spread}}}};
  const auto found = kOthers.find(check);
  return found == kOthers.end() ? std::vector<Answer>{kSuspect} : found->second;
}

// The setting of a recipe that a sentence or a setting of the document is about.
std::string setting_of(const std::string& where) {
  static const std::map<std::string, std::string> kSettings = {
      {"repeats", "bench.train.repeats"},
      {"stability.runs", "trials.count"},
      {"inference.batches", "bench.infer.batch"},
      {"inference.latency_unit", "bench.infer.timing_span"},
      {"training.container", "platform.software"}};
  for (const auto& [subject, setting] : kSettings) {
    if (where.starts_with(subject)) return setting;
  }
  return where;
}

// "dgx_a100" of "inference.batches.dgx_a100"; "" if the sentence is about no machine.
std::string machine_of(const std::string& where) {
  const std::string last = where.substr(where.rfind('.') + 1);
  return last.starts_with("dgx") || last == "t4" ? last : "";
}

bool has_deviation(const Corpus& corpus, const Finding& finding) {
  const std::string setting = setting_of(finding.where), machine = machine_of(finding.where);
  return std::any_of(corpus.numbers.begin(), corpus.numbers.end(), [&](const Printed& number) {
    if (number.file != finding.file || number.recipe->id().find(machine) == std::string::npos)
      return false;
    const auto& deviations = number.recipe->deviation();
    return std::any_of(deviations.begin(), deviations.end(),
                       [&](const v1::Deviation& d) { return d.path() == setting; });
  });
}

}  // namespace

std::string answer_to(const Corpus& corpus, const Finding& finding) {
  if (finding.check == "difference") return "none needed";
  if (finding.check == "text" || finding.check == "settings")
    return has_deviation(corpus, finding) ? "deviation" : "";
  for (const Answer& answer : answers_for(finding.check)) {
    for (const Printed& number : corpus.numbers) {
      if (concerns(finding, number) && answer.given(*number.expect)) return answer.word;
    }
  }
  return "";
}

}  // namespace reciperun::lint
