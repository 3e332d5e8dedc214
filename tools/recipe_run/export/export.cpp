#include "tools/recipe_run/export/export.h"

#include <algorithm>

#include "tools/recipe_run/data_lock/lock_file.h"
#include "tools/recipe_run/export/croissant.h"

namespace reciperun {
namespace {

// Those with a result, in order.
std::vector<fs::path> trial_folders(const RunRecord& run) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run.folder() / "trials", error)) {
    if (fs::exists(entry.path() / "metrics.json", error)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> export_formats() {
  return {"all", "junit", "gbench", "mllog", "dlll", "in-toto", "croissant"};
}

std::vector<fs::path> write_export(const RunRecord& run, const Report& report,
                                   const std::string& format) {
  std::vector<fs::path> written;
  const auto wanted = [&](const char* name) { return format == "all" || format == name; };
  const auto write = [&](const std::string& name, const std::string& text) {
    written.push_back(run.folder() / "export" / name);
    write_file_atomic(written.back(), text);
  };
  if (wanted("junit")) write("junit.xml", junit_xml(report));
  if (wanted("gbench")) write("benchmark.json", benchmark_json(report));
  if (wanted("in-toto")) {
    write("in-toto/test-result.json", test_result_statement(run, report));
    write("in-toto/provenance.json", provenance_statement(run));
  }
  const data::Lock lock = read_lock(run.folder() / kDataLockFile);
  for (const data::Entry& entry : lock.entry()) {
    if (wanted("croissant")) write("croissant/" + entry.id() + ".json", croissant_json(entry));
  }
  int number = 0;
  for (const fs::path& folder : trial_folders(run)) {
    if (wanted("mllog"))
      write("mllog/result_" + std::to_string(number++) + ".txt", mllog_text(run, folder));
    if (wanted("dlll"))
      write("dlll/" + folder.filename().string() + ".json", dlll_text(run, folder));
  }
  return written;
}

}  // namespace reciperun
