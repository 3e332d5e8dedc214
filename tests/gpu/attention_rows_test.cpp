// What cuDNN's attention is told of sequences, against what sdk/graph/ops.h says they own.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/kernels/kernels.h"

namespace assay::cuda {
namespace {

struct Rows {
  std::vector<int64_t> bounds, qkv, context, logsumexp;
  std::vector<int32_t> length;
  std::vector<int64_t> dropout{-1, -1};

  explicit Rows(size_t sequences)
      : bounds(2 * sequences + 2),
        qkv(sequences + 1),
        context(sequences + 1),
        logsumexp(sequences + 1),
        length(sequences) {}
};

using Numbers = std::vector<int32_t>;

Rows expected_rows(const kernels::AttentionShape& s, const Numbers& start, const Numbers& length) {
  Rows rows(start.size());
  int64_t owned = 0;
  for (size_t b = 0; b <= start.size(); ++b) {
    const bool is_end = b == start.size();
    const int64_t first = is_end ? s.tokens : start[b];
    const int64_t count = is_end ? 0 : std::clamp<int64_t>(length[b], 0, s.longest);
    const int64_t begin = std::clamp(first, owned, s.tokens);
    owned = std::clamp(first + count, begin, s.tokens);
    rows.bounds[2 * b] = begin, rows.bounds[2 * b + 1] = owned;
    rows.qkv[b] = begin * 3 * s.heads * s.size;
    rows.context[b] = begin * s.heads * s.size;
    rows.logsumexp[b] = begin * s.heads;
    if (!is_end) rows.length[b] = static_cast<int32_t>(owned - begin);
  }
  return rows;
}

// The emulated device reads the host's memory.
Rows rows_of(const kernels::AttentionShape& s, const Numbers& start, const Numbers& length) {
  static DeviceState device{Options{}};
  Rows rows(start.size());
  device.use([&] {
    kernels::attention_rows(device.stream(), s, start.data(), length.data(),
                            {rows.bounds.data(), rows.qkv.data(), rows.context.data(),
                             rows.logsumexp.data(), rows.length.data(), rows.dropout.data()});
    check(cudaStreamSynchronize(device.stream()), "waiting");
  });
  return rows;
}

kernels::AttentionShape shape_of(int64_t tokens, int64_t sequences, int64_t longest) {
  return {.tokens = tokens,
          .sequences = sequences,
          .heads = 3,
          .size = 8,
          .longest = longest,
          .scale = 1,
          .dropout = {}};
}

void expect_rows(int64_t tokens, int64_t longest, const Numbers& start, const Numbers& length) {
  const auto s = shape_of(tokens, static_cast<int64_t>(start.size()), longest);
  const Rows expected = expected_rows(s, start, length), got = rows_of(s, start, length);
  EXPECT_EQ(got.bounds, expected.bounds);
  EXPECT_EQ(got.qkv, expected.qkv);
  EXPECT_EQ(got.context, expected.context);
  EXPECT_EQ(got.logsumexp, expected.logsumexp);
  EXPECT_EQ(got.length, expected.length);
  EXPECT_EQ(got.dropout, expected.dropout);  // nothing is dropped
}

// More of them than a block has threads as well.
TEST(AttentionRows, AreThoseThatSequencesOwn) {
  std::mt19937 engine(1);
  for (const size_t count : {0u, 1u, 5u, 255u, 256u, 257u, 700u}) {
    SCOPED_TRACE(count);
    Numbers packed, gaps, length, any;
    for (size_t b = 0; b < count; ++b) {
      packed.push_back(b == 0 ? 0 : packed.back() + length.back());
      gaps.push_back(packed.back() + static_cast<int32_t>(2 * b));
      length.push_back(static_cast<int32_t>(engine() % 8));  // also none
      any.push_back(static_cast<int32_t>(engine() % 2000) - 500);
    }
    expect_rows(5000, 7, packed, length);
    expect_rows(5000, 7, gaps, length);
    expect_rows(300, 7, gaps, length);  // beyond the end
    expect_rows(900, 7, any, length);
    std::sort(any.begin(), any.end());
    expect_rows(900, 5, any, length);
    expect_rows(900, 900, any, Numbers(count, -3));
  }
}

TEST(AttentionRows, SeedsAreOfSeedStreamAndStep) {
  std::set<int64_t> seeds;
  kernels::AttentionShape s = shape_of(4, 1, 4);
  for (const uint32_t key : {1u, 2u})
    for (int64_t step : {0, 1, 2, 1 << 20}) {
      s.dropout = {{.key = {key, 7}, .drop_below = 1u << 30, .scale = 1}, &step};
      const Rows rows = rows_of(s, {0}, {4});
      EXPECT_EQ(rows.dropout, rows_of(s, {0}, {4}).dropout);
      EXPECT_EQ(rows.dropout[1], 0);
      seeds.insert(rows.dropout[0]);
    }
  EXPECT_EQ(seeds.size(), 8u);
}

}  // namespace
}  // namespace assay::cuda
