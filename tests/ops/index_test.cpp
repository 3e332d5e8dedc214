#include <gtest/gtest.h>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<Tensor> arange_reference(const Op& op, const std::vector<Tensor>&) {
  const auto& p = std::get<Arange>(op);
  Tensor y{{p.count}, {}};
  for (int64_t i = 0; i < p.count; ++i)
    y.values.push_back(static_cast<double>(i % p.period * p.step));
  return {y};
}

TEST(Arange, CountsAndBeginsAgain) {
  check_op({{"one", Arange{1, 1, 7}, {}},
            {"places", Arange{35, 7, 1}, {}},
            {"beginnings", Arange{5, 5, 128}, {}},
            {"many", Arange{70001, 512, 4194304}, {}}},
           arange_reference);
}

std::vector<Tensor> offset_reference(const Op&, const std::vector<Tensor>& x) {
  const size_t n = x[0].values.size(), of_each = n / x[1].values.size();
  Tensor y{{static_cast<int64_t>(n)}, {}};
  for (size_t i = 0; i < n; ++i)
    y.values.push_back(x[0].values[i] < 0 ? -1 : x[0].values[i] + x[1].values[i / of_each]);
  return {y};
}

TEST(OffsetIndex, CountsFromTheBeginningsOfSequences) {
  const auto start = [](std::vector<double> rows) {
    const auto n = static_cast<int64_t>(rows.size());
    return Argument{{n}, DType::kI32, Recipe::listed(std::move(rows))};
  };
  check_op(
      {{"slots",
        OffsetIndex{},
        {{{3, 2}, DType::kI32, Recipe::listed({0, 3, 1, -1, -2147483648.0, 9})}, start({0, 4, 8})}},
       {"one each",
        OffsetIndex{},
        {{{4}, DType::kI32, Recipe::integer(0, 9)}, start({5, 0, 7, 1000000})}},
       {"many",
        OffsetIndex{},
        {{{20, 997}, DType::kI32, Recipe::integer(-5, 400)}, start({7, 3, 9, 1, 2})}}},
      offset_reference);
}

// Row by row.
std::vector<Tensor> packed_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<PackedPlaces>(op);
  const auto sequences = static_cast<int64_t>(x[0].values.size());
  Tensor start{{sequences}, {}}, source{{p.capacity}, {}}, target{{sequences * p.longest}, {}};
  for (int64_t i = 0; i < sequences; ++i) {
    start.values.push_back(static_cast<double>(source.values.size()));
    for (int64_t place = 0; place < p.longest; ++place) {
      const bool has = place < x[0].values[static_cast<size_t>(i)];
      target.values.push_back(has ? static_cast<double>(source.values.size()) : -1);
      if (has) source.values.push_back(static_cast<double>(i * p.longest + place));
    }
  }
  source.values.resize(static_cast<size_t>(p.capacity), -1);
  return {start, source, target};
}

TEST(PackedPlaces, PutSequencesOneBehindTheOther) {
  const auto length = [](std::vector<double> lengths) -> std::vector<Argument> {
    const auto n = static_cast<int64_t>(lengths.size());
    return {{{n}, DType::kI32, Recipe::listed(std::move(lengths))}};
  };
  check_op({{"room", PackedPlaces{12, 7}, length({3, 0, 5})},
            {"just_fits", PackedPlaces{8, 7}, length({0, 7, 1})},
            {"whole", PackedPlaces{9, 3}, length({3, 3, 3})},
            {"nothing", PackedPlaces{4, 2}, length({0, 0})},
            {"one", PackedPlaces{400, 512}, length({381})},
            {"many", PackedPlaces{40 * 300, 384}, {{{40}, DType::kI32, Recipe::integer(0, 300)}}}},
           packed_reference);
}

}  // namespace
}  // namespace assay::test
