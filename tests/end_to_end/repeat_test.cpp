// The same seed gives the same bits, whatever loads the data.
#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

using Repeat = SmallRun;

TEST_F(Repeat, AnyNumberOfLoaderThreadsGivesTheSameBits) {
  for (const std::string workers : {"1", "2", "5"}) {
    const Ended ended = run("workers-" + workers, {"--set", "io.workers=" + workers});
    ASSERT_EQ(ended.code, 0) << ended.err;
  }
  expect_same_training("workers-1", "workers-2");
  expect_same_training("workers-1", "workers-5");
}

TEST_F(Repeat, AnotherSeedGivesOtherBits) {
  const Ended one = run("one"), two = run("two", {"--set", "trials.seed=[2]"});
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_FALSE(same_checkpoint("one", "two"));
}

}  // namespace
}  // namespace end_to_end
