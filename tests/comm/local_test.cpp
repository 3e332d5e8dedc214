// Ranks that are threads: what every channel does, and what becomes of those that wait for a rank
// that does not come.
#include <filesystem>
#include <functional>
#include <thread>

#include "sdk/comm/local.h"
#include "tests/comm/cases.h"

namespace assay::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeout = 60s;

// Calls body on each rank's thread with its channel.
void on_ranks(int ranks, const std::function<void(std::shared_ptr<Channel>)>& body,
              std::chrono::nanoseconds timeout = kTimeout) {
  static int groups = 0;
  const std::string name = cat("group ", ++groups);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(make_local_channel(name, rank, ranks, timeout));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, SumInOrder) {
  on_ranks(GetParam(), [](const auto& channel) { expect_sums_in_order(*channel); });
}
TEST_P(Ranks, BroadcastAndGather) {
  on_ranks(GetParam(), [](const auto& channel) { expect_broadcasts_and_texts(*channel); });
}
INSTANTIATE_TEST_SUITE_P(Local, Ranks, testing::Values(1, 2, 3, 4, 7));

TEST(LocalTraining, HasTheBitsOfEmulation) {
  for (const int ranks : {2, 4}) {
    for (size_t i = 0; i < std::size(kNetworks); ++i) {
      const std::string folder = testing::TempDir() + cat("comm_", ranks, "_", i);
      std::filesystem::create_directories(folder);
      on_ranks(ranks, [&](const auto& channel) {
        expect_bits_of_emulation(channel, kNetworks[i], folder);
      });
      std::filesystem::remove_all(folder);
    }
  }
}

TEST(LocalTraining, SumsBatchesOfADeviceFirst) { on_ranks(3, expect_accumulation_on_each_device); }

TEST(LocalTraining, SkipsOrRefusesTogether) { on_ranks(2, expect_refused_everywhere); }

TEST(LocalTraining, WantsTheSameOfAllRanks) {
  on_ranks(2, [](const auto& channel) {
    expect_disagreement_is_named(*channel);
    expect_other_configurations_refused(channel);
  });
}

TEST(LocalTraining, LoadsTheSameFileOnAllRanks) {
  const std::string folder = testing::TempDir() + "comm_files";
  std::filesystem::create_directories(folder);
  on_ranks(2, [&](const auto& channel) { expect_other_files_refused(channel, folder); });
  std::filesystem::remove_all(folder);
}

template <class Body>
void expect_error(Code code, const std::string& text, const Body& body) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(error.message().find(text), std::string::npos) << error.what();
  }
}

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

// A step that waits in vain changes nothing.
TEST(LocalFailures, AStepWithoutTheOthersChangesNothing) {
  on_ranks(
      2,
      [](const auto& channel) {
        const Training one(kNetworks[0], 2, 2, channel);
        one.step(static_cast<uint64_t>(channel->rank()));
        if (channel->rank() == 1) return;
        const auto before = one.bytes();
        expect_error(Code::kComm, "rank 1 has left", [&] { one.step(2); });
        EXPECT_EQ(one.bytes(), before);
        EXPECT_EQ(one.trainer->step_count(), 1);
      },
      20s);
}

}  // namespace
}  // namespace assay::test
