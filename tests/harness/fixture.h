// Reference tensors from tests/fixtures: a minimal safetensors reader, independent of the
// product's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sdk/base/dims.h"

namespace assay::test {

struct FixtureTensor {
  Dims dims;
  std::vector<float> f32;  // one of the two is filled
  std::vector<int32_t> i32;
};

class Fixture {
 public:
  // `name` is relative to tests/fixtures, without the extension. Throws std::runtime_error.
  explicit Fixture(const std::string& name);

  bool has(const std::string& tensor) const { return tensors_.contains(tensor); }
  const FixtureTensor& at(const std::string& tensor) const;
  // Tensors whose name starts with the prefix, by the rest of their name.
  std::map<std::string, const FixtureTensor*> with_prefix(const std::string& prefix) const;

 private:
  std::map<std::string, FixtureTensor> tensors_;
};

// max |a - b| / max |b|: the measure the fixtures state their own error in.
double relative_error(const std::vector<float>& actual, const std::vector<float>& expected);

// PyTorch's own error in bfloat16, by gradient, by group ("layer1.*") and of all together
// ("*"), as fixtures/models/bfloat16.py wrote it. Throws std::runtime_error.
std::map<std::string, double> bfloat16_yardstick(const std::string& model);

}  // namespace assay::test
