#include "tools/common/error.h"

#include <algorithm>
#include <array>

namespace assay::tools {

Exit more_urgent(Exit a, Exit b) {
  static constexpr std::array kOrder = {Exit::kUsage,    Exit::kSourceChanged, Exit::kDataMismatch,
                                        Exit::kTampered, Exit::kCrashed,       Exit::kInterrupted,
                                        Exit::kDiffers,  Exit::kUndecided,     Exit::kNotRun,
                                        Exit::kOk};
  const auto rank = [](Exit e) { return std::find(kOrder.begin(), kOrder.end(), e); };
  return rank(a) <= rank(b) ? a : b;
}

}  // namespace assay::tools
