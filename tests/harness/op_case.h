// Tests of one op from a table of cases and a naive f64 reference.
//
// A test gives the op's attributes, the shapes of its inputs and how to fill them; `check_op`
// gives, in every data type of the case:
//   values      every output against the reference on the same (rounded) inputs; also with the
//               input prepared once, where the plan can
//   bits        two runs, two alignments, each binding in place that the plan allows, and (own
//               kernels) one, two and three threads: all bit-equal
//   damage      nothing written outside the outputs, every output written, inputs kept, scratch not
//               trusted (run_node.h)
//   gradients   what append_backward gives for the inputs listed, on the backend, against central
//               differences of the reference in f64
//
// Tolerance, once for all ops. u is the unit round-off (f32 2^-24, bf16 2^-8, f16 2^-11), n the
// number of terms added up per element, m = max(|expected|, rms of the expected tensor,
// Accuracy::magnitude):
//   |got - expected| <=
//       u_out * |expected|                   the result is rounded once (f16: 2^-25 at least)
//       + 4 * 2^-24 * (sqrt(n) + ulps) * m   f32 arithmetic
//       + roundings * u_data * m             tensors rounded to the data type in between
// A recursive f32 sum of n random terms has a standard error of about 0.4 * 2^-24 * sqrt(n) * rms
// (signs mixed: the partial sums are a random walk) or a third of 2^-24 * sqrt(n) * |sum| (all of
// one sign); the factor 4 makes that about ten standard errors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/run_node.h"

namespace assay::test {

// How an input is filled; always the same numbers for the same case.
struct Recipe {
  enum class Kind {
    kUniform,   // in [low, high)
    kDistinct,  // multiples of 1/64 in [-4, 4], exact in bf16, different within 509 neighbours
    kInteger,   // whole numbers in [low, high]
    kValues,    // as listed
  };
  Kind kind = Kind::kUniform;
  double low = -1, high = 1;
  std::vector<double> values;

  static Recipe uniform(double low, double high) { return {Kind::kUniform, low, high, {}}; }
  static Recipe distinct() { return {Kind::kDistinct, 0, 0, {}}; }
  static Recipe integer(int64_t low, int64_t high) {
    return {Kind::kInteger, static_cast<double>(low), static_cast<double>(high), {}};
  }
  static Recipe listed(std::vector<double> values) {
    return {Kind::kValues, 0, 0, std::move(values)};
  }
};

struct Argument {
  Dims dims;
  std::optional<DType> dtype = std::nullopt;  // none: the data type under test
  Recipe recipe = {};
};

struct Accuracy {
  int64_t terms = 1;     // products or terms added up per output element
  double magnitude = 0;  // size of the terms, where they cancel to something smaller
  double ulps = 0;    // further f32 round-offs: error of exp, erf, ..., long chains of arithmetic
  int roundings = 0;  // intermediate tensors kept in the data type
};

struct OpCase {
  std::string name;
  Op op;
  std::vector<Argument> inputs;
  Accuracy accuracy = {};
  std::vector<int> gradients = {};  // inputs whose gradient is checked (through output 0)
  // To these both f16 is added where the backend has it.
  std::vector<DType> dtypes = {DType::kF32, DType::kBf16};
  bool thread_invariant = true;  // off for library kernels that split work by thread
  bool unordered = false;  // with kernels that differ from run to run as well, for their values
};

// All outputs of the op from all inputs, in f64. 3-15 lines: clarity is its only virtue.
using Reference = std::function<std::vector<Tensor>(const Op& op, const std::vector<Tensor>& x)>;

// Raises GoogleTest failures that name case, data type, output and element.
void check_op(const OpCase& op_case, const Reference& reference);
void check_op(const std::vector<OpCase>& cases, const Reference& reference);

// The parts, for tests that need only some.
std::vector<Tensor> make_inputs(const OpCase& op_case, DType data_type);
void check_values(const OpCase& op_case, DType data_type, const Reference& reference,
                  bool deterministic = true);
void check_bits(const OpCase& op_case, DType data_type);
void check_gradients(const OpCase& op_case, DType data_type, const Reference& reference);

// Compares one tensor by the rule above. `data_type` is the type of intermediate tensors.
void expect_close(const std::string& what, const Tensor& got, const Tensor& expected,
                  DType out_type, DType data_type, const Accuracy& accuracy);

}  // namespace assay::test
