#include "sdk/train/statistics_snapshot.h"

namespace assay::train {

StatisticsSnapshot::StatisticsSnapshot(Segments& segments)
    : segments_(segments), tensors_(segments.all()) {
  std::erase_if(tensors_, [](const SegmentTensor& t) { return t.role != Role::kStatistic; });
  size_t bytes = 0;
  for (const SegmentTensor& tensor : tensors_) bytes += tensor.bytes();
  saved_.resize(bytes);
}

void StatisticsSnapshot::take() {
  std::byte* to = saved_.data();
  for (const SegmentTensor& tensor : tensors_) {
    segments_.backend().read(to, tensor.data, tensor.bytes());
    to += tensor.bytes();
  }
}

void StatisticsSnapshot::put_back() const {
  const std::byte* from = saved_.data();
  for (const SegmentTensor& tensor : tensors_) {
    segments_.backend().write(tensor.data, from, tensor.bytes());
    from += tensor.bytes();
  }
}

}  // namespace assay::train
