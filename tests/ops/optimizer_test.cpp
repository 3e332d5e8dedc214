// SgdUpdate, AdamUpdate, LambUpdate, EmaUpdate: three steps each against the published equations in
// f64, and what must not change when a step is skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

// The references use decay rates as they are written, 0.999, not the f32 numbers next to them.

// One tensor per variable and role: [role][variable].
using Lists = std::vector<std::vector<Tensor>>;

// Variables whose sizes leave vector tails, cross the serial limit, and are single elements.
const std::vector<int64_t> kSizes{5, 1, 33, 20000, 64, 17};

Lists make_lists(int roles) {
  Lists lists(roles);
  uint32_t state = 1;
  for (int role = 0; role < roles; ++role) {
    for (const int64_t size : kSizes) {
      Tensor t{{size}, {}};
      for (int64_t i = 0; i < size; ++i) {
        state = state * 1664525u + 1013904223u;
        t.values.push_back(role < 2 ? static_cast<double>(state >> 8) * 0x1p-23 - 1 : 0);
      }
      lists[role].push_back(t);
    }
  }
  return lists;
}

// Gradients of step s: the first list turned by s elements.
void next_gradients(Lists& lists) {
  for (Tensor& g : lists[1]) {
    for (double& v : g.values) v = -0.7 * v + 0.05;
    g = rounded(g, DType::kF32);
  }
}

std::vector<Tensor> flatten(const std::vector<Tensor>& scalars, const Lists& lists) {
  std::vector<Tensor> inputs = scalars;
  for (const auto& list : lists) inputs.insert(inputs.end(), list.begin(), list.end());
  return inputs;
}

std::vector<DType> types_of(size_t n, bool with_step) {
  std::vector<DType> types(n, DType::kF32);
  if (with_step) types[3] = DType::kI64;
  return types;
}

// Runs the op and puts its outputs back into the lists named by `updated`.
void run_update(const Op& op, const std::vector<Tensor>& scalars, Lists& lists,
                const std::vector<int>& updated) {
  const std::vector<Tensor> inputs = flatten(scalars, lists);
  const RunResult result = run_node(op, inputs, types_of(inputs.size(), scalars.size() == 4));
  EXPECT_TRUE(result.damage.empty()) << result.damage[0];
  size_t output = 0;
  for (const int role : updated) {
    for (Tensor& t : lists[role]) t = decode(result.outputs[output++], {DType::kF32, t.dims});
  }
}

constexpr double kRate = 0.05, kMultiplier = 0.25;

// equation(step, values) updates one variable's values[role][i] in f64.
using Equation = std::function<void(int64_t step, std::vector<std::vector<double>>& values)>;

void check_three_steps(const Op& op, int roles, const std::vector<int>& updated, bool with_step,
                       const Equation& equation) {
  Lists got = make_lists(roles), expected = got;
  for (int64_t step = 1; step <= 3; ++step) {
    std::vector<Tensor> scalars{{{}, {kRate}}, {{}, {kMultiplier}}, {{}, {0}}};
    if (with_step) scalars.push_back({{}, {static_cast<double>(step)}});
    run_update(op, scalars, got, updated);
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<std::vector<double>> values;
      for (int role = 0; role < roles; ++role) values.push_back(expected[role][i].values);
      equation(step, values);
      for (int role = 0; role < roles; ++role) expected[role][i].values = values[role];
      for (int role = 0; role < roles; ++role) {
        expect_close(
            cat(op_name(op), " step ", step, " role ", role, " variable ", i), got[role][i],
            expected[role][i], DType::kF32, DType::kF32,
            {.magnitude = role == 2 ? 0.01 : 0, .ulps = 12});  // a moment's terms may cancel
      }
    }
    next_gradients(got);
    expected[1] = got[1];
  }
}

// With skip, not a bit may change; NaN gradients are the usual reason.
void check_skip(const Op& op, int roles, const std::vector<int>& updated, bool with_step) {
  Lists lists = make_lists(roles);
  lists[1][0].values[2] = std::numeric_limits<double>::quiet_NaN();
  const Lists before = lists;
  std::vector<Tensor> scalars{{{}, {kRate}}, {{}, {0}}, {{}, {1}}};
  if (with_step) scalars.push_back({{}, {1}});
  run_update(op, scalars, lists, updated);
  for (const int role : updated) {
    for (size_t i = 0; i < kSizes.size(); ++i)
      EXPECT_EQ(encode(lists[role][i], DType::kF32), encode(before[role][i], DType::kF32));
  }
}

void check_update_bits(const Op& op, int roles, bool with_step) {
  OpCase c{"",
           op,
           {{{}, {}, Recipe::listed({kRate})},
            {{}, {}, Recipe::listed({kMultiplier})},
            {{}, {}, Recipe::listed({0})}}};
  if (with_step) c.inputs.push_back({{}, DType::kI64, Recipe::listed({2})});
  for (int role = 0; role < roles; ++role) {
    for (const int64_t size : kSizes) c.inputs.push_back({{size}, {}, Recipe::uniform(0.1, 1)});
  }
  check_bits(c, DType::kF32);
}

TEST(SgdUpdate, FollowsBothMomentumConventions) {
  for (const auto convention : {MomentumConvention::kPyTorch, MomentumConvention::kSutskever}) {
    for (const bool nesterov : {false, true}) {
      for (const float momentum : {0.0f, 0.9f}) {
        const SgdUpdate op{momentum, nesterov && momentum > 0, convention, 0.01f, 0.5f};
        const double lr = kRate * op.lr_scale, mu = op.momentum, decay = op.weight_decay;
        const int roles = momentum > 0 ? 3 : 2;
        const std::vector<int> updated = momentum > 0 ? std::vector{0, 2} : std::vector{0};
        check_three_steps(op, roles, updated, false, [&](int64_t, auto& values) {
          for (size_t i = 0; i < values[0].size(); ++i) {
            double& p = values[0][i];
            const double g = values[1][i] * kMultiplier + decay * p;
            if (momentum == 0) {
              p -= lr * g;
              continue;
            }
            double& m = values[2][i];
            if (convention == MomentumConvention::kPyTorch) {
              m = mu * m + g;
              p -= lr * (op.nesterov ? g + mu * m : m);
            } else {
              m = mu * m - lr * g;
              p += op.nesterov ? mu * m - lr * g : m;
            }
          }
        });
        check_skip(op, roles, updated, false);
        check_update_bits(op, roles, false);
      }
    }
  }
}

TEST(AdamUpdate, FollowsEveryForm) {
  for (const auto form : {EpsilonForm::kPyTorch, EpsilonForm::kTensorFlow}) {
    for (const bool correction : {false, true}) {
      for (const bool decoupled : {false, true}) {
        const AdamUpdate op{0.9f, 0.999f, 1e-3f, form, correction, decoupled, 0.1f, 2.0f};
        const double b1 = 0.9, b2 = 0.999, eps = op.epsilon, decay = op.weight_decay;
        const double lr = kRate * op.lr_scale;
        check_three_steps(op, 4, {0, 2, 3}, true, [&](int64_t t, auto& values) {
          const double c1 = correction ? 1 - std::pow(b1, t) : 1;
          const double c2 = correction ? 1 - std::pow(b2, t) : 1;
          for (size_t i = 0; i < values[0].size(); ++i) {
            double &p = values[0][i], &m = values[2][i], &v = values[3][i];
            double g = values[1][i] * kMultiplier;
            if (decoupled) {
              p -= lr * decay * p;
            } else {
              g += decay * p;
            }
            m = b1 * m + (1 - b1) * g;
            v = b2 * v + (1 - b2) * g * g;
            p -= form == EpsilonForm::kPyTorch ? lr * (m / c1) / (std::sqrt(v / c2) + eps)
                                               : lr * std::sqrt(c2) / c1 * m / (std::sqrt(v) + eps);
          }
        });
        check_skip(op, 4, {0, 2, 3}, true);
        check_update_bits(op, 4, true);
      }
    }
  }
}

// TensorFlow does not correct the epsilon beside the second moment: the first step falls short of
// the rate, 1e-4, in the seventh digit, where PyTorch's does not.
TEST(AdamUpdate, FirstStepOfTheTwoForms) {
  const auto one = [](double value) { return std::vector<Tensor>{{{1}, {value}}}; };
  const auto first_step = [&](EpsilonForm form) {
    Lists lists{one(0), one(0.5), one(0), one(0)};
    const std::vector<Tensor> scalars{{{}, {1e-4}}, {{}, {1}}, {{}, {0}}, {{}, {1}}};
    run_update(AdamUpdate{0.9f, 0.999f, 1e-8f, form, true, false, 0, 1}, scalars, lists, {0, 2, 3});
    return -lists[0][0].values[0];
  };
  EXPECT_NEAR(first_step(EpsilonForm::kTensorFlow), 9.999994e-5, 2e-11);
  EXPECT_NEAR(first_step(EpsilonForm::kPyTorch), 9.9999998e-5, 2e-11);
}

TEST(LambUpdate, TrustsEachVariable) {
  for (const bool correction : {false, true}) {
    for (const bool trust_ratio : {false, true}) {
      const LambUpdate op{0.9f, 0.999f, 1e-4f, correction, 0.1f, trust_ratio, 0.5f};
      const double b1 = 0.9, b2 = 0.999, eps = op.epsilon, decay = op.weight_decay;
      check_three_steps(op, 4, {0, 2, 3}, true, [&](int64_t t, auto& values) {
        const double c1 = correction ? 1 - std::pow(b1, t) : 1;
        const double c2 = correction ? 1 - std::pow(b2, t) : 1;
        std::vector<double> u(values[0].size());
        double p_norm = 0, u_norm = 0;
        for (size_t i = 0; i < u.size(); ++i) {
          double &p = values[0][i], &m = values[2][i], &v = values[3][i];
          const double g = values[1][i] * kMultiplier;
          m = b1 * m + (1 - b1) * g;
          v = b2 * v + (1 - b2) * g * g;
          u[i] = m / c1 / (std::sqrt(v / c2) + eps) + decay * p;
          p_norm += p * p;
          u_norm += u[i] * u[i];
        }
        const double trust =
            trust_ratio && p_norm > 0 && u_norm > 0 ? std::sqrt(p_norm / u_norm) : 1;
        for (size_t i = 0; i < u.size(); ++i) values[0][i] -= kRate * op.lr_scale * trust * u[i];
      });
      check_skip(op, 4, {0, 2, 3}, true);
      check_update_bits(op, 4, true);
    }
  }
}

// Weights after steps with these gradients, worked out by hand for BERT and ELECTRA to eight
// digits: a rate of 0.01 and a decay of 0.01.
void expect_worked_out(const Op& op, const std::vector<std::vector<double>>& gradients,
                       const std::vector<std::vector<double>>& expected) {
  const Tensor zeros{{2}, {0, 0}};
  Lists lists{{{{2}, {0.3, -0.4}}}, {zeros}, {zeros}, {zeros}};
  for (size_t step = 0; step < gradients.size(); ++step) {
    lists[1][0].values = gradients[step];
    run_update(op, {{{}, {0.01}}, {{}, {1}}, {{}, {0}}, {{}, {static_cast<double>(step + 1)}}},
               lists, {0, 2, 3});
    for (size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(lists[0][0].values[i], expected[step][i], 4e-8) << step;
  }
}

TEST(AdamUpdate, WorkedExamples) {
  const AdamUpdate bert{0.9f, 0.999f, 1e-6f, EpsilonForm::kTensorFlow, false, true, 0.01f, 1};
  const AdamUpdate electra{0.9f, 0.999f, 1e-6f, EpsilonForm::kTensorFlow, true, true, 0.01f, 1};
  expect_worked_out(bert, {{0.1, 0.2}}, {{0.26835722, -0.43157778}});
  expect_worked_out(electra, {{0.1, 0.2}}, {{0.28997316, -0.40995842}});
}

TEST(LambUpdate, WorkedExample) {
  expect_worked_out(LambUpdate{0.878f, 0.974f, 1e-6f, true, 0.01f, true, 1},
                    {{0.1, 0.2}, {-0.05, 0.1}},
                    {{0.29645212, -0.40352314}, {0.29510787, -0.40834647}});
}

TEST(LambUpdate, ZeroParameterOrDirectionHasTrustOne) {
  const LambUpdate op{0.9f, 0.999f, 1e-6f, true, 0, true, 1};
  Lists lists{{{{2}, {0, 0}}, {{2}, {3, 4}}},
              {{{2}, {1, 1}}, {{2}, {0, 0}}},
              {{{2}, {0, 0}}, {{2}, {0, 0}}},
              {{{2}, {0, 0}}, {{2}, {0, 0}}}};
  run_update(op, {{{}, {0.5}}, {{}, {1}}, {{}, {0}}, {{}, {1}}}, lists, {0, 2, 3});
  EXPECT_NEAR(lists[0][0].values[0], -0.5, 1e-5);  // p = 0: u is about 1, trust 1
  EXPECT_EQ(lists[0][1].values[0], 3);             // u = 0: nothing moves, and nothing is NaN
}

TEST(EmaUpdate, MovesTowardsTheValue) {
  const EmaUpdate op{0.9999f};
  for (const double skip : {0.0, 1.0}) {
    Lists lists = make_lists(2);
    const Lists before = lists;
    run_update(op, {{{}, {skip}}}, lists, {0});
    for (size_t i = 0; i < kSizes.size(); ++i) {
      Tensor expected = before[0][i];
      const double d = skip == 0 ? 0.9999 : 1;
      for (size_t k = 0; k < expected.values.size(); ++k)
        expected.values[k] = d * expected.values[k] + (1 - d) * before[1][i].values[k];
      expect_close("ema", lists[0][i], expected, DType::kF32, DType::kF32, {.ulps = 1});
    }
  }
}

// The numbers of a zero average of a constant 1 (TensorFlow's num_updates), then the limit.
TEST(EmaUpdate, WarmsUp) {
  const EmaUpdate op{0.9f, true};
  Tensor average{{3}, {0, 0, 0}};
  const Tensor ones{{3}, {1, 1, 1}};
  const double expected[] = {0.818182, 0.954545, 0.986014, 0.995005, 0.998002};
  const std::vector<DType> types{DType::kF32, DType::kI64, DType::kF32, DType::kF32};
  const auto move = [&](double skip, double step) {
    const RunResult result = run_node(op, {{{}, {skip}}, {{}, {step}}, average, ones}, types);
    average = decode(result.outputs[0], {DType::kF32, {3}});
  };
  for (int t = 1; t <= 5; ++t) {
    move(0, t);
    for (const double v : average.values) EXPECT_NEAR(v, expected[t - 1], 1e-6) << t;
  }
  move(1, 6);
  EXPECT_NEAR(average.values[0], expected[4], 1e-6);
  average.values.assign(3, 0);
  move(0, 1000);
  EXPECT_NEAR(average.values[0], 0.1, 1e-7);
}

// In a segment the variables of a role follow each other; updated as one run they must get the bits
// they get apart.
TEST(AdamUpdate, AdjacentVariablesGetTheSameBits) {
  constexpr int kRoles = 4;
  const AdamUpdate op{};
  Lists apart = make_lists(kRoles);
  std::vector<Tensor> scalars{{{}, {kRate}}, {{}, {kMultiplier}}, {{}, {0}}, {{}, {1}}};
  std::vector<ValueType> types;
  for (const DType dtype : types_of(4, true)) types.push_back({dtype, {}});
  for (int role = 0; role < kRoles; ++role) {
    for (const int64_t size : kSizes) types.push_back({DType::kF32, {size}});
  }
  const OneNode one = make_node(op, types);
  const auto backend = make_backend_under_test(2);
  const NodePlan plan = backend->plan(one.graph, one.graph.value(one.outputs[0]).producer);

  std::vector<std::unique_ptr<Memory>> memory;
  const auto place = [&](const Bytes& bytes) {
    memory.push_back(backend->allocate(bytes.size()));
    backend->write(memory.back()->data(), bytes.data(), bytes.size());
    return static_cast<std::byte*>(memory.back()->data());
  };
  std::vector<void*> inputs, outputs;
  for (size_t i = 0; i < scalars.size(); ++i)
    inputs.push_back(place(encode(scalars[i], types[i].dtype)));
  std::vector<std::byte*> segments;
  std::vector<size_t> segment_bytes;
  for (int role = 0; role < kRoles; ++role) {
    Bytes segment;
    for (const Tensor& t : apart[role]) {
      const Bytes part = encode(t, DType::kF32);
      segment.insert(segment.end(), part.begin(), part.end());
    }
    segments.push_back(place(segment));
    segment_bytes.push_back(segment.size());
    std::byte* next = segments.back();
    for (const int64_t size : kSizes) {
      inputs.push_back(next);
      next += size * static_cast<int64_t>(sizeof(float));
    }
  }
  const size_t n = kSizes.size();
  for (const size_t role : {size_t{0}, size_t{2}, size_t{3}})
    outputs.insert(outputs.end(), inputs.begin() + 4 + role * n,
                   inputs.begin() + 4 + (role + 1) * n);
  backend->make_executable({plan.bind({.inputs = inputs, .outputs = outputs})}, 0)->run(nullptr);

  run_update(op, scalars, apart, {0, 2, 3});
  for (const size_t role : {size_t{0}, size_t{2}, size_t{3}}) {
    Bytes expected;
    for (const Tensor& t : apart[role]) {
      const Bytes part = encode(t, DType::kF32);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    Bytes together(segment_bytes[role]);
    backend->read(together.data(), segments[role], together.size());
    EXPECT_EQ(together, expected);
  }
}

}  // namespace
}  // namespace assay::test
