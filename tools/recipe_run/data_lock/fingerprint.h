// What data.lock keeps of a data set, computed from its folder.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/data_lock/data_lock.pb.h"
#include "tools/recipe_run/data_lock/sample.h"
#include "tools/recipe_run/run/progress.h"

namespace reciperun {

// The samples of each split, sorted by label and content.
using SplitSamples = std::map<std::string, std::vector<SampleDigest>>;

struct Fingerprint {
  data::Entry entry;
  std::vector<data::File> files;  // all of them, by path
  SplitSamples samples;
};

// Of a file: all its bytes, a hundredth of them, or both.
enum class Reading { kWhole, kSampled, kBoth };

// Every file below `folder`, hidden ones left out, by path.
std::vector<data::File> digest_files(const fs::path& folder, Reading reading, Progress& progress,
                                     const std::atomic<bool>& stop);

// The root over them, and that over what was sampled of them.
std::string files_root(const std::vector<data::File>& files);
std::string sampled_root(const std::vector<data::File>& files);

// Decodes and digests every sample of a split, on all cores. Error kInterrupted once `stop` is set.
SplitSamples digest_samples(const fs::path& folder, const PictureDecoder& decoder,
                            Progress& progress, const std::atomic<bool>& stop);

// The root over the samples in the order of their leaves, so that neither container nor order
// matters: the order is that of the files, which have a root of their own.
std::string content_root(const std::vector<SampleDigest>& samples);

// Everything: the entry `id` of the data set in `folder`.
Fingerprint fingerprint_of(const std::string& id, const fs::path& folder,
                           const PictureDecoder& decoder, Progress& progress,
                           const std::atomic<bool>& stop);

}  // namespace reciperun
