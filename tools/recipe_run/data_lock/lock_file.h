// data.lock on disk, and the lists beside it: <data.lock>.lists/<id>.<split>.tsv with the digest of
// every sample. The lock decides; a list only tells which sample differs, and is believed if it
// gives the locked root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/data_lock/data_lock.pb.h"
#include "tools/recipe_run/data_lock/fingerprint.h"

namespace reciperun {

inline constexpr uint32_t kDataLockSchema = 1;
inline constexpr char kDataLockFile[] = "data.lock";

// Of a missing file, an empty lock. Error kUsage with file, line and column if it is malformed.
data::Lock read_lock(const fs::path& file);
std::string lock_text(const data::Lock& lock);

const data::Entry* find_entry(const data::Lock& lock, const std::string& id);
const data::Split* find_split(const data::Entry& entry, const std::string& name);

// Puts the entry into the file, in place of one with its id, and the lists beside it.
void write_entry(const fs::path& file, const Fingerprint& fingerprint);

// The samples that were locked; absent if there is no list that gives the locked root.
std::optional<std::vector<SampleDigest>> read_list(const fs::path& file, const std::string& id,
                                                   const data::Split& split);

// The entries of the data that `recipe` names.
data::Lock entries_of(const data::Lock& lock, const v1::Recipe& recipe);

// Fails (Exit::kDataMismatch) if a data set of the recipe is there, locked, and of other records
// than the lock says by its manifest. Data without a manifest, and data that are not locked, pass.
void require_locked_data(const data::Lock& lock, const v1::Recipe& recipe);

}  // namespace reciperun
