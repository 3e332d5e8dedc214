// SHA256SUMS: the digest of every file of a run, in the format of sha256sum, so that an edit shows.
//
// Covered is what a run keeps: the files of its folder and of env/, and of every trial and bench
// repeat that has a result. Not covered are a trial that is still to be continued, and report/,
// which is computed from the rest. A seal tells edits, not forgers: who can write the folder can
// also write a new seal, so publish the seal's own digest, or sign it, where that matters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/recipe_run/util/file.h"

namespace reciperun {

inline constexpr char kSealFile[] = "SHA256SUMS";

// Paths relative to `run`, with "/" between folders, to digests.
using Digests = std::map<std::string, std::string>;

// Of every covered file, read in pieces.
Digests covered_digests(const fs::path& run);

void write_seal(const fs::path& run, const Digests& digests);

enum class RunState { kClosed, kRunning };

// What does not fit the seal, one sentence for each file; empty if nothing. While a run is running,
// or after it was killed, only the results that are already sealed must be as they were.
std::vector<std::string> seal_problems(const fs::path& run, RunState state);

}  // namespace reciperun
