// data.lock: which data the recipes mean, by the digest of every file and by the digest of each
// split's records, which the engine reports and a run compares before it trains.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/common/progress.h"
#include "tools/recipe_run/recipe/data_lock.pb.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {

inline constexpr char kDataLockFile[] = "data.lock";

// Reads data.lock. A missing file is an empty lock. Fails (Exit::kUsage) with file, line and column
// if the text is malformed.
data::Lock read_lock(const fs::path& file);
std::string lock_text(const data::Lock& lock);

const data::Entry* find_entry(const data::Lock& lock, const std::string& id);

// Puts the entry into the file, in place of one with its id.
void write_entry(const fs::path& file, const data::Entry& entry);

// The entries of the data that `recipe` names.
data::Lock entries_of(const data::Lock& lock, const v1::Recipe& recipe);

// Says what the manifest in a folder tells of a data set: name, licence and splits. Fails
// (Exit::kDataMismatch) if the folder holds none.
using DescribeData = std::function<data::Entry(const fs::path& folder)>;

// Computes the entry `id` of the data set in `folder` from `described` and the files. Fails
// (Exit::kInterrupted) once `stop` is set.
data::Entry entry_of(const std::string& id, const fs::path& folder, data::Entry described,
                     assay::tools::Progress& progress, const std::atomic<bool>& stop);

// One sentence for each split and each file in which `found` differs from what is locked.
std::vector<std::string> lock_differences(const data::Entry& locked, const data::Entry& found);

// Of every split that the recipe reads, "cifar10/train", the digest of its records as the manifest
// in its folder has it; nothing of a folder or split that is not there.
std::map<std::string, std::string> content_digests(const v1::Recipe& recipe,
                                                   const DescribeData& describe);

// Fails (Exit::kDataMismatch) if a data set of the recipe is there, locked, and of other records
// than the lock says by its manifest. Data that are not locked pass.
void require_locked_data(const data::Lock& lock, const v1::Recipe& recipe,
                         const std::map<std::string, std::string>& digests);

}  // namespace reciperun
