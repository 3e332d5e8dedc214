// The running statistics of a model as they were, for an update that is not done after all.
#pragma once

#include "sdk/runtime/segments.h"

namespace assay::train {

// The copy stays on the device: neither call waits for it. Its memory is taken by the first take.
class StatisticsSnapshot {
 public:
  explicit StatisticsSnapshot(const Segments& segments) : segments_(segments) {}
  void take();
  void put_back() const;  // after a take

 private:
  const Segments& segments_;
  std::unique_ptr<Memory> saved_;
};

}  // namespace assay::train
