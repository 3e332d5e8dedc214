#include "tests/harness/op_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "sdk/graph/autodiff.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {
namespace {

constexpr double kF32Roundoff = 0x1p-24;

double roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kF32Roundoff;
    case DType::kBf16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0;  // integers are exact
  }
}

// Half of the distance of the type's smallest numbers, where it is not far below all that is
// tested.
double least_rounding(DType dtype) { return dtype == DType::kF16 ? 0x1p-25 : 0; }

// The engine's sequence is fixed by the standard; the library's distributions are not.
double next_uniform(std::mt19937_64& engine) {
  return static_cast<double>(engine() >> 11) * 0x1p-53;
}

Tensor filled(const Argument& argument, std::mt19937_64& engine) {
  const Recipe& recipe = argument.recipe;
  const auto n = static_cast<size_t>(argument.dims.numel());
  Tensor tensor{argument.dims, std::vector<double>(n)};
  switch (recipe.kind) {
    case Recipe::Kind::kUniform:
      for (double& v : tensor.values)
        v = recipe.low + (recipe.high - recipe.low) * next_uniform(engine);
      break;
    case Recipe::Kind::kDistinct:
      for (size_t i = 0; i < n; ++i)
        tensor.values[i] = (static_cast<double>(i * 263 % 509) - 254) / 64;
      break;
    case Recipe::Kind::kInteger:
      for (double& v : tensor.values)
        v = recipe.low + std::floor((recipe.high - recipe.low + 1) * next_uniform(engine));
      break;
    case Recipe::Kind::kValues:
      require(recipe.values.size() == n, Code::kInvalid, "the recipe lists ", recipe.values.size(),
              " values for ", argument.dims);
      tensor.values = recipe.values;
      break;
  }
  return tensor;
}

std::vector<DType> input_types(const OpCase& c, DType data_type) {
  std::vector<DType> types;
  for (const Argument& argument : c.inputs) types.push_back(argument.dtype.value_or(data_type));
  return types;
}

double root_mean_square(const std::vector<double>& values) {
  const double sum = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

void expect_no_damage(const RunResult& result) {
  for (const std::string& damage : result.damage) ADD_FAILURE() << "the kernel " << damage;
}

// Graph of the op, of L = sum(projection * y) and of L's gradients.
struct GradientGraph {
  Graph graph;
  std::vector<Feed> feeds;
  std::vector<ValueId> wanted;
  Tensor projection;
};

GradientGraph make_gradient_graph(const OpCase& c, DType data_type,
                                  const std::vector<Tensor>& inputs) {
  const std::vector<DType> types = input_types(c, data_type);
  std::vector<ValueType> value_types;
  for (size_t i = 0; i < inputs.size(); ++i) value_types.push_back({types[i], inputs[i].dims});
  OneNode one = make_node(c.op, value_types);
  GradientGraph g{std::move(one.graph), {}, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i)
    g.feeds.push_back({one.inputs[i], encode(inputs[i], types[i])});

  // The projection only makes a scalar to differentiate: y's gradient is fed, so that neither the
  // product nor its backward runs and the test depends on no op but its own.
  const ValueId y = one.outputs[0];
  const ValueType y_type = g.graph.type(y);
  const ValueId row = g.graph.emit1(Reshape{{1, y_type.numel()}}, {y});
  const ValueId column = g.graph.emit1(Input{"projection", y_type.dtype, {y_type.numel(), 1}}, {});
  const ValueId loss = g.graph.emit1(Reshape{{}}, {g.graph.emit1(Matmul{}, {row, column})});
  const ValueId seed = g.graph.emit1(Fill{{}, 1}, {});
  std::vector<ValueId> targets{y};
  for (const int i : c.gradients) targets.push_back(one.inputs[i]);
  const std::vector<ValueId> gradients = append_backward(g.graph, loss, seed, targets);

  std::mt19937_64 engine(17);
  g.projection = rounded(filled({y_type.dims}, engine), y_type.dtype);
  g.feeds.push_back({gradients[0], encode(g.projection, y_type.dtype)});
  g.wanted.assign(gradients.begin() + 1, gradients.end());
  return g;
}

// dL/dx[element] of input i by central differences. The step balances the f64 round-off of L
// against the cubic term.
double numeric_gradient(const OpCase& c, const Reference& reference, std::vector<Tensor> inputs,
                        size_t i, size_t element, const Tensor& projection) {
  const auto project = [&] {
    const Tensor y = reference(c.op, inputs)[0];
    return std::inner_product(y.values.begin(), y.values.end(), projection.values.begin(), 0.0);
  };
  double& x = inputs[i].values[element];
  const double at = x, step = 1e-5 * std::max(1.0, std::abs(at));
  x = at + step;
  const double above = project();
  x = at - step;
  return (above - project()) / (2 * step);
}

// At most this many elements per input are differentiated, spread evenly, first and last included.
std::vector<size_t> sampled_elements(size_t n) {
  constexpr size_t kMost = 48;
  std::vector<size_t> elements;
  if (n <= kMost) {
    for (size_t i = 0; i < n; ++i) elements.push_back(i);
  } else {
    for (size_t i = 0; i < kMost; ++i) elements.push_back(i * (n - 1) / (kMost - 1));
  }
  return elements;
}

}  // namespace

std::vector<Tensor> make_inputs(const OpCase& c, DType data_type) {
  std::mt19937_64 engine(1);
  std::vector<Tensor> inputs;
  for (const Argument& argument : c.inputs)
    inputs.push_back(rounded(filled(argument, engine), argument.dtype.value_or(data_type)));
  return inputs;
}

void expect_close(const std::string& what, const Tensor& got, const Tensor& expected,
                  DType out_type, DType data_type, const Accuracy& accuracy) {
  ASSERT_EQ(got.dims, expected.dims) << what << " is " << to_text(got.dims);
  const double rms = root_mean_square(expected.values);
  const double arithmetic =
      is_float(out_type)
          ? 4 * kF32Roundoff * (std::sqrt(static_cast<double>(accuracy.terms)) + accuracy.ulps) +
                accuracy.roundings * roundoff(data_type)
          : 0;
  int failures = 0;
  for (size_t i = 0; i < expected.values.size() && failures < 3; ++i) {
    const double e = expected.values[i], g = got.values[i];
    if (e == g || (std::isnan(e) && std::isnan(g))) continue;
    const double size = std::max({std::abs(e), rms, accuracy.magnitude});
    const double tolerance =
        std::max(roundoff(out_type) * std::abs(e), least_rounding(out_type)) + arithmetic * size;
    if (!(std::abs(g - e) <= tolerance)) {
      ++failures;
      ADD_FAILURE() << what << "[" << i << "] is " << g << ", expected " << e << " within "
                    << tolerance << " (error " << std::abs(g - e) << ", shape "
                    << to_text(expected.dims) << ")";
    }
  }
}

void check_values(const OpCase& c, DType data_type, const Reference& reference,
                  bool deterministic) {
  const std::vector<Tensor> inputs = make_inputs(c, data_type);
  const std::vector<DType> types = input_types(c, data_type);
  std::vector<ValueType> value_types;
  for (size_t i = 0; i < inputs.size(); ++i) value_types.push_back({types[i], inputs[i].dims});
  const OneNode one = make_node(c.op, value_types);

  const std::vector<Tensor> expected = reference(c.op, inputs);
  const auto compare = [&](const std::string& what, const RunResult& result) {
    expect_no_damage(result);
    ASSERT_EQ(result.outputs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const ValueType& type = one.graph.type(one.outputs[i]);
      expect_close(cat(what, "output ", i), decode(result.outputs[i], type), expected[i],
                   type.dtype, data_type, c.accuracy);
    }
  };
  const RunResult result = run_node(c.op, inputs, types, {.deterministic = deterministic});
  compare(deterministic ? "" : "without determinism: ", result);
  if (deterministic && result.can_prepare)
    compare("prepared: ", run_node(c.op, inputs, types, {.prepare = true, .repeats = 2}));
}

void check_bits(const OpCase& c, DType data_type) {
  const std::vector<Tensor> inputs = make_inputs(c, data_type);
  const std::vector<DType> types = input_types(c, data_type);
  const RunResult base = run_node(c.op, inputs, types, {.repeats = 2});
  EXPECT_TRUE(base.repeats_equal) << "two launches differ";
  const auto expect_same = [&](const std::string& what, const RunOptions& options) {
    const RunResult result = run_node(c.op, inputs, types, options);
    expect_no_damage(result);
    EXPECT_TRUE(result.repeats_equal) << what << ": two launches differ";
    EXPECT_TRUE(result.outputs == base.outputs) << what << " gives other bits";
  };
  expect_same("a second plan", {});
  if (c.thread_invariant || !libraries_need_alignment())
    expect_same("memory off alignment", {.misalign_elems = 1});
  for (size_t i = 0; i < base.n_in_place; ++i)
    expect_same(cat("binding in place, entry ", i), {.in_place = static_cast<int>(i)});
  if (c.thread_invariant) {
    expect_same("two threads", {.threads = 2});
    expect_same("three threads", {.threads = 3});
  } else {
    EXPECT_TRUE(run_node(c.op, inputs, types, {.threads = 2, .repeats = 2}).repeats_equal)
        << "two threads: two launches differ";
  }
}

void check_gradients(const OpCase& c, DType data_type, const Reference& reference) {
  if (c.gradients.empty()) return;
  const std::vector<Tensor> inputs = make_inputs(c, data_type);
  const GradientGraph g = make_gradient_graph(c, data_type, inputs);
  for (size_t k = 0; k < c.gradients.size(); ++k)
    ASSERT_TRUE(g.wanted[k].valid()) << "input " << c.gradients[k] << " has no gradient";
  const RunResult result = run_graph(g.graph, g.feeds, g.wanted);
  expect_no_damage(result);

  // Each gradient adds up at most one term per output element, from tensors saved in the data type.
  Accuracy accuracy = c.accuracy;
  accuracy.terms = std::max(accuracy.terms, g.projection.dims.numel());
  accuracy.roundings += 2;
  for (size_t k = 0; k < c.gradients.size(); ++k) {
    const auto input = static_cast<size_t>(c.gradients[k]);
    const ValueType& type = g.graph.type(g.wanted[k]);
    const Tensor all = decode(result.outputs[k], type);
    const std::vector<size_t> elements = sampled_elements(all.values.size());
    Tensor got{{static_cast<int64_t>(elements.size())}, {}};
    Tensor expected = got;
    for (const size_t element : elements) {
      got.values.push_back(all.values[element]);
      expected.values.push_back(
          numeric_gradient(c, reference, inputs, input, element, g.projection));
    }
    // Central differences themselves are good to about 1e-9 of L.
    expect_close(cat("gradient of input ", input), got, expected, type.dtype, data_type, accuracy);
  }
}

void check_op(const OpCase& c, const Reference& reference) {
  std::vector<DType> dtypes = c.dtypes;
  if (dtypes == std::vector<DType>{DType::kF32, DType::kBf16} &&
      make_backend_under_test(1)->target().has_f16)
    dtypes.push_back(DType::kF16);
  for (const DType data_type : dtypes) {
    SCOPED_TRACE(cat(op_name(c.op), " ", c.name, " ", data_type));
    check_values(c, data_type, reference);
    if (c.unordered) check_values(c, data_type, reference, false);
    check_bits(c, data_type);
    check_gradients(c, data_type, reference);
  }
}

void check_op(const std::vector<OpCase>& cases, const Reference& reference) {
  for (const OpCase& c : cases) check_op(c, reference);
}

}  // namespace assay::test
