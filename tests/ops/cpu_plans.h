// Which kernel the CPU backend chooses, whatever the backend under test.
#pragma once

#include <string>
#include <vector>

#include "sdk/backend/cpu/device.h"
#include "sdk/backend/cpu/kernels/kernels.h"
#include "tests/harness/op_case.h"

namespace assay::test {

inline std::string planned_kernel(const Op& op, const std::vector<ValueType>& inputs) {
  const OneNode one = make_node(op, inputs);
  const NodeId node = one.graph.value(one.outputs[0]).producer;
  return cpu::make_backend({.threads = 1})->plan(one.graph, node).kernel;
}

inline std::string planned_kernel(const OpCase& c, DType data_type) {
  std::vector<ValueType> inputs;
  for (const Argument& x : c.inputs) inputs.push_back({x.dtype.value_or(data_type), x.dims});
  return planned_kernel(c.op, inputs);
}

// With AVX2 only, f32 and bf16 have products in panels; AVX-512 leaves most to oneDNN.
inline bool plans_panels() { return cpu::kernels().isa == std::string_view("avx2"); }

}  // namespace assay::test
