// GatherRows and its gradient: sums of embeddings, rows of data, rows asked for many times or not
// at all, and numbers that are no rows.
#include <gtest/gtest.h>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

bool asks(double row, int64_t rows) { return row >= 0 && row < static_cast<double>(rows); }

std::vector<Tensor> gather_reference(const Op&, const std::vector<Tensor>& x) {
  const size_t tables = x.size() / 2;
  const int64_t places = x[tables].dims[0], size = x[0].dims[1];
  Tensor y{{places, size}, std::vector<double>(places * size)};
  for (size_t k = 0; k < tables; ++k)
    for (int64_t p = 0; p < places; ++p)
      for (int64_t c = 0; c < size; ++c)
        if (const double row = x[tables + k].values[p]; asks(row, x[k].dims[0]))
          y.values[p * size + c] += x[k].values[static_cast<int64_t>(row) * size + c];
  return {y};
}

std::vector<Tensor> collect_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<GatherRowsGrad>(op);
  const int64_t places = x[1].dims[0], size = x[1].dims[1];
  Tensor y{{p.rows, size}, std::vector<double>(p.rows * size)};
  if (p.has_addend) y.values = x[2].values;
  for (int64_t place = 0; place < places; ++place)
    for (int64_t c = 0; c < size; ++c)
      if (const double row = x[0].values[place]; asks(row, p.rows))
        y.values[static_cast<int64_t>(row) * size + c] += x[1].values[place * size + c];
  return {y};
}

Argument list(int64_t n, int64_t low, int64_t high) {
  return {{n}, DType::kI32, Recipe::integer(low, high)};
}

// Words, positions and types: f32 tables, the sum in either type.
TEST(GatherRows, SumsEmbeddings) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const auto& [places, size] :
         {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {40, 33}, {150, 300}}) {
      OpCase c{cat(places, " places of ", size),
               GatherRows{dtype},
               {{{61, size}, DType::kF32},
                {{places, size}, DType::kF32},
                {{2, size}, DType::kF32},
                list(places, 0, 60),
                list(places, 0, places - 1),
                list(places, 0, 1)}};
      c.accuracy = {.terms = 3, .magnitude = 1};
      c.gradients = {0, 1, 2};
      c.dtypes = {dtype};
      check_op(c, gather_reference);
    }
  }
}

// Rows of the data itself: some three times, some never, some asked for that are none.
TEST(GatherRows, TakesRowsOfData) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    OpCase c{"data",
             GatherRows{dtype},
             {{{12, 40}}, {{9}, DType::kI32, Recipe::listed({3, 11, -1, 3, 0, 12, 3, 5, 0})}}};
    c.accuracy = {.terms = 3, .magnitude = 1};
    c.gradients = {0};
    c.dtypes = {dtype};
    check_op(c, gather_reference);
  }
}

TEST(GatherRows, NumbersThatAreNoRowsAddNothing) {
  OpCase c{"no rows",
           GatherRows{},
           {{{4, 3}, DType::kF32},
            {{2, 3}, DType::kF32},
            {{5}, DType::kI32, Recipe::listed({-2147483648.0, 2147483647.0, 4, 3, -1})},
            {{5}, DType::kI32, Recipe::listed({2, 0, -1, 1, -7})}}};
  c.accuracy = {.terms = 2, .magnitude = 1};
  c.gradients = {0, 1};
  c.dtypes = {DType::kF32};
  check_op(c, gather_reference);
}

// One row that everybody asks for, rows of many chunks of places, tables of more rows than places,
// more places than one block of the sort, more rows than eight bits tell apart; with and without
// what is added.
TEST(GatherRowsGrad, SumsInOneOrder) {
  struct Shape {
    int64_t rows, places, size, highest;
  };
  for (const Shape& s :
       {Shape{1, 9, 3, 0}, Shape{3, 200, 7, 5}, Shape{2, 1000, 16, 1}, Shape{1, 256, 24, 0},
        Shape{500, 60, 40, 499}, Shape{70000, 30, 2, 69999}, Shape{300, 5000, 3, 310}})
    for (const bool has_addend : {false, true})
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        OpCase c{cat(s.rows, " rows, ", s.places, " places of ", s.size,
                     has_addend ? ", addend" : "", ", to ", dtype),
                 GatherRowsGrad{s.rows, dtype, has_addend},
                 {list(s.places, -2, s.highest), {{s.places, s.size}}}};
        if (has_addend) c.inputs.push_back({{s.rows, s.size}, dtype});
        c.accuracy = {.terms = s.places, .magnitude = 1};
        check_op(c, collect_reference);
      }
}

TEST(GatherRows, ShapesThatDoNotFit) {
  const ValueType table{DType::kF32, {4, 3}}, index{DType::kI32, {5}};
  const auto is_refused = [](const std::vector<ValueType>& inputs) {
    try {
      make_node(GatherRows{}, inputs);
    } catch (const Error& e) {
      return e.code() == Code::kInvalid;
    }
    return false;
  };
  EXPECT_FALSE(is_refused({table, index}));
  EXPECT_TRUE(is_refused({table}));
  EXPECT_TRUE(is_refused({table, table}));
  EXPECT_TRUE(is_refused({table, {DType::kF32, {4, 2}}, index, index}));
  EXPECT_TRUE(is_refused({table, table, index, {DType::kI32, {4}}}));
  EXPECT_TRUE(is_refused({table, {DType::kI64, {5}}}));
}

}  // namespace
}  // namespace assay::test
