// How many threads the OpenMP regions of the calling thread take.
#pragma once

#include <omp.h>

namespace assay::cpu {

// oneDNN takes the number of threads from the calling thread's OpenMP setting; put the host's back
// afterwards.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace assay::cpu
