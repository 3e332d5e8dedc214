// Which files a seal covers, their digests, and what does not fit them.
#include "tools/recipe_run/record/seal.h"

#include <optional>

#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr size_t kHexDigits = 64;

std::string slashed(const fs::path& path) { return path.generic_string(); }

// trials/seed-0001/metrics.json closes trials/seed-0001; bench/infer-d1-b1/rep-1/result.json its
// repeat.
bool is_open(const fs::path& run, const fs::path& relative) {
  const std::vector<std::string> parts = split(slashed(relative), '/');
  if (parts[0] == "trials" && parts.size() > 2)
    return !is_there(run / parts[0] / parts[1] / "metrics.json");
  if (parts[0] == "bench" && parts.size() > 3)
    return !is_there(run / parts[0] / parts[1] / parts[2] / "result.json");
  return false;
}

bool is_computed(const fs::path& relative) {
  const std::string first = relative.begin()->string();
  return first == kSealFile || first == "report";
}

std::vector<fs::path> covered_files(const fs::path& run) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(run, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path relative = entry->path().lexically_relative(run);
    if (!entry->is_directory() && !is_computed(relative) && !is_open(run, relative))
      out.push_back(relative);
  }
  if (error) throw Error(Exit::kCrashed, "cannot list '" + run.string() + "': " + error.message());
  return out;
}

bool is_digest(const std::string& text) {
  return text.size() == kHexDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Nothing if the text is not exactly what write_seal writes.
std::optional<Digests> parsed(const std::string& text) {
  Digests out;
  std::string again;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line.size() <= kHexDigits + 2 || !is_digest(line.substr(0, kHexDigits)))
      return std::nullopt;
    out[line.substr(kHexDigits + 2)] = line.substr(0, kHexDigits);
  }
  for (const auto& [path, digest] : out) again += digest + "  " + path + "\n";
  if (again != text) return std::nullopt;
  return out;
}

bool is_result(const std::string& path) {
  return path.rfind("trials/", 0) == 0 || path.rfind("bench/", 0) == 0;
}

}  // namespace

Digests covered_digests(const fs::path& run) {
  Digests out;
  for (const fs::path& file : covered_files(run)) out[slashed(file)] = sha256_of_file(run / file);
  return out;
}

void write_seal(const fs::path& run, const Digests& digests) {
  std::string text;
  for (const auto& [path, digest] : digests) text += digest + "  " + path + "\n";
  write_file_atomic(run / kSealFile, text);
}

std::vector<std::string> seal_problems(const fs::path& run, RunState state) {
  const bool running = state == RunState::kRunning;
  if (!is_there(run / kSealFile)) {
    if (running) return {};
    return {std::string(kSealFile) + " is missing: nothing shows that the files are as they were"};
  }
  const std::optional<Digests> sealed = parsed(read_file(run / kSealFile));
  if (!sealed) return {std::string(kSealFile) + " is not a list of digests and files, in order"};
  std::vector<std::string> problems;
  for (const auto& [path, digest] : *sealed) {
    if (running && !is_result(path)) continue;
    if (!is_there(run / path)) {
      problems.push_back(path + " is missing");
    } else if (sha256_of_file(run / path) != digest) {
      problems.push_back(path + " is not what was sealed (SHA-256 differs)");
    }
  }
  if (running) return problems;
  for (const fs::path& file : covered_files(run)) {
    if (sealed->count(slashed(file)) == 0)
      problems.push_back(slashed(file) + " was added after the run");
  }
  return problems;
}

}  // namespace reciperun
