// Ops that read or write views where they are: the same bits as of dense tensors, without a copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sdk/graph/elementwise.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<DType> data_types() {
  std::vector<DType> types{DType::kF32, DType::kBf16};
  if (make_backend_under_test(1)->target().has_f16) types.push_back(DType::kF16);
  return types;
}

Tensor numbers(const Dims& dims, int64_t first = 0) {
  Tensor tensor{dims, {}};
  for (int64_t i = 0; i < dims.numel(); ++i)
    tensor.values.push_back(static_cast<double>((first + i) * 263 % 509 - 254) / 64);
  return tensor;
}

int copies(const RunResult& result) {
  return static_cast<int>(
      std::count_if(result.kernels.begin(), result.kernels.end(),
                    [](const std::string& kernel) { return kernel.starts_with("own:copy"); }));
}

// A graph of inputs that are filled with numbers.
struct Case {
  Graph graph;
  std::vector<Feed> feeds;

  ValueId input(const Tensor& tensor, DType dtype) {
    const ValueId id = graph.emit1(Input{cat("x", feeds.size()), dtype, tensor.dims}, {});
    feeds.push_back({id, encode(tensor, dtype)});
    return id;
  }
  RunResult run(ValueId wanted, const RunOptions& options = {}) const {
    RunResult result = run_graph(graph, feeds, {wanted}, options);
    for (const std::string& damage : result.damage) ADD_FAILURE() << damage;
    return result;
  }
  Tensor values(ValueId wanted) const { return decode(run(wanted).outputs[0], graph.type(wanted)); }
};

// Makes a view in the graph.
using View = std::function<ValueId(Case&, DType)>;

// Node `op` on operands of which number `viewed` is a view: same bits as on a dense one, no copies.
void expect_read_in_place(const Op& op, const std::vector<Dims>& dims, size_t viewed,
                          const View& view) {
  for (const DType dtype : data_types()) {
    SCOPED_TRACE(cat(op_name(op), " ", dims[0], " ", dtype, ", input ", viewed));
    Case direct, dense;
    std::vector<ValueId> on_view, on_dense;
    for (size_t i = 0; i < dims.size(); ++i) {
      Tensor own = numbers(dims[i], static_cast<int64_t>(97 * i));
      const Tensor values = [&] {
        if (i != viewed) return own;
        Case alone;
        return alone.values(view(alone, dtype));
      }();
      on_dense.push_back(dense.input(values, dtype));
      on_view.push_back(i == viewed ? view(direct, dtype) : direct.input(values, dtype));
    }
    const ValueId y = direct.graph.emit(op, on_view)[0];
    const ValueId expected = dense.graph.emit(op, on_dense)[0];
    const RunResult result = direct.run(y);
    EXPECT_EQ(copies(result), 0);
    const Bytes wanted = dense.run(expected).outputs[0];
    EXPECT_TRUE(result.outputs[0] == wanted);
    for (const RunOptions& options : {RunOptions{.threads = 3}, RunOptions{.misalign_elems = 1}})
      EXPECT_TRUE(direct.run(y, options).outputs[0] == wanted);
  }
}

// `dims` from channel `first` on of rows that have `more` channels besides.
View channels(const Dims& dims, int64_t first, int64_t more) {
  return [=](Case& c, DType dtype) {
    Dims whole = dims, begin = dims;
    for (int axis = 0; axis < dims.rank(); ++axis) begin[axis] = 0;
    whole[dims.rank() - 1] += more;
    begin[dims.rank() - 1] = first;
    return c.graph.emit1(Slice{begin, dims}, {c.input(numbers(whole, 31), dtype)});
  };
}

// The middle of a tensor that is larger by one element on each side of every axis.
View middle(const Dims& dims) {
  return [=](Case& c, DType dtype) {
    Dims whole = dims, begin = dims;
    for (int axis = 0; axis < dims.rank(); ++axis) whole[axis] += 2, begin[axis] = 1;
    return c.graph.emit1(Slice{begin, dims}, {c.input(numbers(whole, 7), dtype)});
  };
}

// `dims` of a tensor whose axes stand the other way round.
View turned(const Dims& dims) {
  return [=](Case& c, DType dtype) {
    Dims stored = dims, axes = dims;
    for (int axis = 0; axis < dims.rank(); ++axis) {
      axes[axis] = dims.rank() - 1 - axis;
      stored[axis] = dims[dims.rank() - 1 - axis];
    }
    return c.graph.emit1(Transpose{axes}, {c.input(numbers(stored, 3), dtype)});
  };
}

TEST(Views, PointwiseReadsAnyStrides) {
  const Pointwise tanh_grad{activation_grad_code(ActivationKind::kTanh), {}};
  const Pointwise relu_grad{activation_grad_code(ActivationKind::kRelu), {}};
  for (const Dims& dims : {Dims{1}, Dims{3, 7}, Dims{2, 3, 5, 32}, Dims{700, 96}, Dims{701, 33}}) {
    for (const size_t operand : {size_t{0}, size_t{1}}) {
      expect_read_in_place(tanh_grad, {dims, dims}, operand, channels(dims, 2, 5));
      expect_read_in_place(relu_grad, {dims, dims}, operand, channels(dims, 0, 64));
      expect_read_in_place(relu_grad, {dims, dims}, operand, middle(dims));
      expect_read_in_place(tanh_grad, {dims, dims}, operand, turned(dims));
    }
  }
}

TEST(Views, PointwiseRepeatsViews) {
  const Pointwise scale{
      {PointwiseFn::kMul, {PointwiseOperand::input(0), PointwiseOperand::input(1)}}, {}};
  const Dims x{2, 19, 5, 6};
  for (const Dims& part :
       {Dims{6}, Dims{5, 6}, Dims{19, 1, 6}, Dims{2, 1, 5, 1}, Dims{2, 1, 1, 6}}) {
    expect_read_in_place(scale, {x, part}, 1, channels(part, 2, 5));
    expect_read_in_place(scale, {x, part}, 1, middle(part));
    expect_read_in_place(scale, {x, part}, 1, turned(part));
  }
}

// A box of channels of `inner`, with zeros around it.
View in_border(const Dims& inner, int64_t first, const Dims& begin, const Dims& whole) {
  return [=](Case& c, DType dtype) {
    return c.graph.emit1(SliceGrad{begin, whole}, {channels(inner, first, 5)(c, dtype)});
  };
}

TEST(Views, MaxPoolGradReadsAnAddendInABorder) {
  const PoolGeometry overlapping{.window = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}};
  for (const PoolGeometry& g : {PoolGeometry{}, overlapping}) {
    for (const int64_t c : {int64_t{3}, int64_t{16}}) {
      const Dims x{2, 9, 8, c}, y{2, 4, 4, c};
      for (const ActivationKind kind : {ActivationKind::kNone, ActivationKind::kRelu}) {
        const MaxPoolGrad op{g, true, kind};
        const std::vector<Dims> dims{x, y, x};
        expect_read_in_place(op, dims, 2, channels(x, 5, 5));
        expect_read_in_place(op, dims, 2, in_border({2, 5, 4, c}, 5, {0, 2, 3, 0}, x));
        expect_read_in_place(op, dims, 2, in_border({1, 9, 1, c}, 0, {1, 0, 7, 0}, x));
      }
    }
  }
}

// A border inside rows is no addend that kernels know: a copy comes before.
TEST(Views, WhatCannotBeReadIsCopied) {
  const Dims x{2, 4, 4, 3}, y{2, 2, 2, 3};
  Case c;
  const ValueId part = c.input(numbers({2, 4, 4, 2}), DType::kF32);
  const ValueId padded = c.graph.emit1(SliceGrad{{0, 0, 0, 1}, x}, {part});
  const ValueId a = c.input(numbers(x), DType::kF32), b = c.input(numbers(y), DType::kF32);
  const ValueId dx = c.graph.emit1(MaxPoolGrad{{}, true}, {a, b, padded});
  EXPECT_EQ(copies(c.run(dx)), 1);
  Case dense;
  const ValueId addend = dense.input(c.values(padded), DType::kF32);
  const ValueId da = dense.input(numbers(x), DType::kF32),
                db = dense.input(numbers(y), DType::kF32);
  EXPECT_EQ(dense.values(dense.graph.emit1(MaxPoolGrad{{}, true}, {da, db, addend})).values,
            c.values(dx).values);
}

struct Upsampling {
  Dims x, w, y;
  ConvGeometry g;
};

// What U-Net does: an upsampled image beside the middle of another one.
TEST(Views, Conv2dTransposeWritesIntoAConcatenation) {
  const ConvGeometry same{.stride = {2, 2}, .pad_end = {1, 1}};
  for (const Upsampling& s :
       {Upsampling{{2, 5, 7, 3}, {3, 3, 3, 5}, {2, 10, 14, 5}, same},
        Upsampling{{2, 4, 4, 32}, {32, 3, 3, 16}, {2, 8, 8, 16}, same},
        Upsampling{{2, 3, 5, 64}, {64, 3, 3, 19}, {2, 6, 10, 19}, same},
        Upsampling{{1, 20, 22, 17}, {17, 3, 3, 24}, {1, 40, 44, 24}, same},
        Upsampling{{1, 4, 3, 4},
                   {4, 2, 3, 5},
                   {1, 3, 4, 5},
                   {.stride = {1, 2}, .pad_begin = {1, 0}, .pad_end = {1, 3}}}}) {
    for (const DType dtype : data_types()) {
      for (const auto kind :
           {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kTanh}) {
        for (const bool first : {true, false}) {
          SCOPED_TRACE(cat(s.x, " ", dtype, " ", static_cast<int>(kind), " ", first));
          const bool bias = kind != ActivationKind::kNone;
          Case c;
          std::vector<ValueId> inputs{c.input(numbers(s.x), dtype), c.input(numbers(s.w), dtype)};
          if (bias) inputs.push_back(c.input(numbers({s.y[3]}), DType::kF32));
          const ValueId y = c.graph.emit(Conv2dTranspose{s.g, s.y, bias, kind}, inputs)[0];
          const ValueId skip = c.input(numbers({s.y[0], s.y[1] + 2, s.y[2] + 3, 3}, 11), dtype);
          const ValueId beside =
              c.graph.emit1(Slice{{0, 1, 2, 0}, {s.y[0], s.y[1], s.y[2], 3}}, {skip});
          const ValueId both =
              first ? c.graph.emit1(Concat{3}, {y, beside}) : c.graph.emit1(Concat{3}, {beside, y});
          const RunResult result = c.run(both);
          EXPECT_EQ(copies(result), 1);
          EXPECT_TRUE(c.run(both, {.threads = 2}).outputs[0] == result.outputs[0]);
          const Tensor parts[] = {c.values(first ? y : beside), c.values(first ? beside : y)};
          std::vector<double> expected;
          for (int64_t pixel = 0; pixel < s.y.numel() / s.y[3]; ++pixel) {
            for (const Tensor& part : parts) {
              const auto at = part.values.begin() + pixel * part.dims[3];
              expected.insert(expected.end(), at, at + part.dims[3]);
            }
          }
          EXPECT_EQ(decode(result.outputs[0], c.graph.type(both)).values, expected);
        }
      }
    }
  }
}

// [B,T,3,H,D] as one product wrote it, taken apart into three [B,H,T,D].
TEST(Views, PackedQueriesKeysAndValuesComeApart) {
  const int64_t b = 2, t = 5, h = 3, d = 4;
  for (const DType dtype : data_types()) {
    Case c;
    const Tensor packed = numbers({b, t, 3 * h * d});
    const ValueId x = c.input(packed, dtype);
    const ValueId split = c.graph.emit1(Reshape{{b, t, 3, h, d}}, {x});
    for (int64_t k = 0; k < 3; ++k) {
      const ValueId one = c.graph.emit1(Slice{{0, 0, k, 0, 0}, {b, t, 1, h, d}}, {split});
      const ValueId rows = c.graph.emit1(Reshape{{b, t, h, d}}, {one});
      const ValueId heads = c.graph.emit1(Transpose{{0, 2, 1, 3}}, {rows});
      EXPECT_EQ(c.graph.root(heads), x);  // views only
      const RunResult result = c.run(heads);
      EXPECT_EQ(copies(result), 1);  // for the host
      const Tensor got = decode(result.outputs[0], c.graph.type(heads));
      EXPECT_EQ(got.dims, (Dims{b, h, t, d}));
      for (int64_t i = 0; i < got.dims.numel(); ++i) {
        const int64_t e = i % d, token = i / d % t, head = i / (d * t) % h, n = i / (d * t * h);
        EXPECT_EQ(
            got.values[static_cast<size_t>(i)],
            packed.values[static_cast<size_t>((((n * t + token) * 3 + k) * h + head) * d + e)]);
      }
    }
  }
}

TEST(Views, OfViewsEndWhereReshapesNeedAnotherOrder) {
  Case c;
  const ValueId x = c.input(numbers({4, 6}), DType::kF32);
  const ValueId turned = c.graph.emit1(Transpose{{1, 0}}, {x});
  const ValueId flat = c.graph.emit1(Reshape{{24}}, {turned});
  const Tensor got = c.values(flat);
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(got.values[static_cast<size_t>(i)],
              numbers({4, 6}).values[static_cast<size_t>(i % 4 * 6 + i / 4)]);
  const ValueId padded = c.graph.emit1(SliceGrad{{1}, {26}}, {flat});
  const ValueId inside = c.graph.emit1(Slice{{0}, {3}}, {padded});
  EXPECT_EQ(c.values(inside).values, (std::vector<double>{0, got.values[0], got.values[1]}));
}

TEST(Views, ConcatenationsStandInConcatenations) {
  Case c;
  const ValueId a = c.input(numbers({2, 3}), DType::kF32),
                b = c.input(numbers({2, 2}), DType::kF32);
  const ValueId inner = c.graph.emit1(Concat{1}, {a, b});
  const ValueId outer = c.graph.emit1(Concat{0}, {inner, inner});
  const ValueId wide = c.graph.emit1(Concat{1}, {outer, outer});
  const std::vector<double> x = numbers({2, 3}).values, y = numbers({2, 2}).values;
  std::vector<double> expected;
  for (int row = 0; row < 4; ++row) {
    for (int twice = 0; twice < 2; ++twice) {
      const int from = row % 2;
      expected.insert(expected.end(), x.begin() + 3 * from, x.begin() + 3 * from + 3);
      expected.insert(expected.end(), y.begin() + 2 * from, y.begin() + 2 * from + 2);
    }
  }
  EXPECT_EQ(c.values(wide).values, expected);
}

}  // namespace
}  // namespace assay::test
