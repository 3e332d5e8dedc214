// What people are told of a configuration's keys.
#pragma once

#include <string>

#include "sdk/base/config.h"

namespace assay {

// What the key's member holds, before with_config_defaults what it is if nothing is given: "128",
// "\"mean\"", "[1, 2]"; "none" for an optional.
std::string default_text(const ConfigField& field);

// "[5, 512]" or "(0, 2^24)"; "" where any number will do, and of texts.
std::string range_text(const ConfigField& field);

}  // namespace assay
