// A point in a stream's work, and the time when it was reached.
#pragma once

#include "sdk/backend/cuda/check.h"

namespace assay::cuda {

class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "making an event"); }
  ~TimedEvent() { ignore(cudaEventDestroy(event_)); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_, stream), "recording an event");
  }
  // Until the work before its last record is over.
  void wait() const { check(cudaEventSynchronize(event_), "waiting for an event"); }
  // Both must be reached.
  float milliseconds_since(const TimedEvent& earlier) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "reading an event");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace assay::cuda
