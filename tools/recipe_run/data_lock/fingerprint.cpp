#include "tools/recipe_run/data_lock/fingerprint.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/data_lock/container.h"
#include "tools/recipe_run/data_lock/merkle.h"
#include "tools/recipe_run/data_lock/sampled.h"
#include "tools/recipe_run/run_record/record.h"

namespace reciperun {
namespace {

constexpr size_t kFewFiles = 64;         // stand in the lock itself
constexpr size_t kSamplesAtATime = 256;  // read by one thread, digested by all

void check_stop(const std::atomic<bool>& stop) {
  if (stop.load()) throw Error(Exit::kInterrupted, "stopped while reading the data");
}

// Calls `work(i)` for all i below `count` on every core; raises the first failure.
void on_every_core(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto loop = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard<std::mutex> guard(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back(loop);
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

void digest_pending(std::vector<RawSample>& pending, const PictureDecoder& decoder,
                    std::vector<SampleDigest>& out) {
  const size_t first = out.size();
  out.resize(first + pending.size());
  on_every_core(pending.size(), [&](size_t i) { out[first + i] = digest_of(pending[i], decoder); });
  pending.clear();
}

std::vector<SampleDigest> digest_split(const Container& container, const ContainerSplit& split,
                                       const PictureDecoder& decoder, Progress& progress,
                                       const std::atomic<bool>& stop) {
  std::vector<SampleDigest> out;
  std::vector<RawSample> pending;
  container.read(split.name, [&](RawSample&& sample) {
    pending.push_back(std::move(sample));
    if (pending.size() < kSamplesAtATime) return;
    digest_pending(pending, decoder, out);
    check_stop(stop);
    progress.update(static_cast<double>(out.size()) / static_cast<double>(split.samples),
                    std::to_string(out.size()) + " of " + std::to_string(split.samples));
  });
  digest_pending(pending, decoder, out);
  if (out.size() != split.samples) {
    throw Error(Exit::kDataMismatch,
                "split '" + split.name + "' holds " + std::to_string(out.size()) +
                    " samples, its manifest says " + std::to_string(split.samples),
                "convert the data set again");
  }
  std::sort(out.begin(), out.end());
  return out;
}

void add_labels(const std::vector<SampleDigest>& samples, data::Split& out) {
  std::map<std::string, uint64_t> counts;
  for (const SampleDigest& sample : samples) ++counts[sample.label];
  std::string text;
  for (const auto& [label, count] : counts) text += label + "\t" + std::to_string(count) + "\n";
  out.set_labels(counts.size() == 1 && counts.contains("") ? 0 : counts.size());
  out.set_label_histogram(sha256_hex(text));
}

std::vector<std::string> sorted_contents(const std::vector<SampleDigest>& samples) {
  std::vector<std::string> out;
  for (const SampleDigest& sample : samples) out.push_back(sample.content);
  std::sort(out.begin(), out.end());
  return out;
}

// The same picture in two splits makes what is learned from one known in the other.
void add_overlaps(const SplitSamples& samples, data::Entry& entry) {
  std::map<std::string, std::vector<std::string>> contents;
  for (const auto& [name, list] : samples) contents[name] = sorted_contents(list);
  for (data::Split& split : *entry.mutable_split()) {
    for (const auto& [other, theirs] : contents) {
      if (other == split.name()) continue;
      const auto& ours = contents.at(split.name());
      const auto shared = std::count_if(ours.begin(), ours.end(), [&](const std::string& c) {
        return std::binary_search(theirs.begin(), theirs.end(), c);
      });
      if (shared == 0) continue;
      data::Overlap& overlap = *split.add_overlap();
      overlap.set_split(other);
      overlap.set_samples(static_cast<uint64_t>(shared));
    }
  }
}

std::string root_over(const std::vector<data::File>& files,
                      const std::string& (data::File::*digest)() const) {
  std::vector<std::string> leaves;
  leaves.reserve(files.size());
  for (const data::File& file : files)
    leaves.push_back(file.path() + '\n' + std::to_string(file.bytes()) + '\n' + (file.*digest)());
  return merkle_root(leaves);
}

}  // namespace

std::vector<data::File> digest_files(const fs::path& folder, Reading reading, Progress& progress,
                                     const std::atomic<bool>& stop) {
  std::vector<data::File> files;
  uint64_t bytes = 0;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    if (it->path().filename().string()[0] == '.' && it->is_directory())
      it.disable_recursion_pending();
    if (it->path().filename().string()[0] == '.' || !it->is_regular_file()) continue;
    data::File file;
    file.set_path(it->path().lexically_relative(folder).generic_string());
    file.set_bytes(it->file_size());
    bytes += file.bytes();
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const data::File& a, const data::File& b) { return a.path() < b.path(); });
  uint64_t done = 0;
  for (data::File& file : files) {
    check_stop(stop);
    progress.update(bytes == 0 ? 1 : static_cast<double>(done) / static_cast<double>(bytes),
                    file.path());
    const fs::path path = folder / file.path();
    if (reading != Reading::kSampled) file.set_sha256(sha256_of_file(path));
    if (reading != Reading::kWhole)
      file.set_sampled(sampled_sha256(path, file.path(), file.bytes()));
    done += file.bytes();
  }
  return files;
}

std::string files_root(const std::vector<data::File>& files) {
  return root_over(files, &data::File::sha256);
}

std::string sampled_root(const std::vector<data::File>& files) {
  return root_over(files, &data::File::sampled);
}

SplitSamples digest_samples(const fs::path& folder, const PictureDecoder& decoder,
                            Progress& progress, const std::atomic<bool>& stop) {
  const auto container = open_container(folder);
  SplitSamples out;
  for (const ContainerSplit& split : container->splits) {
    progress.begin(folder.filename().string() + ", samples of " + split.name);
    out[split.name] = digest_split(*container, split, decoder, progress, stop);
  }
  return out;
}

std::string content_root(const std::vector<SampleDigest>& samples) {
  std::vector<std::string> leaves;
  leaves.reserve(samples.size());
  for (const SampleDigest& sample : samples) leaves.push_back(sample.leaf());
  return merkle_root(leaves);
}

Fingerprint fingerprint_of(const std::string& id, const fs::path& folder,
                           const PictureDecoder& decoder, Progress& progress,
                           const std::atomic<bool>& stop) {
  const auto container = open_container(folder);
  Fingerprint out;
  progress.begin(id + ", files");
  out.files = digest_files(folder, Reading::kBoth, progress, stop);
  out.samples = digest_samples(folder, decoder, progress, stop);
  data::Entry& entry = out.entry;
  entry.set_id(id);
  entry.set_dataset(container->dataset);
  entry.set_licence(container->licence);
  entry.set_date(utc_now());
  entry.set_files(out.files.size());
  for (const data::File& file : out.files) {
    entry.set_bytes(entry.bytes() + file.bytes());
    if (out.files.size() <= kFewFiles) *entry.add_file() = file;
  }
  entry.set_root(files_root(out.files));
  entry.set_sampled_root(sampled_root(out.files));
  for (const ContainerSplit& split : container->splits) {
    const std::vector<SampleDigest>& samples = out.samples.at(split.name);
    data::Split& locked = *entry.add_split();
    locked.set_name(split.name);
    locked.set_samples(samples.size());
    locked.set_content_root(content_root(samples));
    locked.set_records(split.records);
    add_labels(samples, locked);
    if (!samples.empty() && samples[0].decoded) entry.set_decoder(decoder.name);
  }
  add_overlaps(out.samples, entry);
  return out;
}

}  // namespace reciperun
