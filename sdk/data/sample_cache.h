// Prepared samples kept in memory, up to a number of bytes, their places included. What does not
// fit is prepared anew in every epoch, so the budget changes the speed and never the result.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace assay::data {

// Any number of threads may call at once; a lookup takes no lock.
class SampleCache {
 public:
  // Keeps nothing where the budget is too small for the places of so many samples alone.
  SampleCache(int64_t samples, uint64_t budget_bytes)
      : entries_(budget_bytes / sizeof(char*) < static_cast<uint64_t>(samples)
                     ? 0
                     : static_cast<size_t>(samples)),
        budget_(budget_bytes),
        used_(entries_.size() * sizeof(char*)) {}
  SampleCache(const SampleCache&) = delete;
  ~SampleCache();

  // The bytes stay valid as long as the cache.
  std::optional<std::string_view> find(int64_t index) const;
  // Keeps a copy if it fits the budget; the first of two racing threads wins.
  void store(int64_t index, std::string_view prepared);
  uint64_t bytes() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::atomic<char*>> entries_;  // 8 bytes of length, then the data
  uint64_t budget_;
  std::atomic<uint64_t> used_;
};

}  // namespace assay::data
