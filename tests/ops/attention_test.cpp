// Attention and its gradient: padded and packed sequences, rows of nobody, dropout, numbers that no
// batch may have. cuDNN takes heads of multiples of 8 in 16-bit types.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "sdk/base/philox.h"
#include "tests/harness/backend_under_test.h"
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
  c.thread_invariant = size % 8 != 0 || !libraries_need_alignment();
  if (op.rate > 0) c.inputs.push_back({{}, DType::kI64, Recipe::listed({kStep})});
  return c;
}

std::vector<DType> types_of_backend() {
  std::vector<DType> types{DType::kF32, DType::kBf16};
  if (shared_backend_under_test(1)->target().has_f16) types.push_back(DType::kF16);
  return types;
}

// Whether kernels of our own compute it, whose masks are those of the reference.
bool is_own(const OpCase& c, DType data_type) {
  std::vector<ValueType> types;
  for (const Argument& x : c.inputs) types.push_back({x.dtype.value_or(data_type), x.dims});
  const OneNode one = make_node(c.op, types);
  const NodeId node = one.graph.value(one.outputs[0]).producer;
  return shared_backend_under_test(1)->plan(one.graph, node).kernel.starts_with("own:");
}

// Where own kernels would stand in unnoticed, but slow.
TEST(Attention, OfModelsIn16BitsIsALibrarysOnHopper) {
  const Target target = shared_backend_under_test(1)->target();
  if (target.kind != Target::Kind::kCuda || target.compute_capability / 10 != 9)
    GTEST_SKIP() << "the device is no Hopper";
  const Sequences sequences{"", 256, {0, 128}, {128, 100}};
  for (const DType type : types_of_backend())
    for (const float rate : {0.0f, 0.1f}) {
      const OpCase c = case_of(sequences, 64, {.heads = 12, .longest = 128, .rate = rate});
      EXPECT_EQ(is_own(c, type), type == DType::kF32) << to_text(type) << ", rate " << rate;
    }
}

// In all types; with dropout, in those whose masks are known.
void check(OpCase c) {
  if (std::get<Attention>(c.op).rate > 0) {
    c.dtypes = types_of_backend();
    std::erase_if(c.dtypes, [&](DType type) { return !is_own(c, type); });
  }
  check_op(c, reference);
}

TEST(Attention, ValuesAndGradients) {
  const Sequences padded{"padded", 21, {0, 7, 14}, {7, 5, 1}};
  const Sequences packed{"packed", 24, {0, 9, 10, 17}, {9, 1, 7, 3}};
  for (const float rate : {0.0f, 0.25f}) {
    check(case_of(padded, 4, {.heads = 3, .longest = 7, .rate = rate}));
    check(case_of(padded, 8, {.heads = 3, .longest = 7, .rate = rate}));
    check(case_of(packed, 5, {.heads = 2, .longest = 9, .rate = rate}));
    check(case_of(packed, 16, {.heads = 2, .longest = 9, .rate = rate}));
    check(case_of({"one", 33, {0}, {33}}, 64, {.heads = 2, .longest = 33, .rate = rate}));
    check(case_of({"long", 140, {3}, {131}}, 33, {.heads = 1, .longest = 131, .rate = rate}));
  }
  check(case_of({"tiles", 290, {0, 180}, {170, 100}}, 64, {.heads = 2, .longest = 170}));
}

// A row between sequences, before the first and after the last, and a sequence of none.
TEST(Attention, RowsOfNobodyAreZero) {
  for (const int64_t size : {3, 8})
    check(case_of({"gaps", 12, {2, 5, 5, 8}, {2, 0, 2, 3}}, size, {.heads = 2, .longest = 3}));
}

// Nothing outside of the tensors is read or written, and no row has two owners.
TEST(Attention, NumbersThatNoBatchMayHave) {
  constexpr double kLeast = -2147483648.0, kMost = 2147483647.0;
  for (const Sequences& s :
       {Sequences{"beyond both ends", 10, {-3, 8}, {5, 9}},
        Sequences{"huge", 10, {kLeast, 0, kMost, 4}, {kMost, kMost, kMost, kLeast}},
        Sequences{"overlapping", 10, {0, 2, 3}, {4, 5, 2}},
        Sequences{"descending", 10, {6, 0}, {4, 6}}, Sequences{"too long", 10, {1}, {9}}})
    for (const float rate : {0.0f, 0.25f})
      for (const int64_t size : {3, 8})
        check(case_of(s, size, {.heads = 2, .longest = 6, .rate = rate}));
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

// ---- Masks, which may be a library's ----

// Forward and backward of sequences that fill the tensor.
struct Trained {
  std::vector<double> context, dqkv;
};
Trained train(const Attention& op, DType type, const Tensor& qkv, int64_t step,
              const Tensor& dcontext) {
  const int64_t tokens = qkv.dims[0], count = tokens / op.longest;
  Tensor start{{count}, {}}, length{{count}, {}};
  for (int64_t b = 0; b < count; ++b) {
    start.values.push_back(static_cast<double>(b * op.longest));
    length.values.push_back(static_cast<double>(op.longest));
  }
  OneNode one = make_node(
      op, {{type, qkv.dims}, {DType::kI32, {count}}, {DType::kI32, {count}}, {DType::kI64, {}}});
  const std::vector<ValueId>& x = one.inputs;
  const ValueId dy = one.graph.emit1(Input{"dy", type, dcontext.dims}, {});
  const ValueId dx =
      one.graph.emit1(AttentionGrad{op.heads, op.scale, op.longest, op.rate, op.seed, op.stream},
                      {x[0], x[1], x[2], one.outputs[0], one.outputs[1], dy, x[3]});
  const RunResult got = run_graph(one.graph,
                                  {{x[0], encode(qkv, type)},
                                   {x[1], encode(start, DType::kI32)},
                                   {x[2], encode(length, DType::kI32)},
                                   {x[3], encode({{}, {static_cast<double>(step)}}, DType::kI64)},
                                   {dy, encode(dcontext, type)}},
                                  {one.outputs[0], dx});
  return {decode(got.outputs[0], {type, dcontext.dims}).values,
          decode(got.outputs[1], {type, qkv.dims}).values};
}

// Of 8 tokens that attend to each other alike: which of them were kept, in each direction. Unit
// vectors as values show forward masks in the context, as gradients of the context they show
// backward masks in the gradient of the values.
constexpr int64_t kUnit = 8, kSequences = 64;
struct Kept {
  std::vector<bool> forward, backward;  // [sequences, query, head, key]
};
Kept kept(const Attention& op, DType type, int64_t step) {
  const int64_t tokens = kSequences * kUnit, hidden = op.heads * kUnit;
  Tensor qkv{{tokens, 3 * hidden}, std::vector<double>(tokens * 3 * hidden)};
  Tensor dcontext{{tokens, hidden}, std::vector<double>(tokens * hidden)};
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < op.heads; ++h) {
      qkv.values[(t * 3 + 2) * hidden + h * kUnit + t % kUnit] = 1;
      dcontext.values[t * hidden + h * kUnit + t % kUnit] = 1;
    }
  const Trained got = train(op, type, qkv, step, dcontext);
  const double share = 1 / (kUnit * (1 - static_cast<double>(op.rate)));
  const auto bit = [&](double v) {
    EXPECT_TRUE(v == 0 || std::abs(v - share) < 0.01 * share) << v;
    return v != 0;
  };
  Kept all;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < op.heads; ++h)
      for (int64_t key = 0; key < kUnit; ++key) {
        const int64_t value = (t / kUnit * kUnit + key) * 3 + 2;
        all.forward.push_back(bit(got.context[t * hidden + h * kUnit + key]));
        all.backward.push_back(bit(got.dqkv[value * hidden + h * kUnit + t % kUnit]));
      }
  return all;
}

double share_of(const std::vector<bool>& bits) {
  return static_cast<double>(std::count(bits.begin(), bits.end(), true)) /
         static_cast<double>(bits.size());
}

// Of some 8,000 pairs a quarter is dropped, within five standard errors; others in every step,
// layer and run, as those of independent draws: of two masks 3/8 of the bits differ.
TEST(Attention, MasksAreOfSeedStreamAndStep) {
  const Attention op{.heads = 2, .longest = kUnit, .rate = 0.25f, .seed = 3, .stream = 4};
  for (const DType type : types_of_backend()) {
    SCOPED_TRACE(to_text(type));
    const Kept mask = kept(op, type, 5);
    EXPECT_NEAR(share_of(mask.forward), 0.75, 0.025);
    EXPECT_EQ(mask.forward, mask.backward);
    EXPECT_EQ(kept(op, type, 5).forward, mask.forward);
    Attention of_other_layer = op, of_other_run = op;
    of_other_layer.stream = 5, of_other_run.seed = 4;
    for (const Kept& other :
         {kept(op, type, 6), kept(of_other_layer, type, 5), kept(of_other_run, type, 5)}) {
      EXPECT_EQ(other.forward, other.backward);
      std::vector<bool> differs;
      for (size_t i = 0; i < mask.forward.size(); ++i)
        differs.push_back(mask.forward[i] != other.forward[i]);
      EXPECT_NEAR(share_of(differs), 0.375, 0.03);
    }
    // Nor are heads and sequences alike.
    std::set<std::vector<bool>> rows;
    for (auto row = mask.forward.begin(); row != mask.forward.end(); row += kUnit * 2 * kUnit)
      rows.emplace(row, row + kUnit * 2 * kUnit);
    EXPECT_EQ(rows.size(), kSequences);
  }
}

// Along its gradient a loss of the masked attention changes as that says: with other masks in the
// backward pass about half as much.
TEST(Attention, GradientsAreOfTheMasksThatWereDrawn) {
  const Attention op{.heads = 2, .scale = 0.5f, .longest = 40, .rate = 0.5f, .seed = 3};
  const int64_t tokens = 3 * op.longest, hidden = 2 * 16;
  OpCase c;
  c.inputs = {{{tokens, 3 * hidden}, {}, Recipe::uniform(-1, 1)},
              {{tokens, hidden}, {}, Recipe::uniform(-1, 1)}};
  for (const DType type : types_of_backend()) {
    SCOPED_TRACE(to_text(type));
    const auto inputs = make_inputs(c, type);
    const Tensor &qkv = inputs[0], &projection = inputs[1];
    const auto gradient = train(op, type, qkv, kStep, projection).dqkv;
    const auto moved = [&](double by) {
      Tensor x = qkv;
      for (size_t i = 0; i < gradient.size(); ++i) x.values[i] += by * gradient[i];
      return rounded(x, type);
    };
    const auto loss = [&](const Tensor& x) {
      const auto context = train(op, type, x, kStep, projection).context;
      return std::inner_product(context.begin(), context.end(), projection.values.begin(), 0.0);
    };
    const Tensor before = moved(-0.05), behind = moved(0.05);
    double expected = 0;
    for (size_t i = 0; i < gradient.size(); ++i)
      expected += gradient[i] * (behind.values[i] - before.values[i]);
    EXPECT_NEAR((loss(behind) - loss(before)) / expected, 1, 0.1);
  }
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
