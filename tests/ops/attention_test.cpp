// Attention and its gradient: padded and packed sequences, rows of nobody, dropout, numbers that no
// batch may have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sdk/base/philox.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr uint64_t kStep = 5;

// What the weight of key `place` of the sequence is multiplied by.
double keep(const Attention& p, int64_t query, int64_t head, int64_t place) {
  if (p.rate == 0) return 1;
  const auto element =
      static_cast<uint64_t>((query * p.heads + head) * ((p.longest + 3) / 4 * 4) + place);
  const PhiloxCounter four = philox4x32(
      {static_cast<uint32_t>(element / 4), static_cast<uint32_t>(element / 4 >> 32), kStep, 0},
      philox_key(p.seed, p.stream));
  return four[element % 4] >= p.rate * 0x1p32 ? 1 / (1 - p.rate) : 0;
}

std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Attention>(op);
  const int64_t tokens = x[0].dims[0], hidden = x[0].dims[1] / 3, size = hidden / p.heads;
  Tensor context{{tokens, hidden}, std::vector<double>(tokens * hidden)};
  Tensor logsumexp{{tokens, p.heads}, std::vector<double>(tokens * p.heads)};
  const auto qkv = [&](int64_t token, int part, int64_t head, int64_t c) {
    return x[0].values[token * 3 * hidden + part * hidden + head * size + c];
  };
  int64_t owned = 0;
  for (size_t b = 0; b < x[1].values.size(); ++b) {
    const auto start = static_cast<int64_t>(x[1].values[b]);
    const auto length = std::clamp<int64_t>(static_cast<int64_t>(x[2].values[b]), 0, p.longest);
    const int64_t begin = std::clamp(start, owned, tokens);
    const int64_t end = owned = std::clamp(start + length, begin, tokens);
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = begin; i < end; ++i) {
        std::vector<double> scores;
        double sum = 0;
        for (int64_t j = begin; j < end; ++j) {
          double score = 0;
          for (int64_t c = 0; c < size; ++c) score += qkv(i, 0, h, c) * qkv(j, 1, h, c);
          scores.push_back(p.scale * score);
          sum += std::exp(scores.back());
        }
        logsumexp.values[i * p.heads + h] = std::log(sum);
        for (int64_t j = begin; j < end; ++j) {
          const double weight = std::exp(scores[j - begin]) / sum * keep(p, i, h, j - begin);
          for (int64_t c = 0; c < size; ++c)
            context.values[i * hidden + h * size + c] += weight * qkv(j, 2, h, c);
        }
      }
  }
  return {context, logsumexp};
}

struct Sequences {
  std::string name;
  int64_t tokens;
  std::vector<double> start, length;
};

OpCase case_of(const Sequences& s, int64_t size, Attention op) {
  op.scale = 1 / std::sqrt(static_cast<float>(size));
  op.seed = 3, op.stream = 4;
  const auto count = static_cast<int64_t>(s.start.size());
  OpCase c{cat(s.name, ", ", op.heads, " heads of ", size, op.rate > 0 ? ", dropout" : ""),
           op,
           {{{s.tokens, 3 * op.heads * size}, {}, Recipe::uniform(-2, 2)},
            {{count}, DType::kI32, Recipe::listed(s.start)},
            {{count}, DType::kI32, Recipe::listed(s.length)}}};
  // The gradient reads a context that was rounded to the data type.
  c.accuracy = {.terms = op.longest + size, .magnitude = 2, .ulps = 16, .roundings = 1};
  c.gradients = {0};
  if (op.rate > 0) c.inputs.push_back({{}, DType::kI64, Recipe::listed({kStep})});
  return c;
}

TEST(Attention, ValuesAndGradients) {
  const Sequences padded{"padded", 21, {0, 7, 14}, {7, 5, 1}};
  const Sequences packed{"packed", 24, {0, 9, 10, 17}, {9, 1, 7, 3}};
  for (const float rate : {0.0f, 0.25f}) {
    check_op(case_of(padded, 4, {.heads = 3, .longest = 7, .rate = rate}), reference);
    check_op(case_of(packed, 5, {.heads = 2, .longest = 9, .rate = rate}), reference);
    check_op(case_of({"one", 33, {0}, {33}}, 64, {.heads = 2, .longest = 33, .rate = rate}),
             reference);
    check_op(case_of({"long", 140, {3}, {131}}, 33, {.heads = 1, .longest = 131, .rate = rate}),
             reference);
  }
}

// A row between sequences, before the first and after the last, and a sequence of none.
TEST(Attention, RowsOfNobodyAreZero) {
  check_op(case_of({"gaps", 12, {2, 5, 5, 8}, {2, 0, 2, 3}}, 3, {.heads = 2, .longest = 3}),
           reference);
}

// Nothing outside of the tensors is read or written, and no row has two owners.
TEST(Attention, NumbersThatNoBatchMayHave) {
  constexpr double kLeast = -2147483648.0, kMost = 2147483647.0;
  for (const Sequences& s :
       {Sequences{"beyond both ends", 10, {-3, 8}, {5, 9}},
        Sequences{"huge", 10, {kLeast, 0, kMost, 4}, {kMost, kMost, kMost, kLeast}},
        Sequences{"overlapping", 10, {0, 2, 3}, {4, 5, 2}},
        Sequences{"descending", 10, {6, 0}, {4, 6}}, Sequences{"too long", 10, {1}, {9}}})
    check_op(case_of(s, 3, {.heads = 2, .longest = 6, .rate = 0.25f}), reference);
}

// What a sequence gets does not depend on where it stands or on what else is in the batch.
TEST(Attention, PackedIsPaddedWithoutThePadding) {
  const int64_t hidden = 12, length[] = {7, 5, 1};
  const Attention op{.heads = 3, .scale = 0.5f, .longest = 7};
  std::vector<double> padded, packed;
  for (int64_t b = 0, n = 0; b < 3; ++b)
    for (int64_t i = 0; i < 7 * 3 * hidden; ++i, ++n) {
      padded.push_back(static_cast<double>(n * 263 % 509 - 254) / 128);
      if (i < length[b] * 3 * hidden) packed.push_back(padded.back());
    }
  const auto contexts = [&](const std::vector<double>& qkv, std::vector<double> start) {
    const auto tokens = static_cast<int64_t>(qkv.size()) / (3 * hidden);
    const auto got = run_node(op, {{{tokens, 3 * hidden}, qkv}, {{3}, start}, {{3}, {7, 5, 1}}},
                              {DType::kF32, DType::kI32, DType::kI32});
    return decode(got.outputs[0], {DType::kF32, {tokens, hidden}}).values;
  };
  const std::vector<double> from_padded = contexts(padded, {0, 7, 14});
  std::vector<double> real;
  for (int64_t b = 0; b < 3; ++b)
    real.insert(real.end(), from_padded.begin() + b * 7 * hidden,
                from_padded.begin() + (b * 7 + length[b]) * hidden);
  EXPECT_EQ(contexts(packed, {0, 7, 12}), real);
}

// Scores as large as f32 goes without overflow, and all weight on one key.
TEST(Attention, SurvivesLargeScores) {
  OpCase c = case_of({"large", 3, {0}, {3}}, 1, {.heads = 1, .longest = 3});
  c.inputs[0].recipe = Recipe::listed({1e18, 1e18, 0.25, 1, -1e18, 0.5, -1, 1, 0.75});
  c.gradients.clear();
  const auto inputs = make_inputs(c, DType::kF32);
  const auto got = run_node(c.op, inputs, {DType::kF32, DType::kI32, DType::kI32});
  const auto context = decode(got.outputs[0], {DType::kF32, {3, 1}}).values;
  EXPECT_EQ(context, (std::vector<double>{0.25, 0.25, 0.5}));
}

// Of some 10,000 pairs about a quarter is dropped.
TEST(Attention, DropsTheShareThatIsAsked) {
  const int64_t tokens = 100;
  OpCase c = case_of({"", tokens, {0}, {100}}, 1, {.heads = 1, .longest = tokens, .rate = 0.25f});
  std::vector<double> qkv(tokens * 3, 0);  // equal weights: context counts what was kept
  for (int64_t t = 0; t < tokens; ++t) qkv[t * 3 + 2] = 1;
  c.inputs[0].recipe = Recipe::listed(qkv);
  const auto got = run_node(c.op, make_inputs(c, DType::kF32),
                            {DType::kF32, DType::kI32, DType::kI32, DType::kI64});
  double sum = 0;
  for (const double v : decode(got.outputs[0], {DType::kF32, {tokens, 1}}).values) sum += v;
  EXPECT_NEAR(sum / tokens, 1, 0.03);  // five standard errors of 10,000 draws
}

TEST(Attention, ShapesThatDoNotFit) {
  const auto error = [](const Attention& op, const Dims& qkv, const Dims& length) -> std::string {
    try {
      make_node(op, {{DType::kF32, qkv}, {DType::kI32, {2}}, {DType::kI32, length}});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error({.heads = 2, .longest = 3}, {6, 12}, {2}), "");
  EXPECT_NE(error({.heads = 5, .longest = 3}, {6, 12}, {2}), "");
  EXPECT_NE(error({.heads = 2, .longest = 0}, {6, 12}, {2}), "");
  EXPECT_NE(error({.heads = 2, .longest = 3, .rate = 1}, {6, 12}, {2}), "");
  EXPECT_NE(error({.heads = 2, .longest = 3}, {6, 12}, {3}), "");
}

}  // namespace
}  // namespace assay::test
