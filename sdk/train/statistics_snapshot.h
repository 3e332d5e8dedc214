// The running statistics of a model as they were, for an update that is not done after all.
#pragma once

#include <cstddef>
#include <vector>

#include "sdk/runtime/segments.h"

namespace assay::train {

class StatisticsSnapshot {
 public:
  explicit StatisticsSnapshot(Segments& segments);  // reserves the memory
  void take();
  void put_back() const;

 private:
  Segments& segments_;
  std::vector<SegmentTensor> tensors_;
  std::vector<std::byte> saved_;
};

}  // namespace assay::train
