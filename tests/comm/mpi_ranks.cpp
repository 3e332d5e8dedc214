// One rank of MPI, which does what every channel does. Started by mpirun, as many times as there
// are ranks; each checks for itself.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "sdk/comm/mpi.h"
#include "tests/comm/channel_cases.h"
#include "tests/comm/training_cases.h"

namespace assay::test {
namespace {

using namespace std::chrono_literals;

int of_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

int own_rank() { return of_environment("OMPI_COMM_WORLD_RANK"); }
int all_ranks() { return of_environment("OMPI_COMM_WORLD_SIZE"); }

const std::shared_ptr<Channel>& channel() {
  static const std::shared_ptr<Channel> kMade = make_mpi_channel(own_rank(), all_ranks(), 60s);
  return kMade;
}

TEST(Mpi, SumsInOrder) { expect_sums_in_order(*channel()); }
TEST(Mpi, SumsWhatWasRounded) { expect_rounded_sums(*channel()); }
TEST(Mpi, BroadcastsAndGathers) { expect_broadcasts_and_texts(*channel()); }

TEST(Mpi, TrainingHasTheBitsOfEmulation) {
  const std::string folder = testing::TempDir() + "comm_mpi";
  std::filesystem::create_directories(folder);
  for (const Network& network : kNetworks) expect_bits_of_emulation(channel(), network, folder);
  channel()->gather("");
  if (channel()->rank() == 0) std::filesystem::remove_all(folder);
}

TEST(Mpi, TrainingSumsBatchesOfADeviceFirst) { expect_accumulation_on_each_device(channel()); }
TEST(Mpi, TrainingSkipsOrRefusesTogether) { expect_refused_everywhere(channel()); }

TEST(Mpi, TrainingWantsTheSameOfAllRanks) {
  expect_disagreement_is_named(*channel());
  expect_other_configurations_refused(channel());
}

TEST(Mpi, RefusesAnotherRankThanThatOfTheProcess) {
  try {
    make_mpi_channel(channel()->rank() + 1, channel()->size(), 1s);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_NE(error.message().find("as MPI started this process"), std::string::npos);
  }
}

// Each in a run of its own: afterwards the process cannot use MPI, nor finalize it, which mpirun
// complains of.
std::shared_ptr<Channel> channel_with(std::chrono::nanoseconds timeout) {
  return make_mpi_channel(own_rank(), all_ranks(), timeout);
}

TEST(MpiFailures, RanksThatDoNotComeAreNamedEverywhere) {
  const auto patient = channel_with(1s);
  if (own_rank() == 1) std::this_thread::sleep_for(2s);
  expect_error(own_rank() == 1 ? Code::kComm : Code::kTimeout, "rank 1 has not come within 1 s",
               [&] { patient->gather(""); });
  expect_error(Code::kComm, "rank 1 has not come within 1 s", [&] { patient->gather(""); });
  expect_error(Code::kInvalid, "has given up other ranks of MPI", [] { channel_with(1s); });
}

TEST(MpiFailures, ARankThatGivesUpIsNamedAtOnce) {
  const auto patient = channel_with(60s);
  const auto start = std::chrono::steady_clock::now();
  if (own_rank() == 1) return patient->abort();
  expect_error(Code::kComm, "rank 1 has aborted it", [&] { patient->gather(""); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(MpiFailures, ARankThatGivesUpIsHeardWithoutACall) {
  auto patient = channel_with(60s);
  patient->listen();
  if (own_rank() == 1) {
    patient->abort();
    return patient.reset();
  }
  const auto start = std::chrono::steady_clock::now();
  expect_error(Code::kComm, "rank 1 has aborted it", [&] {
    while (std::chrono::steady_clock::now() - start < 20s) patient->listen();
  });
}

// Rank 0 sends and gives up at once; false there. The others come late.
bool comes_late(std::shared_ptr<Channel>& patient, const Launch& broadcast) {
  if (own_rank() != 0) {
    std::this_thread::sleep_for(2s);
    return true;
  }
  run(broadcast);
  patient->abort();
  patient.reset();
  return false;
}

TEST(MpiFailures, WhatWasSentBeforeARankGaveUpComesFirst) {
  auto patient = channel_with(60s);
  char word[] = "none";
  if (own_rank() == 0) std::memcpy(word, "sent", sizeof word);
  const Launch broadcast = patient->broadcast(word, sizeof word);
  if (!comes_late(patient, broadcast)) return;
  run(broadcast);
  EXPECT_STREQ(word, "sent");
  expect_error(Code::kComm, "rank 0 has aborted it", [&] { run(broadcast); });
}

// One that hears of it in its last exchange does not wait for the other to finalize.
TEST(MpiFailures, ARankThatGaveUpBehindTheLastExchangeIsNotWaitedFor) {
  auto patient = channel_with(60s);
  char word[] = "sent";
  const Launch broadcast = patient->broadcast(word, sizeof word);
  if (!comes_late(patient, broadcast)) return;
  const auto start = std::chrono::steady_clock::now();
  run(broadcast);
  patient.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(MpiFailures, OtherSizesAreSeen) {
  const auto patient = channel_with(60s);
  std::vector<float> data(100);
  const Launch launch = patient->all_reduce(data.data(), own_rank() == 0 ? 100 : 64);
  expect_error(Code::kComm, "", [&] { run(launch); });  // one gets more, the other less
}

TEST(MpiFailures, ARankThatDoesNotStartIsNotWaitedForForEver) {
  if (own_rank() == 1) std::this_thread::sleep_for(2s);
  expect_error(Code::kTimeout, "not all ranks have", [] { channel_with(1s); });
}

TEST(MpiFailures, ARankThatMakesNoChannelIsNotWaitedForForEver) {
  const auto first = channel_with(1s);
  if (own_rank() == 1) return std::this_thread::sleep_for(3s);
  expect_error(Code::kTimeout, "not all ranks have come within 1 s", [] { channel_with(1s); });
  expect_error(Code::kComm, "another one of this process has ended", [&] { first->gather(""); });
}

TEST(MpiFailures, ARankThatDoesNotLeaveIsNotWaitedForForEver) {
  auto leaving = channel_with(1s);
  if (own_rank() == 1) return std::this_thread::sleep_for(4s);
  const auto start = std::chrono::steady_clock::now();
  leaving.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
}

}  // namespace
}  // namespace assay::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
