#include "sdk/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "sdk/data/loader_config.h"
#include "sdk/data/loader_state.pb.h"
#include "tests/data/allocations.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Record "17" becomes value 17 + a random number of its stream (f32 [2]) and label 17 (i32 []).
class NumberMaker : public SampleMaker {
 public:
  void prepare(std::string_view record, std::string& prepared) override {
    require(record != "bad", Code::kFormat, "this record is bad");
    prepared = record;
  }
  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    const int32_t number = std::atoi(std::string(prepared).c_str());
    const float values[] = {static_cast<float>(number), random.uniform()};
    std::memcpy(arrays[0], values, sizeof values);
    std::memcpy(arrays[1], &number, sizeof number);
  }
};

Transform number_transform() {
  Transform transform;
  transform.arrays = {{"value", DType::kF32, Dims{2}, 0}, {"label", DType::kI32, Dims{}, -1}};
  transform.make_worker = [] { return std::make_unique<NumberMaker>(); };
  return transform;
}

std::shared_ptr<const RecordSource> numbers(int count) {
  std::vector<std::string> payloads;
  for (int i = 0; i < count; ++i) payloads.push_back(cat(i));
  return std::make_shared<MemorySource>(std::move(payloads));
}

LoaderConfig config_of(int64_t batch_size, int workers = 2, uint64_t epochs = 2) {
  LoaderConfig config;
  config.batch_size = batch_size;
  config.seed = 7;
  config.epochs = epochs;
  config.workers = workers;
  return config;
}

// Everything a batch says, as bytes.
std::string bytes_of(const Batch& batch) {
  std::string bytes = cat(batch.epoch, "/", batch.index, "/", batch.valid, ":");
  for (const BatchArray& array : batch.arrays()) {
    bytes.append(reinterpret_cast<const char*>(array.data), array.bytes);
  }
  return bytes;
}

std::vector<std::string> rest_of(Loader& loader) {
  std::vector<std::string> batches;
  while (const Batch* batch = loader.next()) batches.push_back(bytes_of(*batch));
  return batches;
}

std::vector<int32_t> labels_of(Loader& loader) {
  std::vector<int32_t> labels;
  while (const Batch* batch = loader.next()) {
    const int32_t* begin = batch->array("label").as<int32_t>();
    labels.insert(labels.end(), begin, begin + batch->valid);
  }
  return labels;
}

TEST(Loader, OrderDoesNotDependOnWorkersPrefetchOrCache) {
  const auto source = numbers(103);
  Loader reference(source, number_transform(), config_of(10, 0, 3));
  const auto expected = rest_of(reference);
  ASSERT_EQ(expected.size(), 30u);
  for (const int workers : {1, 2, 5}) {
    for (const int prefetch : {1, 3, 16}) {
      for (const int cache : {0, 1}) {
        LoaderConfig config = config_of(10, workers, 3);
        config.prefetch = prefetch;
        config.cache_mib = cache;
        Loader loader(source, number_transform(), config);
        ASSERT_EQ(rest_of(loader), expected) << workers << " " << prefetch << " " << cache;
        EXPECT_EQ(loader.next(), nullptr);
      }
    }
  }
}

TEST(Loader, ShufflesAnewInEachEpochAndForEachSeed) {
  const auto epoch_of = [](uint64_t seed, uint64_t epoch) {
    LoaderConfig config = config_of(50, 1, epoch + 1);
    config.seed = seed;
    Loader loader(numbers(50), number_transform(), config);
    for (uint64_t e = 0; e < epoch; ++e) loader.next();
    return labels_of(loader);
  };
  std::set<std::vector<int32_t>> orders;
  for (const uint64_t seed : {1, 2}) {
    for (const uint64_t epoch : {0, 1, 2}) {
      auto order = epoch_of(seed, epoch);
      orders.insert(order);
      std::sort(order.begin(), order.end());
      std::vector<int32_t> all(50);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all);
    }
  }
  EXPECT_EQ(orders.size(), 6u);
}

// Each of the 24 orders of four samples must be equally likely over the seeds.
TEST(Loader, ShuffleIsUniform) {
  std::map<std::vector<uint32_t>, int> counts;
  constexpr int kSeeds = 4800;
  std::vector<Draw> draws;
  for (int seed = 0; seed < kSeeds; ++seed) {
    LoaderConfig config = config_of(4);
    config.seed = static_cast<uint64_t>(seed);
    EpochOrder(4, with_defaults(config)).samples_of(0, 0, draws);
    std::vector<uint32_t> order;
    for (const Draw& draw : draws) order.push_back(draw.sample);
    ++counts[order];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [permutation, count] : counts)
    chi_square += (count - 200.0) * (count - 200.0) / 200;
  EXPECT_LT(chi_square, 49.7);  // 0.999 quantile with 23 degrees of freedom
}

TEST(Loader, AugmentationIsKeyedBySampleAndEpoch) {
  const auto draws_of = [](const std::string& order, int64_t batch_size) {
    LoaderConfig config = config_of(batch_size, 2, 2);
    config.order = order;
    Loader loader(numbers(12), number_transform(), config);
    std::map<std::pair<uint64_t, int>, float> draws;  // (epoch, sample) -> random number
    while (const Batch* batch = loader.next()) {
      const float* values = batch->array("value").as<float>();
      for (int64_t row = 0; row < batch->valid; ++row) {
        draws[{batch->epoch, static_cast<int>(values[2 * row])}] = values[2 * row + 1];
      }
    }
    return draws;
  };
  const auto draws = draws_of("shuffled", 3);
  ASSERT_EQ(draws.size(), 24u);
  EXPECT_EQ(draws_of("sequential", 4), draws);
  std::set<float> distinct;
  for (const auto& [key, value] : draws) distinct.insert(value);
  EXPECT_EQ(distinct.size(), 24u);
}

TEST(Loader, ResumesAtEveryBatch) {
  const auto source = numbers(23);
  for (const char* last_batch : {"drop", "pad", "wrap"}) {
    LoaderConfig config = config_of(5, 2, 3);
    config.last_batch = last_batch;
    Loader whole(source, number_transform(), config);
    const auto expected = rest_of(whole);
    for (size_t cut = 0; cut <= expected.size(); ++cut) {
      Loader before(source, number_transform(), config);
      for (size_t i = 0; i < cut; ++i) before.next();
      const LoaderState state = before.state();
      Loader after(source, number_transform(), config);
      after.restore(state);
      EXPECT_EQ(after.state().SerializeAsString(), state.SerializeAsString());
      ASSERT_EQ(rest_of(after), (std::vector<std::string>(expected.begin() + static_cast<long>(cut),
                                                          expected.end())))
          << last_batch << " " << cut;
      before.restore(state);  // and in a loader that is already running
      ASSERT_EQ(rest_of(before).size(), expected.size() - cut);
    }
  }
}

TEST(Loader, RestoreRefusesOtherOrders) {
  Loader loader(numbers(20), number_transform(), config_of(5));
  loader.next();
  const LoaderState good = loader.state();
  const auto message = [&](auto&& change) {
    LoaderState state = good;
    change(state);
    const Error error = error_of([&] { loader.restore(state); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    return error.message();
  };
  EXPECT_THAT(message([](auto& s) { s.set_seed(8); }), HasSubstr("seed 8"));
  EXPECT_THAT(message([](auto& s) { s.set_samples(21); }), HasSubstr("samples 21"));
  EXPECT_THAT(message([](auto& s) { s.set_global_batch(6); }), HasSubstr("batch size 6"));
  EXPECT_THAT(message([](auto& s) { s.set_order("sequential"); }), HasSubstr("order sequential"));
  EXPECT_THAT(message([](auto& s) { s.set_last_batch("pad"); }), HasSubstr("last_batch pad"));
  EXPECT_THAT(message([](auto& s) { s.set_batch(4); }),
              HasSubstr("batch of the saved position is 4"));
  EXPECT_THAT(message([](auto& s) { s.set_epoch(3); }),
              HasSubstr("epoch of the saved position is 3"));
  loader.restore(good);
  EXPECT_EQ(rest_of(loader).size(), 7u);
}

TEST(Loader, RanksShareTheSamplesOut) {
  for (const char* last_batch : {"drop", "pad"}) {
    LoaderConfig config = config_of(12, 1, 1);
    config.last_batch = last_batch;
    Loader single(numbers(103), number_transform(), config);
    auto expected = labels_of(single);
    std::vector<int32_t> labels;
    for (int rank = 0; rank < 4; ++rank) {
      config.batch_size = 3;
      config.world_size = 4;
      config.rank = rank;
      Loader loader(numbers(103), number_transform(), config);
      EXPECT_EQ(loader.batches_per_epoch(), single.batches_per_epoch());
      const auto part = labels_of(loader);
      labels.insert(labels.end(), part.begin(), part.end());
    }
    EXPECT_EQ(labels.size(), *last_batch == 'd' ? 96u : 103u);
    EXPECT_THAT(labels, testing::UnorderedElementsAreArray(expected)) << last_batch;
    EXPECT_EQ(std::set<int32_t>(labels.begin(), labels.end()).size(), labels.size());
  }
}

TEST(Loader, SequentialPassWithPaddedLastBatch) {
  LoaderConfig config = config_of(4, 2, 1);
  config.order = "sequential";
  config.last_batch = "pad";
  Loader loader(numbers(10), number_transform(), config);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<int32_t> labels;
    std::vector<int64_t> valid;
    while (const Batch* batch = loader.next()) {
      const BatchArray& label = batch->array("label");
      EXPECT_EQ(label.dims, (Dims{4}));
      EXPECT_EQ(batch->array("value").dims, (Dims{4, 2}));
      labels.insert(labels.end(), label.as<int32_t>(), label.as<int32_t>() + 4);
      valid.push_back(batch->valid);
      if (batch->index == 2) {
        EXPECT_THAT(std::vector<float>(batch->array("value").as<float>() + 4,
                                       batch->array("value").as<float>() + 8),
                    Each(0.0f));
      }
    }
    EXPECT_THAT(labels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1));
    EXPECT_THAT(valid, ElementsAre(4, 4, 2));
    loader.rewind();
  }
}

TEST(Loader, WrapFillsFromTheBeginning) {
  LoaderConfig config = config_of(4, 1, 1);
  config.order = "sequential";
  config.last_batch = "wrap";
  Loader loader(numbers(6), number_transform(), config);
  EXPECT_THAT(labels_of(loader), ElementsAre(0, 1, 2, 3, 4, 5, 0, 1));
  config.batch_size = 5;
  Loader tiny(numbers(2), number_transform(), config);
  EXPECT_THAT(labels_of(tiny), ElementsAre(0, 1, 0, 1, 0));
}

TEST(Loader, BadRecordSurfacesAtItsBatchWithItsPlace) {
  for (const int workers : {0, 1, 3}) {
    std::vector<std::string> payloads;
    for (int i = 0; i < 20; ++i) payloads.push_back(i == 13 ? "bad" : cat(i));
    LoaderConfig config = config_of(5, workers, 0);
    config.order = "sequential";
    Loader loader(std::make_shared<MemorySource>(payloads), number_transform(), config);
    EXPECT_EQ(loader.next()->index, 0u);
    EXPECT_EQ(loader.next()->index, 1u);
    for (int attempt = 0; attempt < 3; ++attempt) {
      const Error error = error_of([&] { loader.next(); });
      EXPECT_EQ(error.code(), Code::kFormat);
      EXPECT_EQ(error.message(), "record 13 in memory: this record is bad");
    }
    EXPECT_EQ(loader.state().batch(), 2u);
    loader.rewind();
    EXPECT_EQ(loader.next()->index, 0u);
  }
}

TEST(Loader, DamagedFileIsNamed) {
  const test::TemporaryFolder folder;
  RecordWriter writer(folder.at("x"));
  for (int i = 0; i < 10; ++i) writer.write(cat(i));
  writer.finish();
  std::string bytes = read_file(folder.at("x"));
  bytes[bytes.size() - 5] ^= 1;  // the last payload's only byte
  write_file_atomic(folder.at("x"), bytes);
  LoaderConfig config = config_of(5, 2, 1);
  config.order = "sequential";
  Loader loader(std::make_shared<RecordSet>(std::vector{folder.at("x")}), number_transform(),
                config);
  loader.next();
  EXPECT_THAT(error_of([&] { loader.next(); }).message(), HasSubstr(folder.at("x") + ", record 9"));
}

TEST(Loader, RefusesSenselessConfiguration) {
  const auto message = [](int samples, auto&& change) {
    LoaderConfig config = config_of(5);
    change(config);
    const Error error = error_of([&] { Loader(numbers(samples), number_transform(), config); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    return error.message();
  };
  EXPECT_THAT(message(0, [](auto&) {}), HasSubstr("no records"));
  EXPECT_THAT(message(4, [](auto&) {}), HasSubstr("lower it or set last_batch"));
  EXPECT_THAT(message(9, [](auto& c) { c.batch_size = 0; }), HasSubstr("batch_size is 0"));
  EXPECT_THAT(message(9, [](auto& c) { c.batch_size = -1; }), HasSubstr("batch_size"));
  EXPECT_THAT(message(9, [](auto& c) { c.rank = 1; }), HasSubstr("rank is 1"));
  EXPECT_THAT(message(9, [](auto& c) { c.rank = -1; }), HasSubstr("rank is -1"));
  EXPECT_THAT(message(9, [](auto& c) { c.order = "up"; }),
              HasSubstr("\"shuffled\", \"sequential\", \"stream\" or \"rotating\""));
  EXPECT_THAT(message(9, [](auto& c) { c.last_batch = "x"; }),
              HasSubstr("\"drop\", \"pad\" or \"wrap\""));
  EXPECT_THAT(message(9, [](auto& c) { c.workers = -1; }), HasSubstr("workers is -1"));
  EXPECT_THAT(message(9, [](auto& c) { c.prefetch = 0; }), HasSubstr("prefetch is 0"));
  EXPECT_THAT(message(9, [](auto& c) { c.cache_mib = -1; }), HasSubstr("cache_mib is -1"));
  // Each in its range; their product is 2^64.
  EXPECT_THAT(message(9,
                      [](auto& c) {
                        c.batch_size = 1 << 24;
                        c.world_size = 1 << 20;
                        c.accumulate = 1 << 20;
                      }),
              HasSubstr("2^52 samples"));
}

TEST(Loader, AllocatesNothingAfterTheFirstEpoch) {
  for (const int workers : {0, 2}) {
    LoaderConfig config = config_of(10, workers, 0);
    Loader loader(numbers(100), number_transform(), config);
    for (int i = 0; i < 20; ++i) loader.next();
    const int64_t before = test::allocations_so_far();
    for (int i = 0; i < 200; ++i) loader.next();
    EXPECT_EQ(test::allocations_so_far() - before, 0) << workers;
  }
}

TEST(Loader, BuffersAreRecycled) {
  Loader loader(numbers(100), number_transform(), config_of(10, 2, 0));
  std::set<const Batch*> seen;
  for (int i = 0; i < 100; ++i) seen.insert(loader.next());
  EXPECT_LE(seen.size(), 5u);
}

class SlowMaker : public NumberMaker {
 public:
  void prepare(std::string_view record, std::string& prepared) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    NumberMaker::prepare(record, prepared);
  }
};

Transform slow_transform() {
  Transform transform = number_transform();
  transform.make_worker = [] { return std::make_unique<SlowMaker>(); };
  return transform;
}

TEST(Loader, DestructionAtAnyMomentReturnsSoon) {
  for (int consumed = 0; consumed < 12; ++consumed) {
    Loader loader(numbers(2000), slow_transform(), config_of(consumed % 4 == 0 ? 1000 : 2, 3, 0));
    if (consumed % 4 != 0) {
      for (int i = 0; i < consumed; ++i) loader.next();
    } else {
      loader.restore(loader.state());
    }
  }
  // A batch of 1000 slow samples takes seconds; leaving in its middle must not wait for it.
  const auto begin = std::chrono::steady_clock::now();
  {
    Loader loader(numbers(2000), slow_transform(), config_of(1000, 3, 0));
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      loader.cancel();
    });
    EXPECT_EQ(error_of([&] { loader.next(); }).code(), Code::kCancelled);
    EXPECT_EQ(error_of([&] { loader.next(); }).code(), Code::kCancelled);
    canceller.join();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1000));
}

TEST(Loader, CancelledLoaderContinuesAfterRestore) {
  Loader loader(numbers(20), number_transform(), config_of(5, 2, 1));
  const auto first = bytes_of(*loader.next());
  const LoaderState state = loader.state();
  loader.cancel();
  EXPECT_EQ(error_of([&] { loader.next(); }).code(), Code::kCancelled);
  loader.restore(state);
  EXPECT_EQ(rest_of(loader).size(), 3u);
  loader.rewind();
  EXPECT_EQ(bytes_of(*loader.next()), first);
}

// Tells when it works on a record, and works until it may stop.
struct Gate {
  std::atomic<bool> entered{false}, open{false};
};
class GatedMaker : public NumberMaker {
 public:
  explicit GatedMaker(Gate& gate) : gate_(gate) {}
  void prepare(std::string_view record, std::string& prepared) override {
    gate_.entered = true;
    while (!gate_.open) std::this_thread::yield();
    NumberMaker::prepare(record, prepared);
  }

 private:
  Gate& gate_;
};

// A loader without workers reads and decodes in next(); nobody else may have to wait for that.
TEST(Loader, FillingInTheCallerBlocksNeitherStateNorCancel) {
  Gate gate;
  Transform transform = number_transform();
  transform.make_worker = [&gate] { return std::make_unique<GatedMaker>(gate); };
  Loader loader(numbers(20), transform, config_of(5, 0));
  Code code = Code::kOk;
  std::thread caller([&] { code = error_of([&] { loader.next(); }).code(); });
  while (!gate.entered) std::this_thread::yield();
  EXPECT_EQ(loader.state().batch(), 0u);  // would hang
  loader.cancel();
  gate.open = true;
  caller.join();
  EXPECT_EQ(code, Code::kCancelled);
  loader.rewind();
  Loader reference(numbers(20), number_transform(), config_of(5, 0));
  EXPECT_EQ(rest_of(loader), rest_of(reference));
}

TEST(Loader, SeeksToTheEpochsThereAre) {
  Loader loader(numbers(20), number_transform(), config_of(5, 2, 3));
  loader.rewind(2);
  EXPECT_EQ(rest_of(loader).size(), 4u);
  const Error error = error_of([&] { loader.rewind(3); });
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_THAT(error.message(), HasSubstr("epoch is 3, expected less than the 3 epochs"));
}

// Seven batches of ten; an update takes three: an epoch has six of them, or nine where it wraps.
TEST(Loader, EpochsHoldWholeUpdates) {
  LoaderConfig config = config_of(10, 2, 2);
  config.accumulate = 3;
  Loader dropping(numbers(73), number_transform(), config);
  EXPECT_EQ(dropping.batches_per_epoch(), 6u);
  EXPECT_EQ(rest_of(dropping).size(), 12u);
  config.last_batch = "wrap";
  Loader wrapping(numbers(73), number_transform(), config);
  EXPECT_EQ(wrapping.batches_per_epoch(), 9u);
  EXPECT_EQ(labels_of(wrapping).size(), 180u);
  const LoaderState state = wrapping.state();
  config.accumulate = 1;
  Loader other(numbers(73), number_transform(), config);
  EXPECT_THAT(error_of([&] { other.restore(state); }).message(), HasSubstr("accumulate 3"));
  LoaderState older = other.state();
  older.clear_accumulate();
  other.restore(older);
}

TEST(Loader, StreamsHoldWholeUpdatesToo) {
  LoaderConfig config = config_of(4);
  config.order = "stream";
  config.accumulate = 4;
  EXPECT_EQ(Loader(numbers(35), number_transform(), config).batches_per_epoch(), 8u);
}

TEST(Loader, ResolvesItsConfiguration) {
  LoaderConfig config;
  config.batch_size = 5;
  const Loader loader(numbers(20), number_transform(), config);
  EXPECT_EQ(loader.config().order, "shuffled");
  EXPECT_EQ(loader.config().last_batch, "drop");
  EXPECT_EQ(loader.config().workers, 2);
  EXPECT_EQ(loader.config().prefetch, 4);
  EXPECT_EQ(loader.config().cache_mib, 512);
  EXPECT_EQ(loader.config().world_size, 1);
  EXPECT_EQ(loader.config().accumulate, 1);
}

TEST(SampleCache, HoldsItsBudget) {
  SampleCache cache(3, 64);  // of which the places take 24
  cache.store(0, "0123456789");
  cache.store(1, "0123456789");
  cache.store(2, "0123456789");
  EXPECT_EQ(cache.find(0), "0123456789");
  EXPECT_EQ(cache.find(1), "0123456789");
  EXPECT_EQ(cache.find(2), std::nullopt);
  EXPECT_EQ(cache.bytes(), 60u);
  cache.store(1, "x");  // the first one stays
  EXPECT_EQ(cache.find(1), "0123456789");
}

TEST(SampleCache, TakesNoMemoryBeyondItForPlaces) {
  SampleCache cache(int64_t{1} << 50, 40);
  cache.store(5, "x");
  EXPECT_EQ(cache.find(5), std::nullopt);
}

}  // namespace
}  // namespace assay::data
