#include "sdk/data/loader_config.h"

#include <algorithm>
#include <limits>

#include "sdk/base/expect.h"

namespace assay::data {
namespace {

constexpr int64_t kMaxBatch = int64_t{1} << 24;
constexpr int64_t kMaxAccumulate = int64_t{1} << 20;

void expect_range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  expect(value >= low && value <= high, {"loader", key}, value, low, " to ", high);
}

}  // namespace

LoaderConfig with_defaults(LoaderConfig config) {
  if (config.order().empty()) config.set_order("shuffled");
  if (config.last_batch().empty()) config.set_last_batch("drop");
  if (config.world_size() == 0) config.set_world_size(1);
  if (config.accumulate() == 0) config.set_accumulate(1);
  constexpr int64_t kBufferOfDali = 1024;
  if (!config.has_buffer() && config.order() == "stream")
    config.set_buffer(3 * std::clamp<int64_t>(config.batch_size(), 1, kMaxBatch / 3));
  if (!config.has_buffer() && config.order() == "rotating") config.set_buffer(kBufferOfDali);
  if (!config.has_workers()) config.set_workers(2);
  if (!config.has_prefetch()) config.set_prefetch(4);
  if (!config.has_cache_mib()) config.set_cache_mib(512);
  return config;
}

void check(const LoaderConfig& config) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  expect_range("batch_size", config.batch_size(), 1, kMaxBatch);
  expect_range("accumulate", config.accumulate(), 1, kMaxAccumulate);
  expect_one_of({"loader", "order"}, config.order(),
                {"shuffled", "sequential", "stream", "rotating"});
  expect_one_of({"loader", "last_batch"}, config.last_batch(), {"drop", "pad", "wrap"});
  const bool stream = config.order() == "stream" || config.order() == "rotating";
  expect(stream || !config.has_buffer(), {"loader", "buffer"}, config.buffer(),
         "nothing unless the order is \"stream\" or \"rotating\"");
  if (stream) expect_range("buffer", config.buffer(), 1, kMaxBatch);
  expect_range("world_size", config.world_size(), 1, kMaxInt);
  expect_range("rank", config.rank(), 0, config.world_size() - 1);
  // Each factor is in range here; samples are counted in 64 bits.
  constexpr int64_t kMaxUpdate = int64_t{1} << 52;
  const int64_t accumulated = config.batch_size() * config.accumulate();
  expect(accumulated <= kMaxUpdate / config.world_size(), {"loader", "accumulate"},
         config.accumulate(), "at most 2^52 samples in an update of batch_size ",
         config.batch_size(), " on ", config.world_size(), " ranks");
  expect_range("workers", config.workers(), 0, 256);
  expect_range("prefetch", config.prefetch(), 1, 4096);
  expect_range("cache_mib", config.cache_mib(), 0, kMaxInt);
}

}  // namespace assay::data
