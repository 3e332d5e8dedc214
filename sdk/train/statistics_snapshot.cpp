#include "sdk/train/statistics_snapshot.h"

namespace assay::train {

void StatisticsSnapshot::take() {
  const Memory& statistics = segments_.memory(Role::kStatistic);
  if (!saved_) saved_ = segments_.backend().allocate(statistics.bytes());
  segments_.backend().copy(saved_->data(), statistics.data(), statistics.bytes());
}

void StatisticsSnapshot::put_back() const {
  segments_.backend().copy(segments_.memory(Role::kStatistic).data(), saved_->data(),
                           saved_->bytes());
}

}  // namespace assay::train
