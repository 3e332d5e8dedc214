// `recipe-run data lock` and `recipe-run data verify`.
#include "tools/recipe_run/cli/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

fs::path lock_file(const fs::path& root, const DataArguments& arguments) {
  return arguments.lock.empty() ? root / kDataLockFile : fs::path(arguments.lock);
}

fs::path folder_of(const DataArguments& arguments, const std::string& name) {
  require(arguments.folder.empty() || arguments.names.size() == 1,
          "--folder needs exactly one data set name");
  return arguments.folder.empty() ? fs::path(arguments.data) / name : fs::path(arguments.folder);
}

const data::Entry& require_entry(const data::Lock& lock, const std::string& name) {
  if (const data::Entry* entry = find_entry(lock, name)) return *entry;
  std::vector<std::string> ids;
  for (const data::Entry& entry : lock.entry()) ids.push_back(entry.id());
  throw Error(Exit::kUsage, fmt::format("data.lock has no data set '{}'", name),
              fmt::format("'recipe-run data lock {}' puts it there; it has: {}", name,
                          ids.empty() ? "none" : join(ids, ", ")));
}

// Those named, or all of the lock.
std::vector<data::Entry> wanted(const data::Lock& lock, const DataArguments& arguments) {
  std::vector<data::Entry> out;
  for (const std::string& name : arguments.names) out.push_back(require_entry(lock, name));
  if (arguments.names.empty()) out.assign(lock.entry().begin(), lock.entry().end());
  return out;
}

std::string entry_text(const data::Entry& entry) {
  std::string text =
      fmt::format("{}: data set {}, licence {}\n  {} files, {} MB\n", entry.id(), entry.dataset(),
                  entry.licence().empty() ? "not stated" : entry.licence(), entry.files(),
                  significant(static_cast<double>(entry.bytes()) / 1e6, 3));
  for (const data::Split& split : entry.split())
    text += fmt::format("  {:<8} {} samples, content {}\n", split.name(), split.samples(),
                        split.content_sha256());
  return text;
}

}  // namespace

Exit data_lock_command(const fs::path& root, const DataArguments& arguments,
                       const DriverFactory& make_driver) {
  const std::atomic<bool>& stop = stop_on_signals();
  const auto driver = make_driver("cpu", 0);
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, arguments.quiet);
  for (const std::string& name : arguments.names) {
    const fs::path folder = folder_of(arguments, name);
    data::Entry entry = entry_of(name, folder, driver->describe_data(folder), progress, stop);
    entry.set_date(utc_now());
    write_entry(lock_file(root, arguments), entry);
    progress.end("locked");
    print(entry_text(entry));
  }
  print(fmt::format("written to {}\n", lock_file(root, arguments).string()));
  return Exit::kOk;
}

Exit data_verify_command(const fs::path& root, const DataArguments& arguments,
                         const DriverFactory& make_driver) {
  const std::atomic<bool>& stop = stop_on_signals();
  const auto driver = make_driver("cpu", 0);
  const data::Lock lock = read_lock(lock_file(root, arguments));
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, arguments.quiet);
  bool same = true;
  int compared = 0;
  for (const data::Entry& entry : wanted(lock, arguments)) {
    const fs::path folder = folder_of(arguments, entry.id());
    if (arguments.names.empty() && !is_there(folder)) {
      print(fmt::format("{}: not here ({})\n", entry.id(), folder.string()));
      continue;
    }
    const data::Entry found =
        entry_of(entry.id(), folder, driver->describe_data(folder), progress, stop);
    progress.end("read");
    ++compared;
    const std::vector<std::string> problems = lock_differences(entry, found);
    same = same && problems.empty();
    print(fmt::format("{}: {}\n", entry.id(),
                      problems.empty() ? "as locked, file by file" : "DIFFERS from the lock"));
    for (const std::string& problem : problems) print(fmt::format("  {}\n", problem));
  }
  if (compared == 0)
    throw Error(Exit::kDataMismatch, "none of the data sets of data.lock is here",
                "name their folder with --data, or one data set and its --folder");
  return same ? Exit::kOk : Exit::kDataMismatch;
}

}  // namespace reciperun
