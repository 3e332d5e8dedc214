// in-toto attestations (github.com/in-toto/attestation): statements about the files of a run.
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/data_lock/lock_file.h"
#include "tools/recipe_run/export/export.h"
#include "tools/recipe_run/recipe/canonical.h"
#include "tools/recipe_run/run_record/json_file.h"
#include "tools/recipe_run/run_record/seal.h"

namespace reciperun {
namespace {

constexpr char kBuildType[] = "urn:assay:recipe-run:training:1";
constexpr char kBuilder[] = "urn:assay:recipe-run";

void write_resource(JsonWriter& json, const std::string& name, const std::string& sha256) {
  json.begin_object().field("name", name).key("digest").begin_object();
  json.field("sha256", sha256).end_object().end_object();
}

// What was measured: results and step times.
bool is_subject(const std::string& file) {
  return file.ends_with("/metrics.json") || file.ends_with("/result.json") ||
         file.ends_with("/steps.bin");
}

JsonWriter begin_statement(const RunRecord& run, const std::string& predicate) {
  JsonWriter json(1);
  json.begin_object().field("_type", "https://in-toto.io/Statement/v1").key("subject");
  json.begin_array();
  for (const auto& [file, digest] : covered_digests(run.folder())) {
    if (is_subject(file)) write_resource(json, file, digest);
  }
  json.end_array().field("predicateType", predicate).key("predicate").begin_object();
  return json;
}

std::string text_of(JsonWriter& json) { return json.end_object().end_object().text() + "\n"; }

std::string result_word(const Report& report) {
  if (report.exit == Exit::kDiffers) return "FAILED";
  return report.exit == Exit::kOk ? "PASSED" : "WARNED";
}

void write_rows(JsonWriter& json, const Report& report, const std::string& name,
                std::initializer_list<Verdict> verdicts) {
  json.key(name).begin_array();
  for (const Row& row : report.rows) {
    for (const Verdict verdict : verdicts) {
      if (row.judgement.verdict == verdict) json.value(row.id);
    }
  }
  json.end_array();
}

}  // namespace

std::string test_result_statement(const RunRecord& run, const Report& report) {
  JsonWriter json = begin_statement(run, "https://in-toto.io/attestation/test-result/v0.1");
  json.field("result", result_word(report)).key("configuration").begin_array();
  write_resource(json, run.info().recipe() + " executed", run.info().exec_digest());
  write_resource(json, run.info().recipe() + " expected", run.info().expect_digest());
  json.end_array();
  write_rows(json, report, "passedTests",
             {Verdict::kReproduced, Verdict::kWithinTolerance, Verdict::kDiffersBetter});
  write_rows(
      json, report, "warnedTests",
      {Verdict::kInconclusive, Verdict::kInvalid, Verdict::kNotComparable, Verdict::kNotRun});
  write_rows(json, report, "failedTests", {Verdict::kDiffersWorse});
  return text_of(json);
}

std::string provenance_statement(const RunRecord& run) {
  const record::Run& info = run.info();
  JsonWriter json = begin_statement(run, "https://slsa.dev/provenance/v1");
  json.key("buildDefinition").begin_object().field("buildType", kBuildType);
  json.key("externalParameters").begin_object().field("recipe", info.recipe());
  json.field("version", info.recipe_version());
  json.key("resolved").raw(canonical_json(run.recipe())).end_object();
  json.key("internalParameters").begin_object().field("engine", info.engine());
  json.field("device", info.device()).end_object();
  json.key("resolvedDependencies").begin_array();
  record::Lock lock;
  read_json(run.folder() / "recipe.lock", lock);
  for (const record::Base& base : lock.base())
    write_resource(json, "recipe " + base.id() + " " + base.version(), base.sha256());
  const data::Lock data = read_lock(run.folder() / kDataLockFile);
  for (const data::Entry& entry : data.entry())
    write_resource(json, "data set " + entry.id(), entry.root());
  json.end_array().end_object();
  json.key("runDetails").begin_object().key("builder").begin_object().field("id", kBuilder);
  json.end_object().key("metadata").begin_object().field("invocationId", info.id());
  json.field("startedOn", info.created()).field("finishedOn", info.updated());
  json.end_object().end_object();
  return text_of(json);
}

}  // namespace reciperun
