#include "sdk/data/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "sdk/data/loader.h"
#include "sdk/data/loader_config.h"
#include "sdk/data/loader_state.pb.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::HasSubstr;

std::vector<Draw> draws(ShuffledStream& stream, uint64_t begin, uint64_t end) {
  std::vector<Draw> out;
  for (uint64_t i = begin; i < end; ++i) out.push_back(stream.at(i));
  return out;
}

bool same(const std::vector<Draw>& a, const std::vector<Draw>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Draw& x, const Draw& y) {
    return x.sample == y.sample && x.pass == y.pass;
  });
}

// Eight ranks share 24 samples: rank r has only r, r + 8 and r + 16.
TEST(ShuffledStream, EachRankHasItsShardOnly) {
  for (int rank = 0; rank < 8; ++rank) {
    ShuffledStream stream(24, rank, 8, 24, 0);
    std::map<uint32_t, int> times;
    for (const Draw& draw : draws(stream, 0, 3000)) ++times[draw.sample];
    ASSERT_EQ(times.size(), 3u);
    for (const auto& [sample, count] : times) {
      EXPECT_EQ(static_cast<int>(sample % 8), rank);
      EXPECT_NEAR(count, 1000, 30);
    }
  }
}

TEST(ShuffledStream, UnevenShardsLoseNothing) {
  std::set<uint32_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    ShuffledStream stream(7, rank, 3, 5, 1);
    for (const Draw& draw : draws(stream, 0, 100)) seen.insert(draw.sample);
  }
  EXPECT_EQ(seen.size(), 7u);
}

// A buffer of B holds an element back for about B draws, and never lets one jump ahead by B.
TEST(ShuffledStream, MixesWithinTheBuffer) {
  ShuffledStream stream(24, 0, 1, 24, 3);
  const auto first = draws(stream, 0, 2400);
  std::set<std::pair<uint32_t, uint32_t>> unique;
  for (size_t i = 0; i < first.size(); ++i) {
    const uint64_t entered = first[i].pass * 24 + first[i].sample;
    EXPECT_LT(entered, i + 24);  // it was in the buffer by then
    EXPECT_TRUE(unique.insert({first[i].sample, first[i].pass}).second);
  }
  ShuffledStream sorted(5, 0, 1, 1, 3);  // a buffer of one shuffles nothing
  for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(sorted.at(i).sample, i % 5);
}

TEST(ShuffledStream, PositionsMeanTheSameInAnyOrder) {
  ShuffledStream one(24, 1, 2, 9, 4), other(24, 1, 2, 9, 4), seeded(24, 1, 2, 9, 5);
  const auto expected = draws(one, 0, 100);
  EXPECT_TRUE(same(draws(other, 50, 100), {expected.begin() + 50, expected.end()}));
  EXPECT_TRUE(same(draws(other, 0, 100), expected));
  EXPECT_TRUE(same(draws(other, 99, 100), {expected.begin() + 99, expected.end()}));
  EXPECT_FALSE(same(draws(seeded, 0, 100), expected));
}

// Ten samples in three parts, 0-2, 3-5 and 6-9; a buffer of one shuffles nothing.
TEST(ShuffledStream, RotatingRanksTakeOnePartAfterTheOther) {
  const auto samples_of = [](int rank) {
    ShuffledStream stream(10, rank, 3, 1, 0, Sharding::kRotating);
    std::vector<uint32_t> samples;
    for (const Draw& draw : draws(stream, 0, 13)) samples.push_back(draw.sample);
    return samples;
  };
  EXPECT_THAT(samples_of(0), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2));
  EXPECT_THAT(samples_of(1), testing::ElementsAre(3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(samples_of(2), testing::ElementsAre(6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8));
  ShuffledStream stream(10, 1, 3, 4, 7, Sharding::kRotating);
  std::set<std::pair<uint32_t, uint32_t>> unique;  // a sample has another augmentation each time
  for (const Draw& draw : draws(stream, 0, 500)) unique.insert({draw.sample, draw.pass});
  EXPECT_EQ(unique.size(), 500u);
}

TEST(ShuffledStream, APositionBelongsToItsNumberOfRanks) {
  LoaderConfig two, one;
  two.order = "rotating";
  two.batch_size = 4;
  two.world_size = 2;
  one.order = "rotating";
  one.batch_size = 8;  // the same global batch
  two = with_defaults(two), one = with_defaults(one);
  const LoaderState position = EpochOrder(40, two).position(0, 1);
  EXPECT_EQ(position.buffer(), 1024);
  EpochOrder(40, two).check_position(position);
  EXPECT_THAT(error_of([&] { EpochOrder(40, one).check_position(position); }).message(),
              HasSubstr("order rotating over 2 ranks"));
}

// ---- In a loader: record "17" becomes 17 and a random number of its stream ----

class NumberMaker : public SampleMaker {
 public:
  void prepare(std::string_view record, std::string& prepared) override { prepared = record; }
  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    auto* values = reinterpret_cast<float*>(arrays[0]);
    values[0] = static_cast<float>(std::atoi(std::string(prepared).c_str()));
    values[1] = random.uniform();
  }
};

std::shared_ptr<const RecordSource> numbers(int count) {
  std::vector<std::string> payloads;
  for (int i = 0; i < count; ++i) payloads.push_back(cat(i));
  return std::make_shared<MemorySource>(std::move(payloads));
}

Transform number_transform() {
  return {{{"value", DType::kF32, Dims{2}, 0}}, [] { return std::make_unique<NumberMaker>(); }};
}

LoaderConfig stream_config(int64_t batch, int rank = 0, int world_size = 1) {
  LoaderConfig config;
  config.batch_size = batch;
  config.order = "stream";
  config.rank = rank, config.world_size = world_size;
  return config;
}

std::vector<float> values_of(Loader& loader, int batches) {
  std::vector<float> values;
  for (int i = 0; i < batches; ++i) {
    const Batch& batch = *loader.next();
    EXPECT_EQ(batch.valid, batch.rows());  // streams fill every batch
    const float* begin = batch.array("value").as<float>();
    values.insert(values.end(), begin, begin + 2 * batch.rows());
  }
  return values;
}

TEST(StreamLoader, SmallShardsRepeatWithinABatchWithOtherAugmentation) {
  Loader loader(numbers(24), number_transform(), stream_config(8, 2, 8));
  const std::vector<float> values = values_of(loader, 50);
  std::set<float> samples, random;
  for (size_t i = 0; i < values.size(); i += 2)
    samples.insert(values[i]), random.insert(values[i + 1]);
  EXPECT_THAT(samples, testing::ElementsAre(2, 10, 18));
  EXPECT_EQ(random.size(), values.size() / 2);
}

TEST(StreamLoader, ContinuesAnywhereWithAnyWorkers) {
  LoaderConfig config = stream_config(8);
  Loader whole(numbers(24), number_transform(), config);
  const auto expected = values_of(whole, 20);
  config.workers = 0;
  Loader half(numbers(24), number_transform(), config);
  values_of(half, 7);
  const LoaderState state = half.state();
  config.workers = 3;
  Loader rest(numbers(24), number_transform(), config);
  rest.restore(state);
  EXPECT_EQ(values_of(rest, 13), std::vector<float>(expected.begin() + 7 * 16, expected.end()));
}

TEST(StreamLoader, PositionsOfOtherStreamsAreRefused) {
  const auto state = Loader(numbers(24), number_transform(), stream_config(8)).state();
  LoaderConfig config = stream_config(8);
  config.buffer = 5;
  Loader buffered(numbers(24), number_transform(), config);
  EXPECT_THAT(error_of([&] { buffered.restore(state); }).message(), HasSubstr("buffer 24"));
  config = stream_config(8);
  for (int i = 0; i < 24; ++i) config.record.push_back(23 - i);
  Loader selected(numbers(24), number_transform(), config);
  EXPECT_THAT(error_of([&] { selected.restore(state); }).message(),
              HasSubstr("another list of records"));
}

// The position of a stream is reached by drawing up to it: what nobody ever reached is refused.
TEST(StreamLoader, PositionsBeyondTheStreamAreRefused) {
  Loader loader(numbers(24), number_transform(), stream_config(8));
  LoaderState state = loader.state();
  state.set_epoch(uint64_t{1} << 31);
  const Error error = error_of([&] { loader.restore(state); });
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_EQ(error.detail().actual, "2147483648");
  EXPECT_EQ(error_of([&] { loader.rewind(uint64_t{1} << 31); }).code(), Code::kInvalid);
  state.set_epoch(uint64_t{1} << 61);  // whose number of batches does not fit into 64 bits
  EXPECT_EQ(error_of([&] { loader.restore(state); }).code(), Code::kInvalid);
  EXPECT_NE(loader.next(), nullptr);
  LoaderConfig config = stream_config(8);
  config.epochs = uint64_t{1} << 30;
  EXPECT_EQ(error_of([&] { Loader(numbers(24), number_transform(), config); }).detail().argument,
            "epochs");
}

TEST(StreamLoader, ALatePositionBlocksNeitherStateNorCancel) {
  for (const int workers : {0, 2}) {
    LoaderConfig config = stream_config(8);
    config.workers = workers;
    Loader loader(numbers(24), number_transform(), config);
    const auto expected = values_of(loader, 5);
    LoaderState late = loader.state();
    late.set_epoch((uint64_t{1} << 34) / 24 - 1);  // a minute away
    loader.restore(late);
    const auto begin = std::chrono::steady_clock::now();
    Code code = Code::kOk;
    std::thread caller([&] { code = error_of([&] { loader.next(); }).code(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(loader.state().epoch(), late.epoch());
    loader.cancel();
    caller.join();
    EXPECT_EQ(code, Code::kCancelled);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    loader.rewind();
    EXPECT_EQ(values_of(loader, 5), expected);
  }
}

TEST(StreamLoader, RefusesSenselessConfiguration) {
  LoaderConfig config = stream_config(8, 0, 25);
  const auto refusal = [&] {
    return error_of([&] { Loader(numbers(24), number_transform(), config); }).message();
  };
  EXPECT_THAT(refusal(), HasSubstr("world_size is 25, expected at most the 24 samples"));
  config = stream_config(8);
  config.buffer = -1;
  EXPECT_THAT(refusal(), HasSubstr("buffer is -1"));
  config.order = "shuffled", config.buffer = 3;
  EXPECT_THAT(refusal(), HasSubstr("buffer belongs to stream or rotating, not to shuffled"));
}

TEST(RecordSelection, ReadsSomeInAnotherOrder) {
  const RecordSelection selection(numbers(10), {7, 0, 7});
  ASSERT_EQ(selection.size(), 3);
  std::string payload;
  for (const auto& [index, expected] :
       std::map<int64_t, std::string>{{0, "7"}, {1, "0"}, {2, "7"}}) {
    selection.read(index, payload);
    EXPECT_EQ(payload, expected);
  }
  EXPECT_THAT(selection.where(0), HasSubstr("record 7"));
  EXPECT_THAT(error_of([&] { selection.read(3, payload); }).message(), HasSubstr("3 records"));
  EXPECT_THAT(error_of([] { RecordSelection(numbers(10), {10}); }).message(),
              HasSubstr("record is 10, expected 0 to 9"));
}

}  // namespace
}  // namespace assay::data
