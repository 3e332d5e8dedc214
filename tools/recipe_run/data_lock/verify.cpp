#include "tools/recipe_run/data_lock/verify.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/data_lock/container.h"

namespace reciperun {
namespace {

constexpr size_t kShown = 10;  // of what differs in one split

// What differs between the locked files and those found, as far as the lock lists them.
std::vector<std::string> file_differences(const data::Entry& entry,
                                          const std::vector<data::File>& found) {
  std::map<std::string, const data::File*> there;
  for (const data::File& file : found) there[file.path()] = &file;
  std::vector<std::string> out;
  for (const data::File& locked : entry.file()) {
    const auto it = there.find(locked.path());
    if (it == there.end()) {
      out.push_back("file " + locked.path() + " is missing");
    } else if (it->second->bytes() != locked.bytes()) {
      out.push_back("file " + locked.path() + " has " + std::to_string(it->second->bytes()) +
                    " bytes, locked with " + std::to_string(locked.bytes()));
    } else if (it->second->sha256() != locked.sha256() && !it->second->sha256().empty()) {
      out.push_back("file " + locked.path() + " has another SHA-256");
    } else if (it->second->sampled() != locked.sampled() && it->second->sha256().empty()) {
      out.push_back("file " + locked.path() + " has other bytes");
    }
    if (it != there.end()) there.erase(it);
  }
  for (const auto& [path, file] : there) {
    if (entry.file_size() > 0) out.push_back("file " + path + " is not in the lock");
  }
  return out;
}

std::string described(const SampleDigest& sample) {
  return sample.where + (sample.label.empty() ? "" : " (label " + sample.label + ")") +
         ", SHA-256 " + sample.content.substr(0, 16);
}

void add_shown(const std::vector<SampleDigest>& samples, const std::string& split,
               const std::string& words, std::vector<std::string>& out) {
  for (size_t i = 0; i < std::min(samples.size(), kShown); ++i)
    out.push_back("split " + split + ": " + described(samples[i]) + " " + words);
  if (samples.size() > kShown)
    out.push_back("split " + split + ": " + std::to_string(samples.size() - kShown) + " more " +
                  words);
}

void compare_split(const data::Split& locked, const std::vector<SampleDigest>& found,
                   const std::optional<std::vector<SampleDigest>>& list, DataCheck& out) {
  if (content_root(found) == locked.content_root()) return;
  out.problems.push_back("split " + locked.name() + ": other samples than locked (" +
                         std::to_string(found.size()) + ", locked " +
                         std::to_string(locked.samples()) + ")");
  if (!list) {
    out.notes.push_back("which samples of " + locked.name() +
                        " differ is told where 'data lock' left its lists (data.lock.lists/)");
    return;
  }
  std::vector<SampleDigest> changed, missing;
  std::set_difference(found.begin(), found.end(), list->begin(), list->end(),
                      std::back_inserter(changed));
  std::set_difference(list->begin(), list->end(), found.begin(), found.end(),
                      std::back_inserter(missing));
  add_shown(changed, locked.name(), "is not in the lock", out.problems);
  add_shown(missing, locked.name(), "is locked, and not here", out.problems);
}

// Counts are checked before anything is decoded.
bool counts_fit(const data::Entry& entry, const Container& container, DataCheck& out) {
  std::map<std::string, uint64_t> there;
  for (const ContainerSplit& split : container.splits) there[split.name] = split.samples;
  for (const data::Split& locked : entry.split()) {
    const auto it = there.find(locked.name());
    if (it == there.end()) {
      out.problems.push_back("split " + locked.name() + " is missing");
    } else if (it->second != locked.samples()) {
      out.problems.push_back("split " + locked.name() + " has " + std::to_string(it->second) +
                             " samples, locked with " + std::to_string(locked.samples()));
    }
  }
  return out.problems.empty();
}

}  // namespace

DataCheck verify_sampled(const data::Entry& entry, const fs::path& folder, Progress& progress,
                         const std::atomic<bool>& stop) {
  if (entry.sampled_root().empty())
    throw Error(Exit::kUsage,
                "data set '" + entry.id() + "' was locked without samples of its bytes",
                "verify it without --fast, or lock it anew");
  DataCheck out;
  const auto container = open_container(folder);
  out.form = container->form;
  const bool counted = counts_fit(entry, *container, out);
  progress.begin(entry.id() + ", a hundredth of its bytes");
  const std::vector<data::File> files = digest_files(folder, Reading::kSampled, progress, stop);
  out.same_files = counted && sampled_root(files) == entry.sampled_root();
  out.same_samples = out.same_files;
  if (out.same_files) return out;
  const std::vector<std::string> different = file_differences(entry, files);
  out.problems.insert(out.problems.end(), different.begin(), different.end());
  out.notes.push_back("without --fast, other files with the same samples pass");
  return out;
}

DataCheck verify_data(const fs::path& lock, const data::Entry& entry, const fs::path& folder,
                      const PictureDecoder& decoder, Progress& progress,
                      const std::atomic<bool>& stop) {
  DataCheck out;
  const auto container = open_container(folder);
  out.form = container->form;
  const bool counted = counts_fit(entry, *container, out);
  progress.begin(entry.id() + ", files");
  const std::vector<data::File> files = digest_files(folder, Reading::kWhole, progress, stop);
  out.same_files = counted && files_root(files) == entry.root();
  out.same_samples = out.same_files;
  if (out.same_files) return out;
  const std::vector<std::string> different = file_differences(entry, files);
  SplitSamples samples;
  try {
    samples = digest_samples(folder, decoder, progress, stop);
  } catch (const Error& error) {
    if (error.exit_code() != Exit::kDataMismatch) throw;
    out.problems.insert(out.problems.end(), different.begin(), different.end());
    out.problems.push_back(error.what());
    return out;
  }
  for (const data::Split& split : entry.split()) {
    const auto found = samples.find(split.name());
    if (found != samples.end())
      compare_split(split, found->second, read_list(lock, entry.id(), split), out);
  }
  out.same_samples = out.problems.empty();
  auto& where = out.same_samples ? out.notes : out.problems;
  where.insert(where.begin(), different.begin(), different.end());
  return out;
}

}  // namespace reciperun
