#include "sdk/data/sample_cache.h"

#include <cstdlib>
#include <cstring>

namespace assay::data {

SampleCache::~SampleCache() {
  for (auto& entry : entries_) std::free(entry.load(std::memory_order_relaxed));
}

std::optional<std::string_view> SampleCache::find(int64_t index) const {
  if (entries_.empty()) return std::nullopt;
  const char* entry = entries_[static_cast<size_t>(index)].load(std::memory_order_acquire);
  if (entry == nullptr) return std::nullopt;
  uint64_t length;
  std::memcpy(&length, entry, sizeof length);
  return std::string_view(entry + sizeof length, length);
}

void SampleCache::store(int64_t index, std::string_view prepared) {
  const uint64_t length = prepared.size();
  const uint64_t bytes = length + sizeof length;
  if (entries_.empty()) return;
  // Reserved before it is taken: memory stays below the budget, near which two threads may both
  // give up.
  if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes > budget_) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return;
  }
  char* entry = static_cast<char*>(std::malloc(bytes));
  char* absent = nullptr;
  if (entry != nullptr) {
    std::memcpy(entry, &length, sizeof length);
    std::memcpy(entry + sizeof length, prepared.data(), length);
    // Published whole, by the release; find acquires it.
    if (entries_[static_cast<size_t>(index)].compare_exchange_strong(absent, entry,
                                                                     std::memory_order_acq_rel)) {
      return;
    }
  }
  std::free(entry);
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace assay::data
