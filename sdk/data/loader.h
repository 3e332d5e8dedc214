// Batches from records: ordered, sharded, prepared by worker threads, in a reproducible way.
//
// Batch k of epoch e has one content, a function of seed, data, batch size and ranks. The number of
// workers, the prefetch depth, the cache and restarts change only the time it takes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sdk/data/batch.h"
#include "sdk/data/order.h"
#include "sdk/data/record_source.h"
#include "sdk/data/sample_cache.h"
#include "sdk/data/transform.h"

namespace assay::data {

// For one thread at a time; cancel() may come from any thread.
class Loader {
 public:
  // kInvalid for a data set without records, a batch size that leaves no batch, or other values
  // that make no sense. Threads start with the first next().
  Loader(std::shared_ptr<const RecordSource> source, Transform transform,
         const LoaderConfig& config);
  // Waits for the batches being filled, at most one sample per worker; not to be called on one.
  ~Loader();
  Loader(const Loader&) = delete;

  // The next batch, valid until the following call of next, restore or the destructor; null after
  // the last one of the last epoch. After the first epoch of a data set that fits the cache,
  // nothing is allocated.
  // Fails where a worker failed, with the file and the record in the message; calling again reads
  // the same batch again, since skipping data silently is no option. kCancelled after cancel().
  const Batch* next();
  // What next() returns one of: they are filled in turn, and their arrays stay where they are.
  std::vector<const Batch*> buffers() const;

  // The position after the batches returned so far. Plain data, for a checkpoint.
  LoaderState state() const;
  // Continues there. kInvalid when data, seed, order or global batch size differ.
  void restore(const LoaderState& state);
  // To the first batch of an epoch, for another evaluation pass. kInvalid beyond the last epoch.
  void rewind(uint64_t epoch = 0);

  // Whether the caller is one of its workers: inside the source or the transform. What waits for
  // the workers (next, restore, rewind, the destructor) must not be called there.
  bool on_worker() const;

  // Makes a running, waiting or later next() fail with kCancelled, until restore or rewind. Does
  // not wait for it.
  void cancel();

  const std::vector<ArraySpec>& arrays() const { return transform_.arrays; }
  const LoaderConfig& config() const { return config_; }  // every default filled in
  int64_t samples() const { return source_->size(); }
  int64_t batch_size() const { return order_.batch_size(); }
  uint64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  // Time next() spent waiting since construction, in seconds: what the workers failed to hide.
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Buffer {
    Batch batch;
    std::vector<Draw> samples;  // one per valid row
    std::exception_ptr error;
    uint64_t ready = UINT64_MAX;  // ticket whose batch lies here
  };
  struct Worker;

  void seek(uint64_t ticket);
  void start();
  void stop();
  void run(Worker& worker);
  Buffer& claim();
  void fill_here(std::unique_lock<std::mutex>& lock);
  void fill(Buffer& buffer, Worker& worker) noexcept;
  void fill_row(Buffer& buffer, size_t row, Worker& worker);
  Buffer& buffer_of(uint64_t ticket) { return buffers_[ticket % buffers_.size()]; }

  std::shared_ptr<const RecordSource> source_;
  Transform transform_;
  LoaderConfig config_;
  EpochOrder order_;
  SampleCache cache_;
  uint64_t end_;  // tickets number the batches over all epochs
  PhiloxKey augment_key_;
  std::vector<Buffer> buffers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool inline_ = false;  // no threads: next() fills

  mutable std::mutex mutex_;  // guards what follows, and the buffers' `ready`
  std::condition_variable buffer_free_, buffer_ready_;
  uint64_t claimed_ = 0;    // next ticket to be filled
  uint64_t delivered_ = 0;  // next ticket to be returned
  uint64_t released_ = 0;   // tickets before this one have given back their buffer
  bool running_ = false;
  std::atomic<bool> cancelled_{false};  // written under the lock, read between samples without
  std::atomic<bool> stopping_{false};
  double wait_seconds_ = 0;
};

}  // namespace assay::data
