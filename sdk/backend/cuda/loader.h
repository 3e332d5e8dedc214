// Finds and opens the CUDA plug-in when somebody asks for a CUDA device. Thread-safe.
#pragma once

#include "sdk/backend/cuda/plugin.h"

namespace assay::cuda {

// Every CUDA device of this machine. If there is none that could be used, one entry of index 0 that
// says why: no plug-in, a library missing, no driver, driver too old, no device. Never fails. The
// list is made at the first call and lives for ever; memory_free is 0, not known.
const std::vector<Device>& devices();
// See PluginTable::memory_free; 0 where the plug-in cannot be opened.
uint64_t memory_free(int index);

// Fails with kUnsupported and the reason, kInvalid for an index that no device has.
std::unique_ptr<Backend> make_backend(const Options& options);
// See PluginTable::make_planner. Fails with kUnsupported where the plug-in cannot be opened.
std::unique_ptr<Backend> make_planner(const Target& target);

}  // namespace assay::cuda
