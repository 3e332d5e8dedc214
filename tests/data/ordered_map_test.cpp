#include "sdk/data/ordered_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace assay::data {
namespace {

TEST(OrderedMap, ResultsComeInOrder) {
  for (const int threads : {1, 2, 7}) {
    std::vector<int64_t> seen;
    ordered_map<int64_t>(
        1000, threads, [](int64_t index, int64_t& result) { result = index * index; },
        [&](int64_t index, int64_t& result) {
          EXPECT_EQ(result, index * index);
          seen.push_back(index);
        });
    ASSERT_EQ(seen.size(), 1000u);
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  }
}

TEST(OrderedMap, FirstFailureInOrderIsRaised) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    int64_t consumed = 0;
    try {
      ordered_map<int>(
          500, 3,
          [](int64_t index, int&) {
            if (index >= 100) throw std::runtime_error(std::to_string(index));
          },
          [&](int64_t, int&) { ++consumed; });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "100");
    }
    EXPECT_EQ(consumed, 100);
  }
}

TEST(OrderedMap, ConsumerMayStop) {
  std::atomic<int64_t> produced{0};
  const auto stop = [](int64_t index, int&) {
    if (index == 10) throw std::runtime_error("stop");
  };
  EXPECT_THROW(ordered_map<int>(
                   1000000, 2, [&](int64_t, int&) { ++produced; }, stop),
               std::runtime_error);
  EXPECT_LT(produced, 100);  // it does not run far ahead
}

TEST(OrderedMap, NothingToDo) {
  ordered_map<int>(
      0, 2, [](int64_t, int&) { FAIL(); }, [](int64_t, int&) { FAIL(); });
}

}  // namespace
}  // namespace assay::data
