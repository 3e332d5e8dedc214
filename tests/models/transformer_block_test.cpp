// One transformer block against an independent implementation (tests/fixtures/models:
// transformer_block, PyTorch in float64), from the ops it is made of: one product for q, k and v,
// attention over padded sequences, layer norm with its residual, GELU.
//
// Bounds are fractions of each tensor's largest element, as in parity_test.cpp: four times
// PyTorch's own float32 error; in bf16 eight roundings of 2^-8 for what passed through as many
// tensors.
#include <gtest/gtest.h>

#include <map>

#include "sdk/graph/autodiff.h"
#include "sdk/graph/elementwise.h"
#include "sdk/passes/precision.h"
#include "tests/harness/fixture.h"
#include "tests/harness/run_node.h"

namespace assay::test {
namespace {

constexpr int64_t kBatch = 3, kLength = 7, kHidden = 12, kHeads = 3, kInner = 20;
constexpr int64_t kTokens = kBatch * kLength;

class Block {
 public:
  explicit Block(Precision precision) {
    const ValueId x = input("x", {kTokens, kHidden});
    const ValueId start = graph_.emit1(Input{"start", DType::kI32, {kBatch}}, {});
    const ValueId length = graph_.emit1(Input{"length", DType::kI32, {kBatch}}, {});
    const ValueId qkv = linear("qkv", x, 3 * kHidden);
    const ValueId context = graph_.emit(
        Attention{.heads = kHeads, .scale = 0.5f, .longest = kLength}, {qkv, start, length})[0];
    const ValueId attended =
        norm("attention.output", linear("attention.output.dense", context, kHidden), x);
    const ValueId inner =
        activation(graph_, linear("intermediate.dense", attended, kInner), ActivationKind::kGelu);
    const ValueId y = norm("output", linear("output.dense", inner, kHidden), attended);
    graph_.outputs().push_back({"y", y});
    apply_precision(graph_, precision);
    append_gradients();
  }

  // "y" and the gradients of inputs by their names.
  std::map<std::string, std::vector<float>> run(const std::map<std::string, Tensor>& tensors) {
    std::vector<Feed> feeds;
    for (const Node& node : graph_.nodes())
      if (const auto* p = std::get_if<Input>(&node.op))
        feeds.push_back({node.outputs[0], encode(tensors.at(p->name), p->dtype)});
    std::vector<ValueId> wanted;
    for (const GraphOutput& output : graph_.outputs()) wanted.push_back(output.value);
    const RunResult got = run_graph(graph_, feeds, wanted);
    std::map<std::string, std::vector<float>> results;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto values = decode(got.outputs[i], graph_.type(wanted[i])).values;
      results[graph_.outputs()[i].name] = {values.begin(), values.end()};
    }
    return results;
  }

 private:
  // Of L = sum(dy * y), so that dL/dy is dy, in all other inputs that are no numbers of sequences.
  void append_gradients() {
    const ValueId y = graph_.outputs()[0].value;
    std::vector<std::string> names;
    std::vector<ValueId> values;
    for (const Node& node : graph_.nodes()) {
      const auto* p = std::get_if<Input>(&node.op);
      if (p == nullptr || p->dtype != DType::kF32) continue;
      names.push_back(p->name);
      values.push_back(node.outputs[0]);
    }
    const ValueId row = graph_.emit1(Reshape{{1, kTokens * kHidden}}, {y});
    const ValueId column = input("dy", {kTokens * kHidden, 1});
    const ValueId loss = graph_.emit1(Reshape{{}}, {graph_.emit1(Matmul{}, {row, column})});
    const auto gradients = append_backward(graph_, loss, graph_.emit1(Fill{{}, 1}, {}), values);
    for (size_t i = 0; i < gradients.size(); ++i)
      graph_.outputs().push_back({names[i], gradients[i]});
  }

  ValueId input(const std::string& name, const Dims& dims) {
    return graph_.emit1(Input{name, DType::kF32, dims}, {});
  }
  ValueId linear(const std::string& name, ValueId x, int64_t features) {
    const ValueId weight = input(name + ".weight", {features, graph_.type(x).dims[1]});
    const ValueId bias = input(name + ".bias", {features});
    return graph_.emit1(Matmul{.transpose_b = true, .has_bias = true}, {x, weight, bias});
  }
  ValueId norm(const std::string& name, ValueId x, ValueId residual) {
    const ValueId gamma = input(name + ".LayerNorm.weight", {kHidden});
    const ValueId beta = input(name + ".LayerNorm.bias", {kHidden});
    return graph_.emit(LayerNorm{.has_residual = true}, {x, gamma, beta, residual})[0];
  }

  Graph graph_;
};

Tensor tensor(const FixtureTensor& t, const Dims& dims) {
  return {dims, {t.f32.begin(), t.f32.end()}};
}

// Of q, k and v one after the other.
std::vector<float> joined(const Fixture& fixture, const std::string& prefix,
                          const std::string& kind) {
  std::vector<float> all;
  for (const char* part : {"query", "key", "value"}) {
    const auto& values = fixture.at(cat(prefix, "attention.self.", part, ".", kind)).f32;
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

struct Bounds {
  Precision precision;
  double output, gradients;
};

void expect_block(const Bounds& bounds) {
  const Fixture fixture("models/transformer_block");
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, t] : fixture.with_prefix("initial.")) tensors[name] = tensor(*t, t->dims);
  for (const auto& [kind, dims] :
       {std::pair<std::string, Dims>{"weight", {3 * kHidden, kHidden}}, {"bias", {3 * kHidden}}}) {
    const auto values = joined(fixture, "initial.", kind);
    tensors["qkv." + kind] = {dims, {values.begin(), values.end()}};
  }
  tensors["x"] = tensor(fixture.at("input.x"), {kTokens, kHidden});
  tensors["dy"] = tensor(fixture.at("input.dy"), {kTokens * kHidden, 1});
  tensors["start"] = {{kBatch}, {0, kLength, 2 * kLength}};
  const auto& lengths = fixture.at("input.lengths").i32;
  tensors["length"] = {{kBatch}, {lengths.begin(), lengths.end()}};

  auto got = Block(bounds.precision).run(tensors);
  // Rows of padding mean nothing: there the fixture attends from them, and we do not.
  std::vector<float> y, expected;
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t i = b * kLength * kHidden; i < (b * kLength + lengths[b]) * kHidden; ++i) {
      y.push_back(got["y"][i]);
      expected.push_back(fixture.at("output").f32[i]);
    }
  EXPECT_LT(relative_error(y, expected), bounds.output);
  EXPECT_LT(relative_error(got["x"], fixture.at("grad.x").f32), bounds.gradients);
  EXPECT_LT(relative_error(got["qkv.weight"], joined(fixture, "grad.", "weight")),
            bounds.gradients);
  EXPECT_LT(relative_error(got["qkv.bias"], joined(fixture, "grad.", "bias")), bounds.gradients);
  for (const auto& [name, t] : fixture.with_prefix("grad.")) {
    if (name == "x" || name.starts_with("attention.self.")) continue;
    EXPECT_LT(relative_error(got[name], t->f32), bounds.gradients) << name;
  }
}

TEST(TransformerBlock, ForwardAndEveryGradient) {
  expect_block({Precision::kF32, 4 * 6e-7, 4 * 4.1e-6});
}

TEST(TransformerBlock, InBf16) { expect_block({Precision::kAmpBf16, 8 * 0x1p-8, 8 * 0x1p-8}); }

}  // namespace
}  // namespace assay::test
