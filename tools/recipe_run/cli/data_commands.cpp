#include "tools/recipe_run/cli/data_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/cli/signals.h"
#include "tools/recipe_run/data_lock/verify.h"

namespace reciperun {
namespace {

fs::path lock_file(const fs::path& root, const DataArguments& arguments) {
  return arguments.lock.empty() ? root / kDataLockFile : fs::path(arguments.lock);
}

fs::path folder_of(const DataArguments& arguments, const std::string& name) {
  if (!arguments.folder.empty() && arguments.names.size() != 1)
    throw Error(Exit::kUsage, "--folder needs exactly one data set name");
  return arguments.folder.empty() ? fs::path(arguments.data) / name : fs::path(arguments.folder);
}

const data::Entry& require_entry(const data::Lock& lock, const std::string& name) {
  if (const data::Entry* entry = find_entry(lock, name)) return *entry;
  std::vector<std::string> ids;
  for (const data::Entry& entry : lock.entry()) ids.push_back(entry.id());
  throw Error(Exit::kUsage, "data.lock has no data set '" + name + "'",
              ids.empty() ? "'recipe-run data lock " + name + "' puts it there"
                          : "it has: " + join(ids, ", "));
}

// Those named, or all of the lock.
std::vector<data::Entry> wanted(const data::Lock& lock, const DataArguments& arguments) {
  std::vector<data::Entry> out;
  for (const std::string& name : arguments.names) out.push_back(require_entry(lock, name));
  if (arguments.names.empty()) out.assign(lock.entry().begin(), lock.entry().end());
  return out;
}

void print_entry(const data::Entry& entry) {
  print(entry.id() + (entry.dataset().empty() ? "" : ", data set " + entry.dataset()) +
        (entry.licence().empty() ? "" : ", licence " + entry.licence()) + "\n");
  print("  files    " + std::to_string(entry.files()) + ", " +
        significant(static_cast<double>(entry.bytes()) / 1e6, 3) + " MB, root " + entry.root() +
        "\n");
  for (const data::Split& split : entry.split()) {
    print("  " + pad_right(split.name(), 8) + " " + std::to_string(split.samples()) + " samples" +
          (split.labels() > 0 ? " of " + std::to_string(split.labels()) + " labels" : "") +
          ", content " + split.content_root() + "\n");
    for (const data::Overlap& overlap : split.overlap()) {
      print("           " + std::to_string(overlap.samples()) +
            " of them have the same content as a sample of " + overlap.split() + "\n");
    }
  }
  print("  locked   " + entry.date() +
        (entry.decoder().empty() ? "" : ", images decoded by " + entry.decoder()) + "\n");
}

}  // namespace

int data_lock_command(const fs::path& root, const DataArguments& arguments,
                      const PictureDecoder& decoder) {
  const std::atomic<bool>& stop = stop_on_signals();
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, arguments.quiet);
  for (const std::string& name : arguments.names) {
    const Fingerprint fingerprint =
        fingerprint_of(name, folder_of(arguments, name), decoder, progress, stop);
    write_entry(lock_file(root, arguments), fingerprint);
    progress.end("locked");
    print_entry(fingerprint.entry);
  }
  print("written to " + lock_file(root, arguments).string() + "\n");
  return 0;
}

int data_verify_command(const fs::path& root, const DataArguments& arguments,
                        const PictureDecoder& decoder) {
  const std::atomic<bool>& stop = stop_on_signals();
  const fs::path file = lock_file(root, arguments);
  const data::Lock lock = read_lock(file);
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, arguments.quiet);
  bool same = true;
  for (const data::Entry& entry : wanted(lock, arguments)) {
    const fs::path folder = folder_of(arguments, entry.id());
    std::error_code ignored;
    if (arguments.names.empty() && !fs::exists(folder, ignored)) {
      print(entry.id() + ": not here (" + folder.string() + ")\n");
      continue;
    }
    const DataCheck check = arguments.fast
                                ? verify_sampled(entry, folder, progress, stop)
                                : verify_data(file, entry, folder, decoder, progress, stop);
    progress.end("read");
    same = same && check.same_samples;
    print(entry.id() + ": " +
          (check.same_files
               ? std::string(arguments.fast ? "as locked, by sizes and a hundredth of the bytes"
                                            : "as locked, file by file")
           : check.same_samples ? "other files (" + check.form + "), the same samples as locked"
                                : "DIFFERS from the lock") +
          "\n");
    for (const std::string& problem : check.problems) print("  " + problem + "\n");
    for (const std::string& note : check.notes) print("  note: " + note + "\n");
  }
  return static_cast<int>(same ? Exit::kOk : Exit::kDataMismatch);
}

int data_show_command(const fs::path& root, const DataArguments& arguments) {
  const data::Lock lock = read_lock(lock_file(root, arguments));
  if (lock.entry().empty())
    print("nothing is locked in " + lock_file(root, arguments).string() + "\n");
  for (const data::Entry& entry : wanted(lock, arguments)) print_entry(entry);
  return 0;
}

}  // namespace reciperun
