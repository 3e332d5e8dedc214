// Slice, SliceGrad, Concat, Transpose, Copy.
#include <gtest/gtest.h>

#include "sdk/base/error.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

// Calls visit(flat index in the box, flat index in the whole) for a box at `begin`.
template <class Visit>
void for_box(const Dims& box, const Dims& begin, const Dims& whole, const Visit& visit) {
  for (int64_t i = 0; i < box.numel(); ++i) {
    int64_t rest = i, flat = 0, step = 1;
    for (int axis = box.rank() - 1; axis >= 0; --axis) {
      flat += (begin[axis] + rest % box[axis]) * step;
      rest /= box[axis], step *= whole[axis];
    }
    visit(static_cast<size_t>(i), static_cast<size_t>(flat));
  }
}

Tensor zeros(const Dims& dims) {
  return {dims, std::vector<double>(static_cast<size_t>(dims.numel()))};
}

std::vector<Tensor> slice_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Slice>(op);
  Tensor y = zeros(p.dims);
  for_box(p.dims, p.begin, x[0].dims,
          [&](size_t i, size_t flat) { y.values[i] = x[0].values[flat]; });
  return {y};
}

std::vector<Tensor> slice_grad_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<SliceGrad>(op);
  Tensor dx = zeros(p.x_dims);
  for_box(x[0].dims, p.begin, p.x_dims,
          [&](size_t i, size_t flat) { dx.values[flat] = x[0].values[i]; });
  return {dx};
}

std::vector<Tensor> concat_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto axis = static_cast<int>(std::get<Concat>(op).axis);
  Dims dims = x[0].dims;
  for (size_t k = 1; k < x.size(); ++k) dims[axis] += x[k].dims[axis];
  Tensor y = zeros(dims);
  Dims begin = dims;
  for (int i = 0; i < dims.rank(); ++i) begin[i] = 0;
  for (const Tensor& part : x) {
    for_box(part.dims, begin, dims,
            [&](size_t i, size_t flat) { y.values[flat] = part.values[i]; });
    begin[axis] += part.dims[axis];
  }
  return {y};
}

struct Box {
  std::string name;
  Dims whole, begin, dims;
};

const std::vector<Box> kBoxes{
    {"one element", {1}, {0}, {1}},
    {"everything", {3, 4, 5}, {0, 0, 0}, {3, 4, 5}},
    {"middle of images", {2, 9, 8, 5}, {0, 2, 3, 0}, {2, 5, 4, 5}},
    {"channels", {2, 3, 4, 7}, {0, 0, 0, 2}, {2, 3, 4, 3}},
    {"corner", {4, 5}, {3, 4}, {1, 1}},
    {"last rows", {6, 3}, {4, 0}, {2, 3}},
    {"more than one task", {3, 70, 70, 6}, {0, 4, 6, 0}, {3, 61, 57, 6}},
    {"rank 8", {2, 1, 2, 3, 1, 2, 2, 3}, {1, 0, 0, 1, 0, 1, 0, 1}, {1, 1, 2, 2, 1, 1, 2, 1}}};

TEST(Slice, ValuesAndGradients) {
  for (const Box& box : kBoxes)
    check_op({box.name, Slice{box.begin, box.dims}, {{box.whole}}, {}, {0}}, slice_reference);
}

TEST(SliceGrad, Values) {
  for (const Box& box : kBoxes)
    check_op({box.name, SliceGrad{box.begin, box.whole}, {{box.dims}}}, slice_grad_reference);
}

TEST(Concat, ValuesAndGradients) {
  check_op({"one", Concat{0}, {{{3, 2}}}, {}, {0}}, concat_reference);
  check_op({"rows", Concat{0}, {{{3, 2}}, {{1, 2}}, {{4, 2}}}, {}, {0, 1, 2}}, concat_reference);
  check_op({"channels", Concat{3}, {{{2, 3, 3, 5}}, {{2, 3, 3, 2}}}, {}, {0, 1}}, concat_reference);
  check_op({"middle axis", Concat{1}, {{{2, 3, 4}}, {{2, 1, 4}}}, {}, {1}}, concat_reference);
  check_op({"large", Concat{3}, {{{2, 40, 41, 8}}, {{2, 40, 41, 16}}}}, concat_reference);
  const auto places = [](Dims dims) {
    return Argument{dims, DType::kI32, Recipe::integer(-2000000000, 2000000000)};
  };
  check_op({"numbers of rows", Concat{0}, {places({7}), places({1}), places({9})}},
           concat_reference);
}

std::vector<Tensor> transpose_reference(const Op& op, const std::vector<Tensor>& x) {
  const Dims& axes = std::get<Transpose>(op).axes;
  Dims dims = axes, steps = axes;  // of y, and of x along the axes of y
  for (int k = 0; k < axes.rank(); ++k) {
    const auto axis = static_cast<int>(axes[k]);
    dims[k] = x[0].dims[axis];
    steps[k] = 1;
    for (int inner = axis + 1; inner < axes.rank(); ++inner) steps[k] *= x[0].dims[inner];
  }
  Tensor y = zeros(dims);
  for (int64_t i = 0; i < dims.numel(); ++i) {
    int64_t rest = i, from = 0;
    for (int k = dims.rank() - 1; k >= 0; --k) {
      from += rest % dims[k] * steps[k];
      rest /= dims[k];
    }
    y.values[static_cast<size_t>(i)] = x[0].values[static_cast<size_t>(from)];
  }
  return {y};
}

TEST(Transpose, ValuesAndGradients) {
  for (const auto& [dims, axes] :
       std::vector<std::pair<Dims, Dims>>{{{7}, {0}},
                                          {{3, 5}, {0, 1}},
                                          {{3, 5}, {1, 0}},
                                          {{37, 65}, {1, 0}},
                                          {{1, 9}, {1, 0}},
                                          {{2, 3, 4}, {2, 0, 1}},
                                          {{2, 3, 4}, {1, 2, 0}},
                                          {{2, 5, 3, 8}, {0, 2, 1, 3}},  // heads before positions
                                          {{2, 5, 3, 8}, {0, 2, 3, 1}},
                                          {{3, 1, 17, 2, 33}, {4, 2, 1, 0, 3}},
                                          {{150, 131, 3}, {2, 1, 0}}})
    check_op({cat(to_text(dims), " to ", to_text(axes)), Transpose{axes}, {{dims}}, {}, {0}},
             transpose_reference);
}

std::vector<Tensor> copy_reference(const Op&, const std::vector<Tensor>& x) { return {x[0]}; }

TEST(Copy, ValuesAndGradients) {
  for (const Dims& dims : {Dims{}, Dims{1}, Dims{3, 5}, Dims{50001}})
    check_op({to_text(dims), Copy{}, {{dims}}, {}, {0}}, copy_reference);
}

void expect_refused(const Op& op, const std::vector<ValueType>& inputs, std::string_view words) {
  try {
    make_node(op, inputs);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
  }
}

// There are no views of other types.
TEST(Copy, RefusesWhatIsNoData) {
  expect_refused(Copy{}, {{DType::kU8, {5}}}, "input 0 is u8");
  expect_refused(Copy{}, {{DType::kI64, {5}}}, "input 0 is i64");
}

TEST(Slice, RefusesBoxesOutside) {
  const ValueType x{DType::kF32, {4, 5}};
  expect_refused(Slice{{0, 1}, {4, 5}}, {x}, "does not lie inside");
  expect_refused(Slice{{-1, 0}, {2, 2}}, {x}, "does not lie inside");
  expect_refused(Slice{{0, 0}, {0, 2}}, {x}, "does not lie inside");
  expect_refused(Slice{{0}, {4}}, {x}, "does not lie inside");
  expect_refused(Slice{{0, INT64_MAX}, {1, 1}}, {x}, "does not lie inside");
  expect_refused(SliceGrad{{1, 1}, {4, 5}}, {x}, "does not lie inside");
}

TEST(Transpose, RefusesWhatAreNotTheAxes) {
  const ValueType x{DType::kF32, {4, 5}};
  expect_refused(Transpose{{0}}, {x}, "axes [0] of");
  expect_refused(Transpose{{}}, {x}, "are not the axes");
  expect_refused(Transpose{{0, 2}}, {x}, "axes [0,2] of");
  expect_refused(Transpose{{1, 1}}, {x}, "are not the axes");
}

TEST(Concat, RefusesDifferentShapes) {
  const ValueType x{DType::kF32, {4, 5}};
  expect_refused(Concat{1}, {x, {DType::kF32, {3, 5}}}, "may differ only along axis 1");
  expect_refused(Concat{1}, {x, {DType::kBf16, {4, 5}}}, "may differ only along axis 1");
  expect_refused(Concat{2}, {x}, "axis 2");
  expect_refused(Concat{0}, {x, {DType::kF32, {4}}}, "inputs are");
}

}  // namespace
}  // namespace assay::test
