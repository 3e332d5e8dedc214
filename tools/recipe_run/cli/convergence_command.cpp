// `recipe-run convergence`: MLPerf's convergence-point check, and our own test beside it.
#include <google/protobuf/struct.pb.h>

#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/statistics/convergence.h"
#include "tools/recipe_run/statistics/mean_tests.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

// Runs of a submission and runs forgiven at either end, per benchmark of MLPerf Training and HPC.
ConvergenceRules rules_of(const std::string& benchmark, int runs) {
  static const std::map<std::string, ConvergenceRules> kKnown = {
      {"resnet", {5, 1}},  {"ssd", {5, 1}},   {"maskrcnn", {5, 1}},  {"dlrm", {5, 1}},
      {"bert", {10, 1}},   {"rnnt", {10, 1}}, {"unet3d", {40, 4}},   {"dlrm_dcnv2", {5, 1}},
      {"deepcam", {5, 1}}, {"oc20", {5, 1}},  {"cosmoflow", {10, 1}}};
  const auto known = kKnown.find(benchmark);
  if (runs == 0 && known == kKnown.end()) {
    throw Error(Exit::kUsage, "how many runs make a submission of '" + benchmark + "' is not known",
                "say it with --runs");
  }
  ConvergenceRules out = known == kKnown.end() ? ConvergenceRules{} : known->second;
  if (runs > 0) out.submission_runs = runs;
  return out;
}

struct Reference {
  std::string benchmark;
  std::map<double, std::vector<double>> epochs;  // by batch size
};

// The checker's own files: an object of records with "Benchmark", "BS" and "Epochs to converge".
Reference read_reference(const std::string& file) {
  pb::Struct json;
  if (const std::string problem = parse_json(read_file(file), json); !problem.empty())
    throw Error(Exit::kUsage, "'" + file + "' is not JSON: " + problem);
  Reference out;
  for (const auto& [name, record] : json.fields()) {
    const auto& fields = record.struct_value().fields();
    const auto batch = fields.find("BS");
    const auto epochs = fields.find("Epochs to converge");
    const auto benchmark = fields.find("Benchmark");
    if (batch == fields.end() || epochs == fields.end() || benchmark == fields.end()) {
      throw Error(Exit::kUsage, "'" + file + "': record '" + name +
                                    "' lacks Benchmark, BS or 'Epochs to converge'");
    }
    out.benchmark = benchmark->second.string_value();
    std::vector<double>& values = out.epochs[batch->second.number_value()];
    for (const pb::Value& v : epochs->second.list_value().values())
      values.push_back(v.number_value());
  }
  if (out.epochs.empty()) throw Error(Exit::kUsage, "'" + file + "' has no reference");
  return out;
}

// The question that the checker does not ask: is it a difference at all, in either direction?
std::string welch_text(const Reference& reference, const ConvergenceArguments& arguments) {
  const auto same = reference.epochs.find(arguments.batch);
  if (same == reference.epochs.end() || same->second.size() < 2 || arguments.epochs.size() < 2)
    return "";
  const MeanComparison c = welch(summarise(same->second), summarise(arguments.epochs));
  return "Welch, all runs  " + signed_fixed(c.delta, 3) + " epochs, 95 % interval " +
         signed_fixed(c.interval95.lower, 3) + " … " + signed_fixed(c.interval95.upper, 3) +
         ", p " + fixed(c.p, 4) + "\n";
}

}  // namespace

int convergence_command(const ConvergenceArguments& arguments) {
  const Reference reference = read_reference(arguments.reference);
  const ConvergenceRules rules = rules_of(reference.benchmark, arguments.runs);
  ConvergenceCheck check;
  try {
    std::vector<ConvergencePoint> points;
    for (const auto& [batch, epochs] : reference.epochs)
      points.push_back(convergence_point(batch, epochs, rules));
    check = check_convergence(arguments.full ? points : pruned(points, rules), arguments.batch,
                              arguments.epochs, rules);
  } catch (const std::domain_error& error) {
    throw Error(Exit::kUsage, error.what());
  }
  std::string text = reference.benchmark + ", batch " + shortest(arguments.batch) + ": " +
                     (check.passed ? "PASSED" : "FAILED") + ", " + check.text + "\n";
  if (check.point) {
    text += "reference        mean " + fixed(check.point->mean, 3) + ", sd " +
            fixed(check.point->sd, 3) + ", at least " + fixed(check.point->least_mean, 3) +
            " accepted (speed-up " + fixed(check.point->max_speedup(), 3) + ")\n" +
            "submission       mean " + fixed(check.mean, 3) + "\n" + "score factor     " +
            fixed(check.score_factor, 4) + "\n";
  }
  text += welch_text(reference, arguments);
  print(text);
  return static_cast<int>(check.passed ? Exit::kOk : Exit::kDiffers);
}

}  // namespace reciperun
