// Kinds of layers without parameters: pooling, elementwise functions, other shapes.
#include <algorithm>

#include "sdk/graph/elementwise.h"
#include "sdk/nn/layer_kind.h"
#include "sdk/nn/layers.h"
#include "sdk/nn/segmentation.h"

namespace assay::nn {
namespace {

constexpr Interval kWindows{1, 16384, true};

void check_pool(const Builder& b, const std::string& name, ValueId x, int64_t window,
                int64_t padding) {
  expect(padding < window, {name, "padding"}, padding, "less than the window");
  const int64_t most = std::min(b.dims(x)[1], b.dims(x)[2]) + 2 * padding;
  expect(window <= most, {name, "window"}, window, "at most ", most,
         ", rows or columns of x with its padding");
}

struct MaxPoolLayer {
  static constexpr LayerText kText{"max_pool", "Gives [N,P,Q,C]: the maximum of each window"};
  static constexpr std::array kInputs{images("x")};
  int64_t window = 2, stride = 2, padding = 0;
  bool same = false;
  void fields(ConfigFields& f) {
    f("window", window, "rows and columns").in(kWindows);
    f("stride", stride, "of rows and columns").in(kWindows);
    f("padding", padding, "on all sides, less than the window; it never wins").in({0, 1023, true});
    f("same", same, "TensorFlow's SAME padding instead");
  }
  void require_clear(const std::string& name) const {
    require_one_padding(name, same, padding != 0);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    if (same) return max_pool_same(b, x[0], window, stride);
    check_pool(b, name, x[0], window, padding);
    return max_pool(b, x[0], window, stride, padding);
  }
};

struct AveragePoolLayer {
  static constexpr LayerText kText{"average_pool",
                                   "Gives [N,P,Q,C]: the mean of what each window shows of x"};
  static constexpr std::array kInputs{images("x")};
  int64_t window = 2, stride = 2, padding = 0;
  void fields(ConfigFields& f) {
    f("window", window, "rows and columns").in(kWindows);
    f("stride", stride, "of rows and columns").in(kWindows);
    f("padding", padding, "on all sides, less than the window").in({0, 1023, true});
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    check_pool(b, name, x[0], window, padding);
    return average_pool(b, x[0], window, stride, padding);
  }
};

struct GlobalAveragePoolLayer {
  static constexpr LayerText kText{"global_average_pool", "Gives [N,C]: the mean of each channel"};
  static constexpr std::array kInputs{images("x")};
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return global_average_pool(b, x[0]);
  }
};

struct ActivationLayer {
  static constexpr LayerText kText{"activation", "Gives the like of x, element by element"};
  static constexpr std::array kInputs{numbers("x")};
  std::string function = "relu";
  void fields(ConfigFields& f) {
    f("function", function, "elu of alpha 1, exact gelu, swish (or silu) x sigmoid(x)")
        .one_of(activation_names());
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return activation(b, activation_kind(function), x[0]);
  }
};

struct DropoutLayer {
  static constexpr LayerText kText{"dropout",
                                   "Gives the like of x: in training elements become 0 at random, "
                                   "the others grow by 1 / (1 - rate)"};
  static constexpr std::array kInputs{numbers("x", 1)};
  double rate = 0.5;
  void fields(ConfigFields& f) { f("rate", rate, "of elements that become 0").in({0, 1}); }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    return dropout(b, name, x[0], static_cast<float>(rate));
  }
};

// Does `part` repeat to `whole`?
bool repeats_to(const Dims& part, const Dims& whole) {
  if (part.rank() > whole.rank()) return false;
  for (int axis = 1; axis <= part.rank(); ++axis) {
    if (part.back(axis) != whole.back(axis) && part.back(axis) != 1) return false;
  }
  return true;
}

// Functions of two or more operands whose axes are aligned at the last one.
ValueId chain(Builder& b, const std::string& name, PointwiseFn fn, LayerInputs x) {
  ValueId y = x[0];
  const PointwiseCode code(fn, {PointwiseOperand::input(0), PointwiseOperand::input(1)});
  for (size_t i = 1; i < x.size(); ++i) {
    const Dims &before = b.dims(y), &operand = b.dims(x[i]);
    expect(repeats_to(before, operand) || repeats_to(operand, before),
           {name, i == 1 ? "b" : cat("in[", i, "]")}, operand, before,
           ", or what repeats to it: sizes equal or 1, from the last axis on");
    y = b.graph().emit1(Pointwise{code, {}}, {y, x[i]});
  }
  return y;
}

constexpr std::array kOperands{numbers("a"), numbers("b")};

struct AddLayer {
  static constexpr LayerText kText{
      "add",
      "Gives their sum. Shapes are aligned at the last axis; axes of size 1, or that are missing, "
      "are repeated to the other's shape",
      LayerModes::kAll, true};
  static constexpr auto kInputs = kOperands;
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return chain(b, name, PointwiseFn::kAdd, x);
  }
};

struct SubtractLayer {
  static constexpr LayerText kText{"subtract", "Gives a - b, of shapes as for add"};
  static constexpr auto kInputs = kOperands;
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return chain(b, name, PointwiseFn::kSub, x);
  }
};

struct MultiplyLayer {
  static constexpr LayerText kText{"multiply", "Gives their product, of shapes as for add",
                                   LayerModes::kAll, true};
  static constexpr auto kInputs = kOperands;
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return chain(b, name, PointwiseFn::kMul, x);
  }
};

struct ScaleLayer {
  static constexpr LayerText kText{"scale", "Gives factor x + offset"};
  static constexpr std::array kInputs{numbers("x")};
  double factor = 1, offset = 0;
  void fields(ConfigFields& f) {
    f("factor", factor, "of every element").in({-1e30, 1e30, true});
    f("offset", offset, "added to every element").in({-1e30, 1e30, true});
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    const PointwiseCode code(
        PointwiseFn::kMulAdd,
        {PointwiseOperand::input(0), static_cast<float>(factor), static_cast<float>(offset)});
    return b.graph().emit1(Pointwise{code, {}}, {x[0]});
  }
};

// An axis of a tensor with a batch axis; negative ones count from the end.
int64_t own_axis(const std::string& name, int64_t axis, int rank) {
  const int64_t positive = axis < 0 ? axis + rank : axis;
  expect(positive >= 1 && positive < rank, {name, "axis"}, axis,
         rank == 2 ? "1" : cat("1 to ", rank - 1), ", or ", rank == 2 ? "" : cat(1 - rank, " to "),
         "-1 from the end; axis 0 is the batch's");
  return positive;
}

struct ConcatLayer {
  static constexpr LayerText kText{"concat", "Gives one behind the other along an axis",
                                   LayerModes::kAll, true};
  static constexpr std::array kInputs{numbers("a", 2), numbers("b", 2)};
  int64_t axis = -1;
  void fields(ConfigFields& f) { f("axis", axis, "-1 is the last").in({-7, 7, true}); }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    const int64_t at = own_axis(name, axis, b.dims(x[0]).rank());
    for (const ValueId part : x) {
      Dims like = b.dims(part);
      if (like.rank() == b.dims(x[0]).rank()) like[static_cast<int>(at)] = b.dims(x[0])[at];
      expect(like == b.dims(x[0]), {name, "b"}, b.dims(part), b.dims(x[0]), ", but for axis ", at);
    }
    return b.graph().emit(Concat{at}, x)[0];
  }
};

struct SliceLayer {
  static constexpr LayerText kText{"slice", "Gives a part of x"};
  static constexpr std::array kInputs{numbers("x", 2)};
  int64_t axis = -1, begin = 0, size = kNotGiven<int64_t>;
  void fields(ConfigFields& f) {
    f("axis", axis, "that is cut; -1 is the last").in({-7, 7, true});
    f("begin", begin, "of the part").in({0, 1 << 30, true});
    f("size", size, "of the part; needed").in({1, 1 << 30, true});
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    Dims dims = b.dims(x[0]);
    const auto at = static_cast<int>(own_axis(name, axis, dims.rank()));
    expect(begin + size <= dims[at], {name, "size"}, size, "at most ", dims[at] - begin,
           ", what axis ", at, " of ", dims, " has from ", begin, " on");
    Dims from = dims;
    for (int i = 0; i < from.rank(); ++i) from[i] = 0;
    from[at] = begin;
    dims[at] = size;
    return b.graph().emit1(Slice{.begin = from, .dims = dims}, {x[0]});
  }
};

struct CentreCropLayer {
  static constexpr LayerText kText{"centre_crop",
                                   "Gives the middle; the smaller half of an odd rest is cut at "
                                   "the top and left"};
  static constexpr std::array kInputs{images("x")};
  int64_t rows = kNotGiven<int64_t>, columns = kNotGiven<int64_t>;
  void fields(ConfigFields& f) {
    f("rows", rows, "of the result; needed").in(kWindows);
    f("columns", columns, "of the result; needed").in(kWindows);
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    const Dims& in = b.dims(x[0]);
    expect(rows <= in[1], {name, "rows"}, rows, "at most the ", in[1], " of x");
    expect(columns <= in[2], {name, "columns"}, columns, "at most the ", in[2], " of x");
    return centre_crop(b, x[0], rows, columns);
  }
};

struct ResizeLayer {
  static constexpr LayerText kText{"resize",
                                   "Gives [N,H*factor,W*factor,C]: every pixel factor by factor "
                                   "times"};
  static constexpr std::array kInputs{images("x")};
  int64_t factor = 2;
  void fields(ConfigFields& f) { f("factor", factor, "of rows and columns").in({1, 64, true}); }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    Graph& g = b.graph();
    const Dims in = b.dims(x[0]);
    const ValueId apart = g.emit1(Reshape{{in[0], in[1], 1, in[2], 1, in[3]}}, {x[0]});
    const ValueId times = g.emit1(Fill{{1, 1, factor, 1, factor, 1}, 1}, {});
    const PointwiseCode code(PointwiseFn::kMul,
                             {PointwiseOperand::input(0), PointwiseOperand::input(1)});
    const ValueId y = g.emit1(Pointwise{code, g.type(x[0]).dtype}, {apart, times});
    return g.emit1(Reshape{{in[0], in[1] * factor, in[2] * factor, in[3]}}, {y});
  }
};

struct ReshapeLayer {
  static constexpr LayerText kText{"reshape", "Gives the elements of x in another shape"};
  static constexpr std::array kInputs{either("x")};
  std::vector<int64_t> shape;
  void fields(ConfigFields& f) {
    f("shape", shape,
      "the result's, with -1 where the batch size is a factor, and there only; needed")
        .in({-1, 1 << 30, true})
        .not_empty();
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    expect(std::ranges::count(shape, -1) == 1 && std::ranges::count(shape, 0) == 0, {name, "shape"},
           shape.empty() ? "not given" : assay::to_text(Dims(shape)),
           "sizes of 1 or more and one -1");
    Dims dims{shape};
    int64_t others = 1;
    for (const int64_t size : shape) {
      if (size > 0 && __builtin_mul_overflow(others, size, &others)) others = 0;
    }
    const int64_t elements = b.dims(x[0]).numel();
    expect(others > 0 && elements % others == 0, {name, "shape"}, dims, "to divide the ", elements,
           " elements of ", b.dims(x[0]));
    for (int i = 0; i < dims.rank(); ++i) {
      if (dims[i] < 0) dims[i] = elements / others;
    }
    return b.graph().emit1(Reshape{dims}, {x[0]});
  }
};

struct FlattenLayer {
  static constexpr LayerText kText{"flatten", "Gives [N,C], in the order of memory: H, W, C"};
  static constexpr std::array kInputs{numbers("x", 2)};
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return flatten(b, x[0]);
  }
};

}  // namespace

std::span<const LayerKind> shape_layers() {
  static const std::array kTable{
      kind_of<MaxPoolLayer>(),    kind_of<AveragePoolLayer>(), kind_of<GlobalAveragePoolLayer>(),
      kind_of<ActivationLayer>(), kind_of<DropoutLayer>(),     kind_of<AddLayer>(),
      kind_of<SubtractLayer>(),   kind_of<MultiplyLayer>(),    kind_of<ScaleLayer>(),
      kind_of<ConcatLayer>(),     kind_of<SliceLayer>(),       kind_of<CentreCropLayer>(),
      kind_of<ResizeLayer>(),     kind_of<ReshapeLayer>(),     kind_of<FlattenLayer>()};
  return kTable;
}

}  // namespace assay::nn
