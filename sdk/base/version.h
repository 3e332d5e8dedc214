// The version of the library; capi/ tells it to the world, checkpoints and reports carry it.
#pragma once

#include <string_view>

namespace assay {

inline constexpr std::string_view kLibraryVersion = "0.1.0";

}  // namespace assay
