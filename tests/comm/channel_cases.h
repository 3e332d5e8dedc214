// What holds on every kind of channel, asked by one of its ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/float16.h"
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

// What travels as f16 is rounded once on its way there and once on its way back.
inline void expect_rounded_sums(Channel& channel) {
  const auto rounded = [](float value) { return static_cast<float>(Float16(value)); };
  const auto numbers = [](int rank, int64_t n) {
    std::vector<float> small = numbers_of(rank, n);
    for (float& number : small) number *= 1e-2f;  // f16 ends at 65504
    return small;
  };
  for (const int64_t n : {1, 17, 4099}) {
    std::vector<float> sum(static_cast<size_t>(n));
    for (int rank = 0; rank < channel.size(); ++rank) {
      const std::vector<float> theirs = numbers(rank, n);
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] = rank == 0 ? rounded(theirs[i]) : sum[i] + rounded(theirs[i]);
    }
    std::ranges::transform(sum, sum.begin(), rounded);
    std::vector<float> mine = numbers(channel.rank(), n);
    run(channel.all_reduce(mine.data(), n, DType::kF16));
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
