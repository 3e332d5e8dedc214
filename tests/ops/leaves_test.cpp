#include <gtest/gtest.h>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<Tensor> fill_reference(const Op& op, const std::vector<Tensor>&) {
  const auto& p = std::get<Fill>(op);
  return {{p.dims, std::vector<double>(static_cast<size_t>(p.dims.numel()), p.value)}};
}

TEST(Fill, GivesItsValueEverywhere) {
  check_op({{"scalar", Fill{{}, 1.5f}, {}}, {"odd", Fill{{3, 5, 7}, -0.25f}, {}}}, fill_reference);
}

}  // namespace
}  // namespace assay::test
