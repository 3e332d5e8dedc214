// Defaults and checks of the configuration of loaders (loader_config.proto).
#pragma once

#include "sdk/data/loader_config.pb.h"

namespace assay::data {

// Every default filled in: what reports show.
LoaderConfig with_defaults(LoaderConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault. Whether it fits the
// data is EpochOrder's to say.
void check(const LoaderConfig& config);

}  // namespace assay::data
