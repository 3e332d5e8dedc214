// Gradients in bfloat16 against exact ones: they must be as good as PyTorch's.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "tests/harness/fixture.h"

namespace assay::test {

// `exact`: float64's, by name. `read` gives ours. The measure is PyTorch's own error at the same
// task (fixtures/models/bfloat16.py): ours may be a quarter beyond it, and as far again as chance
// takes two norms of n independent errors apart: exp(3 / sqrt(n)) at three standard deviations.
// Bounds that reach 1 are left out, a gradient of zero would pass: there PyTorch's own is mostly
// noise.
inline void expect_gradients_as_good_as_pytorchs(
    const std::string& model, const std::map<std::string, const FixtureTensor*>& exact,
    const std::function<std::vector<float>(const std::string&)>& read) {
  struct Sums {
    double error = 0, scale = 0, count = 0;
  };
  std::map<std::string, Sums> sums;
  for (const auto& [name, tensor] : exact) {
    const std::vector<float> gradient = read(name);
    ASSERT_EQ(gradient.size(), tensor->f32.size()) << name;
    for (const std::string& key : {name, name.substr(0, name.find('.')) + ".*", std::string("*")}) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        const auto expected = static_cast<double>(tensor->f32[i]);
        sums[key].error += std::pow(static_cast<double>(gradient[i]) - expected, 2);
        sums[key].scale += expected * expected;
        ++sums[key].count;
      }
    }
  }
  ASSERT_FALSE(sums.empty());
  const std::map<std::string, double> yardstick = bfloat16_yardstick(model);
  for (const auto& [key, sum] : sums) {
    const double bound = 1.25 * std::exp(3 / std::sqrt(sum.count)) * yardstick.at(key);
    if (bound >= 1 && key != "*") continue;
    EXPECT_LT(std::sqrt(sum.error / sum.scale), bound) << key;
  }
}

}  // namespace assay::test
