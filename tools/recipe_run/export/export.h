// A run in the formats of other tools, written below export/ in the run's folder. Each is computed
// from the record; none is ever read back.
//
//   junit     junit.xml            one test case per row of the report (junit.h)
//   gbench    benchmark.json       one entry per repeat of a bench, as Google Benchmark prints them
//   mllog     mllog/result_N.txt   one MLPerf Training log per trial, division "open"
//   dlll      dlll/seed-0001.json  one DLLogger log per trial
//   in-toto   in-toto/*.json       attestations: test-result.json and provenance.json
//   croissant croissant/ID.json    metadata of each locked data set of the run (croissant.h)
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/report/report.h"

namespace reciperun {

std::string junit_xml(const Report& report);

// real_time is the mean of the repeat's steps in ms. cpu_time repeats it, because readers demand
// the field and processor time is not measured.
std::string benchmark_json(const Report& report);

// `folder` is a trial's. Times are those of the event log: the initialisation ends when training
// starts; an evaluation is logged at its end only, so its start carries the time of its end. Caches
// are not cleared, and cache_clear says so.
std::string mllog_text(const RunRecord& run, const fs::path& folder);
std::string dlll_text(const RunRecord& run, const fs::path& folder);

// In-toto statements, not signed, about the files of results and step times: which rows passed, and
// (SLSA provenance) the resolved recipe, the files it came from, engine, machine and times.
std::string test_result_statement(const RunRecord& run, const Report& report);
std::string provenance_statement(const RunRecord& run);

std::vector<std::string> export_formats();

// Writes one format, or "all"; returns the files. A run without trials has no logs.
std::vector<fs::path> write_export(const RunRecord& run, const Report& report,
                                   const std::string& format);

}  // namespace reciperun
