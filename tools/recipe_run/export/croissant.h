// A locked data set as MLCommons' Croissant 1.0 metadata (docs.mlcommons.org/croissant): its files
// with their SHA-256, its licence, and what is locked of its splits.
#pragma once

#include <string>

#include "tools/recipe_run/data_lock/data_lock.pb.h"

namespace reciperun {

// Files are named relative to the data set's folder. A data set of more files than data.lock lists
// is one file set with its Merkle root in words.
std::string croissant_json(const data::Entry& entry);

}  // namespace reciperun
