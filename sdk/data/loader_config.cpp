#include "sdk/data/loader_config.h"

#include <algorithm>
#include <limits>

namespace assay::data {
namespace {

constexpr int64_t kMaxBatch = int64_t{1} << 24;
constexpr double kMaxInt = std::numeric_limits<int32_t>::max();

// What a shuffle buffer holds if nothing is said: three batches, or what DALI keeps.
double usual_buffer(const LoaderConfig& config) {
  constexpr double kOfDali = 1024;
  if (config.order == "rotating") return kOfDali;
  return static_cast<double>(3 * std::clamp<int64_t>(config.batch_size, 1, kMaxBatch / 3));
}

}  // namespace

void LoaderConfig::fields(ConfigFields& f) {
  f("batch_size", batch_size, "samples per batch on this rank; required").in({1, kMaxBatch, true});
  f("seed", seed, "of order and augmentation");
  f("order", order, "which sample follows which")
      .one_of({"shuffled", "sequential", "stream", "rotating"})
      .selects();
  f("last_batch", last_batch, "what becomes of samples that fill no batch")
      .one_of({"drop", "pad", "wrap"});
  f("epochs", epochs, "passes until the end of the data, below 2^32; 0 never ends");
  f("rank", rank, "which part of the global batch");
  f("world_size", world_size, "parts of the global batch").in({1, kMaxInt, true});
  f("workers", workers, "threads that fill batches; 0: the caller. Changes no result")
      .in({0, 256, true});
  f("prefetch", prefetch, "batches kept ready, at least one for each worker").in({1, 4096, true});
  f("cache_mib", cache_mib, "memory for prepared samples; 0 keeps none. Changes no result")
      .in({0, kMaxInt, true});
  f("buffer", buffer, "samples in the shuffle buffer; three batches, or 1024 of a rotating order")
      .of({"stream", "rotating"})
      .in({1, kMaxBatch, true})
      .otherwise(usual_buffer(*this));
  f("record", record, "only these records of the split, in this order; none: all of them");
  f("accumulate", accumulate, "batches of an update; an epoch holds whole updates only")
      .in({1, int64_t{1} << 20, true});
}

LoaderConfig with_defaults(LoaderConfig config) { return with_config_defaults(std::move(config)); }

void check(const LoaderConfig& config) {
  check_config("loader", "", config);
  expect(config.rank >= 0 && config.rank < config.world_size, {"loader", "rank"}, config.rank,
         "0 to ", config.world_size - 1);
  // Each factor is in range here; samples are counted in 64 bits.
  constexpr int64_t kMaxUpdate = int64_t{1} << 52;
  const int64_t accumulated = config.batch_size * config.accumulate;
  expect(accumulated <= kMaxUpdate / config.world_size, {"loader", "accumulate"}, config.accumulate,
         "at most 2^52 samples in an update of batch_size ", config.batch_size, " on ",
         config.world_size, " ranks");
}

}  // namespace assay::data
