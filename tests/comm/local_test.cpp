// Ranks that are threads: what every channel does, and what becomes of those that wait for a rank
// that does not come.
#include "tests/comm/local_ranks.h"

namespace assay::test {
namespace {

using namespace std::chrono_literals;

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, SumInOrder) {
  on_ranks(GetParam(), [](const auto& channel) { expect_sums_in_order(*channel); });
}
TEST_P(Ranks, SumWhatWasRounded) {
  on_ranks(GetParam(), [](const auto& channel) { expect_rounded_sums(*channel); });
}
TEST_P(Ranks, BroadcastAndGather) {
  on_ranks(GetParam(), [](const auto& channel) { expect_broadcasts_and_texts(*channel); });
}
INSTANTIATE_TEST_SUITE_P(Local, Ranks, testing::Values(1, 2, 3, 4, 7));

TEST(LocalFailures, RanksThatDoNotComeAreNamed) {
  expect_error(Code::kTimeout, "ranks 0, 2 have not come within 0.05 s",
               [] { make_local_channel("alone", 1, 3, 50ms); });
}

TEST(LocalFailures, ARankThatStopsIsNamedAndEndsTheChannel) {
  on_ranks(
      3,
      [](const auto& channel) {
        if (channel->rank() == 1) return std::this_thread::sleep_for(2s);
        // The first to lose patience ends it for both.
        for (int i = 0; i < 2; ++i) {
          try {
            channel->gather("");
            ADD_FAILURE() << "no error";
          } catch (const Error& error) {
            EXPECT_TRUE(error.code() == Code::kComm || (i == 0 && error.code() == Code::kTimeout));
            EXPECT_NE(error.message().find("rank 1 has not come within 0.2 s"), std::string::npos)
                << error.message();
          }
        }
      },
      200ms);
}

TEST(LocalFailures, ARankThatLeavesOrAbortsIsNamedAtOnce) {
  for (const bool aborts : {false, true}) {
    on_ranks(2, [&](std::shared_ptr<Channel> channel) {
      if (channel->rank() == 1) {
        if (aborts) channel->abort();
        return;
      }
      expect_error(Code::kComm, aborts ? "rank 1 has aborted it" : "rank 1 has left",
                   [&] { channel->gather(""); });
    });
  }
}

TEST(LocalFailures, ARankThatGivesUpIsHeardWithoutACall) {
  on_ranks(2, [](std::shared_ptr<Channel> channel) {
    if (channel->rank() == 1) return channel->abort();
    expect_error(Code::kComm, "rank 1 has aborted it", [&] {
      for (;;) channel->listen();
    });
  });
}

TEST(LocalFailures, OtherSizesAreSeen) {
  on_ranks(2, [](const auto& channel) {
    std::vector<float> data(100);
    const Launch launch = channel->all_reduce(data.data(), channel->rank() == 0 ? 100 : 64);
    expect_error(Code::kComm, "bytes", [&] { run(launch); });
  });
}

TEST(LocalFailures, ARankComesOnceAndToAGroupOfItsSize) {
  std::thread waiting([] {
    expect_error(Code::kTimeout, "rank 1 has not come",
                 [] { make_local_channel("pair", 0, 2, 500ms); });
  });
  std::this_thread::sleep_for(100ms);
  expect_error(Code::kInvalid, "rank 0 of this channel is there already",
               [] { make_local_channel("pair", 0, 2, 1s); });
  expect_error(Code::kInvalid, "has 2 ranks, not 3", [] { make_local_channel("pair", 1, 3, 1s); });
  waiting.join();
}

}  // namespace
}  // namespace assay::test
