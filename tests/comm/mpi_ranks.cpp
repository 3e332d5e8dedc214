// One rank of MPI, which does what every channel does. Started by mpirun, as many times as there
// are ranks; each checks for itself.
#include <cstdlib>
#include <filesystem>

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

const std::shared_ptr<Channel>& channel() {
  static const std::shared_ptr<Channel> made = make_mpi_channel(
      of_environment("OMPI_COMM_WORLD_RANK"), of_environment("OMPI_COMM_WORLD_SIZE"), 60s);
  return made;
}

TEST(Mpi, SumsInOrder) { expect_sums_in_order(*channel()); }
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

// In a run of its own: MPI is not finalized afterwards, which mpirun complains of.
TEST(MpiFailures, RanksThatDoNotComeAreNamed) {
  const auto patient = make_mpi_channel(channel()->rank(), channel()->size(), 1s);
  if (channel()->rank() != 1) {
    try {
      patient->gather("");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTimeout);
      EXPECT_NE(error.message().find("rank 1 has not come within 1 s"), std::string::npos)
          << error.message();
    }
  }
  channel()->gather("");
}

}  // namespace
}  // namespace assay::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
