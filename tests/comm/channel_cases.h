// What holds on every kind of channel, asked by one of its ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/philox.h"
#include "sdk/comm/channel.h"

namespace assay::test {

// Numbers of a rank, of many sizes, so that another order of summing gives other bits.
inline std::vector<float> numbers_of(int rank, int64_t n) {
  PhiloxStream random(5, static_cast<uint64_t>(rank));
  std::vector<float> numbers(static_cast<size_t>(n));
  for (float& number : numbers) {
    const float size = random.uniform(-1, 1);
    number = size * (random.below(2) == 0 ? 1.0f : 1e5f);
  }
  return numbers;
}

inline void run(const Launch& launch) {
  Queue queue;
  launch(queue);
}

inline void expect_sums_in_order(Channel& channel) {
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 1000, 4099, 300000}) {
    std::vector<float> sum = numbers_of(0, n);
    for (int rank = 1; rank < channel.size(); ++rank) {
      const std::vector<float> theirs = numbers_of(rank, n);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
    }
    std::vector<float> mine = numbers_of(channel.rank(), n);
    const Launch launch = channel.all_reduce(mine.data(), n);
    run(launch);
    EXPECT_EQ(mine, sum) << n;
    std::ranges::copy(numbers_of(channel.rank(), n), mine.begin());  // the same launch again
    run(launch);
    EXPECT_EQ(mine, sum) << n;
  }
}

inline void expect_broadcasts_and_texts(Channel& channel) {
  std::vector<int> data(100000, channel.rank());
  if (channel.rank() == 0) std::iota(data.begin(), data.end(), 0);
  run(channel.broadcast(data.data(), data.size() * sizeof(int)));
  for (size_t i = 0; i < data.size(); i += 9999) EXPECT_EQ(data[i], static_cast<int>(i));
  const auto text_of = [](int rank) { return std::string(static_cast<size_t>(rank) * 1000, 'x'); };
  const auto texts = channel.gather(text_of(channel.rank()));
  ASSERT_EQ(texts.size(), static_cast<size_t>(channel.size()));
  for (int rank = 0; rank < channel.size(); ++rank)
    EXPECT_EQ(texts[static_cast<size_t>(rank)], text_of(rank));
}

inline void expect_disagreement_is_named(Channel& channel) {
  require_agreement(channel, "recipe", "a");
  try {
    require_agreement(channel, "recipe", channel.rank() == 1 ? "b" : "a");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kComm);
    EXPECT_EQ(error.message(), "rank 1 has another recipe than rank 0: b, not a");
  }
}

}  // namespace assay::test
