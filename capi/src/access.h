// Who may use a piece of storage at the moment: one writer, or any number of readers.
//
// Nobody waits: whoever comes at the wrong time gets kBusy. One atomic per storage; a model, its
// trainer and the views of its weights share one.
#pragma once

#include <atomic>
#include <string_view>

#include "sdk/base/error.h"

namespace assay::capi {

class Access {
 public:
  bool try_share() {
    int32_t state = state_.load(std::memory_order_relaxed);
    while (state >= 0) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  bool try_own() {
    int32_t expected = 0;
    return state_.compare_exchange_strong(expected, -1, std::memory_order_acquire);
  }
  void end_share() { state_.fetch_sub(1, std::memory_order_release); }
  void end_own() { state_.store(0, std::memory_order_release); }

 private:
  std::atomic<int32_t> state_{0};  // -1: owned; n: n readers
};

class ExclusiveUse {
 public:
  ExclusiveUse(Access& access, std::string_view what) : access_(access) {
    require(access.try_own(), Code::kBusy, "the ", what, " is in use by another call");
  }
  ~ExclusiveUse() { access_.end_own(); }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  Access& access_;
};

class SharedUse {
 public:
  SharedUse(Access& access, std::string_view what) : access_(access) {
    require(access.try_share(), Code::kBusy, "the ", what, " is being changed by another call");
  }
  ~SharedUse() { access_.end_share(); }
  SharedUse(const SharedUse&) = delete;
  SharedUse& operator=(const SharedUse&) = delete;

 private:
  Access& access_;
};

}  // namespace assay::capi
