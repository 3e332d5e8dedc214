// The loader's threads. Batches of all epochs are numbered by tickets; ticket t fills buffer
// t % buffers. Workers claim tickets in order and fill their buffers at the same time, the caller
// takes them in order, so neither the order nor the contents depend on who was faster.
#include "sdk/data/loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "sdk/base/expect.h"
#include "sdk/data/loader_state.pb.h"
#include "sdk/data/streams.h"

namespace assay::data {
namespace {

LoaderConfig checked(const LoaderConfig& given) {
  LoaderConfig config = with_defaults(given);
  check(config);
  return config;
}

uint64_t cache_bytes_of(const LoaderConfig& config) {
  return static_cast<uint64_t>(config.cache_mib) << 20;
}

uint64_t end_of(const LoaderConfig& config, const EpochOrder& order) {
  const uint64_t most = order.max_epochs();
  expect(most > 0, {"loader", "accumulate"}, config.accumulate, "fewer batches of ",
         config.batch_size, ": an epoch of them is longer than the stream of ",
         ShuffledStream::kMaxDraws, " samples");
  expect(config.epochs <= most, {"loader", "epochs"}, config.epochs, "at most ", most,
         " of this length");
  return (config.epochs == 0 ? most : config.epochs) * order.batches_per_epoch();
}

thread_local const Loader* t_worker_of = nullptr;

void fill_padding(const ArraySpec& spec, std::byte* begin, size_t bytes) {
  if (spec.dtype == DType::kI32 && spec.pad != 0) {
    std::fill_n(reinterpret_cast<int32_t*>(begin), bytes / sizeof(int32_t), spec.pad);
  } else {
    std::memset(begin, 0, bytes);
  }
}

}  // namespace

// What one thread needs; its scratch memory is used again from sample to sample.
struct Loader::Worker {
  std::unique_ptr<SampleMaker> maker;
  std::string record, prepared;
  std::vector<std::byte*> rows;
  std::thread thread;
};

Loader::Loader(std::shared_ptr<const RecordSource> source, Transform transform,
               const LoaderConfig& config)
    : source_(std::move(source)),
      transform_(std::move(transform)),
      config_(checked(config)),
      order_(source_->size(), config_),
      cache_(source_->size(), cache_bytes_of(config_)),
      end_(end_of(config_, order_)),
      augment_key_(philox_key(config_.seed, kAugmentStream)) {
  const int workers = config_.workers;
  inline_ = workers == 0;
  const int buffers =
      inline_ ? 1 : std::max(config_.prefetch, workers) + 1;  // one is with the caller
  buffers_.reserve(static_cast<size_t>(buffers));
  for (int i = 0; i < buffers; ++i) {
    buffers_.push_back(Buffer{Batch(transform_.arrays, batch_size()), {}, nullptr});
    buffers_.back().samples.reserve(static_cast<size_t>(batch_size()));
  }
  for (int i = 0; i < std::max(workers, 1); ++i) {
    auto worker = std::make_unique<Worker>();
    worker->maker = transform_.make_worker();
    worker->rows.resize(transform_.arrays.size());
    workers_.push_back(std::move(worker));
  }
}

Loader::~Loader() { stop(); }

void Loader::start() {
  // A late position of a stream takes a while: outside of the lock, for state() and cancel().
  order_.seek(delivered_ / batches_per_epoch(), delivered_ % batches_per_epoch(), cancelled_);
  if (cancelled_) return;
  running_ = true;
  if (inline_) return;
  try {
    for (auto& worker : workers_)
      worker->thread = std::thread([this, w = worker.get()] { run(*w); });
  } catch (...) {  // no memory, or no further thread: all of them or none
    seek(delivered_);
    throw;
  }
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  buffer_free_.notify_all();
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  stopping_ = false;
  running_ = false;
}

// After stop() no worker runs: buffers may be set. The lock is for state() and cancel().
void Loader::seek(uint64_t ticket) {
  stop();
  for (Buffer& buffer : buffers_) {
    buffer.ready = UINT64_MAX;
    buffer.error = nullptr;
  }
  const std::lock_guard lock(mutex_);
  claimed_ = delivered_ = released_ = ticket;
  cancelled_ = false;
}

// Takes the next ticket and notes what belongs into its batch; mutex_ is held.
Loader::Buffer& Loader::claim() {
  const uint64_t ticket = claimed_++;
  Buffer& buffer = buffer_of(ticket);
  buffer.batch.epoch = ticket / batches_per_epoch();
  buffer.batch.index = ticket % batches_per_epoch();
  order_.samples_of(buffer.batch.epoch, buffer.batch.index, buffer.samples);
  buffer.batch.valid = static_cast<int64_t>(buffer.samples.size());
  return buffer;
}

bool Loader::on_worker() const { return t_worker_of == this; }

void Loader::run(Worker& worker) {
  t_worker_of = this;
  std::unique_lock lock(mutex_);
  while (true) {
    buffer_free_.wait(lock, [this] {
      return stopping_ || (claimed_ < end_ && claimed_ < released_ + buffers_.size());
    });
    if (stopping_) return;
    const uint64_t ticket = claimed_;
    Buffer& buffer = claim();
    lock.unlock();
    // Without the lock: between claim and `ready` the buffer belongs to this worker alone.
    fill(buffer, worker);
    lock.lock();
    buffer.ready = ticket;
    buffer_ready_.notify_all();
  }
}

void Loader::fill(Buffer& buffer, Worker& worker) noexcept {
  size_t row = 0;
  try {
    // Between samples: the destructor, seek and a cancelled caller wait for one sample at most.
    const auto wanted = [&] { return !stopping_ && !(inline_ && cancelled_); };
    for (; row < buffer.samples.size() && wanted(); ++row) fill_row(buffer, row, worker);
  } catch (...) {
    buffer.error = std::current_exception();
    return;
  }
  for (size_t k = 0; k < transform_.arrays.size(); ++k) {
    const BatchArray& array = buffer.batch.arrays()[k];
    const size_t used = transform_.arrays[k].sample_bytes() * buffer.samples.size();
    fill_padding(transform_.arrays[k], array.data + used, array.bytes - used);
  }
}

void Loader::fill_row(Buffer& buffer, size_t row, Worker& worker) {
  const int64_t sample = buffer.samples[row].sample;
  for (size_t k = 0; k < worker.rows.size(); ++k) {
    worker.rows[k] = buffer.batch.arrays()[k].data + row * transform_.arrays[k].sample_bytes();
  }
  // Keyed by sample and pass, not by worker or ticket: the same augmentation whoever draws it.
  PhiloxStream random(augment_key_, static_cast<uint64_t>(sample), buffer.samples[row].pass);
  auto prepared = cache_.find(sample);
  if (!prepared) source_->read(sample, worker.record);  // its messages name file and record
  try {
    if (!prepared) {
      worker.maker->prepare(worker.record, worker.prepared);
      cache_.store(sample, worker.prepared);
      prepared = worker.prepared;
    }
    worker.maker->finish(*prepared, random, worker.rows);
  } catch (const Error& error) {
    throw error.with_context(source_->where(sample));
  }
}

// Without the lock: cancel() and state() must not wait for a batch to be read and decoded.
void Loader::fill_here(std::unique_lock<std::mutex>& lock) {
  Buffer& buffer = claim();
  lock.unlock();
  fill(buffer, *workers_[0]);
  lock.lock();
  if (!cancelled_) buffer.ready = delivered_;
}

const Batch* Loader::next() {
  if (!running_) start();
  std::unique_lock lock(mutex_);
  // The batch of the previous call is given back here, which lets a worker claim one more.
  released_ = delivered_;
  buffer_free_.notify_all();
  if (cancelled_) fail(Code::kCancelled, "loader: cancelled");
  if (delivered_ == end_) return nullptr;
  Buffer& buffer = buffer_of(delivered_);
  if (inline_ && buffer.ready != delivered_) fill_here(lock);
  if (buffer.ready != delivered_) {
    const auto begin = std::chrono::steady_clock::now();
    buffer_ready_.wait(lock, [&] { return buffer.ready == delivered_ || cancelled_; });
    wait_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (cancelled_) fail(Code::kCancelled, "loader: cancelled");
  }
  // The ticket is not passed: the next call reads again, and finds a damaged record damaged.
  if (buffer.error) {
    const std::exception_ptr error = buffer.error;
    lock.unlock();
    seek(delivered_);
    std::rethrow_exception(error);
  }
  ++delivered_;
  return &buffer.batch;
}

std::vector<const Batch*> Loader::buffers() const {
  std::vector<const Batch*> batches;
  for (const Buffer& buffer : buffers_) batches.push_back(&buffer.batch);
  return batches;
}

LoaderState Loader::state() const {
  const std::lock_guard lock(mutex_);
  return order_.position(delivered_ / batches_per_epoch(), delivered_ % batches_per_epoch());
}

void Loader::restore(const LoaderState& state) {
  order_.check_position(state);
  const uint64_t epochs = end_ / batches_per_epoch();
  const bool at_end = state.epoch() == epochs && state.batch() == 0;
  expect(state.epoch() < epochs || at_end, {"loader", "epoch of the saved position"}, state.epoch(),
         "at most the ", epochs, " after which this loader ends; raise epochs");
  seek(state.epoch() * batches_per_epoch() + state.batch());
}

void Loader::rewind(uint64_t epoch) {
  const uint64_t epochs = end_ / batches_per_epoch();
  expect(epoch < epochs, {"loader", "epoch"}, epoch, "less than the ", epochs,
         " epochs it is configured for");
  seek(epoch * batches_per_epoch());
}

void Loader::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  buffer_ready_.notify_all();
}

}  // namespace assay::data
