#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sdk/graph/autodiff.h"
#include "tests/harness/activation_reference.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"
#include "tests/ops/cpu_plans.h"

namespace assay::test {
namespace {

std::vector<Tensor> matmul_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Matmul>(op);
  const Dims &a = x[0].dims, &b = x[1].dims;
  const int64_t m = a[p.transpose_a ? 1 : 0], n = b[p.transpose_b ? 0 : 1];
  const int64_t inner = a[p.transpose_a ? 0 : 1];
  Tensor y{{m, n}, {}}, pre = y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = p.has_bias ? x[2].values[static_cast<size_t>(j)] : 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += x[0].values[static_cast<size_t>(p.transpose_a ? k * m + i : i * inner + k)] *
               x[1].values[static_cast<size_t>(p.transpose_b ? j * inner + k : k * n + j)];
      y.values.push_back(activation_reference(p.activation, sum));
      pre.values.push_back(sum);
    }
  if (p.keep_pre) return {y, pre};
  return {y};
}

// The op in each data type it can have as input and as result.
void check(OpCase c, Matmul p) {
  c.thread_invariant = false;
  for (const auto& [from, to] : {std::pair{DType::kF32, DType::kF32},
                                 {DType::kBf16, DType::kBf16},
                                 {DType::kBf16, DType::kF32}}) {
    p.dtype = to;
    c.op = p;
    c.dtypes = {from};
    SCOPED_TRACE(cat("to ", to));
    check_op(c, matmul_reference);
  }
}

struct Sizes {
  int64_t m, n, k;
};

TEST(Matmul, EverySizeAndTransposition) {
  for (const auto [m, n, k] : {Sizes{1, 1, 1}, Sizes{1, 10, 64}, Sizes{5, 1, 17}, Sizes{3, 17, 5},
                               Sizes{16, 32, 64}, Sizes{33, 65, 129}, Sizes{7, 10, 300},
                               Sizes{130, 1024, 6}}) {  // rows a page apart are packed
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Dims a = ta ? Dims{k, m} : Dims{m, k}, b = tb ? Dims{n, k} : Dims{k, n};
        check({.name = cat(m, "x", n, "x", k, ta ? " a^T" : "", tb ? " b^T" : ""),
               .op = {},
               .inputs = {{a}, {b}},
               .accuracy = {.terms = k},
               .gradients = {0, 1}},
              {.transpose_a = ta, .transpose_b = tb});
      }
    }
  }
}

// op(a) [m,k] op(b) [k,n] from `from` to `to`.
void check_in_panels(Sizes s, bool ta, bool tb, DType from, DType to) {
  const OpCase c{
      .name = cat(s.m, "x", s.n, "x", s.k, ta ? " a^T" : "", tb ? " b^T" : ""),
      .op = Matmul{.transpose_a = ta, .transpose_b = tb, .dtype = to},
      .inputs = {{ta ? Dims{s.k, s.m} : Dims{s.m, s.k}}, {tb ? Dims{s.n, s.k} : Dims{s.k, s.n}}},
      .accuracy = {.terms = s.k},
      .dtypes = {from},
      .thread_invariant = false};
  if (plans_panels() && !ta) {
    const std::string kernel = planned_kernel(c, from);
    EXPECT_NE(kernel.find("own:product:avx2"), std::string::npos) << c.name << ": " << kernel;
  }
  check_op(c, matmul_reference);
}

// Sizes at which CPUs with tiles bring bf16 into panels, and those with AVX2 alone both types:
// whenever it runs, or only a prepared b. Others do so with a prepared b of f32. Of whole panels
// and not.
TEST(Matmul, InPanels) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const Sizes s :
           {Sizes{513, 521, 1033}, Sizes{544, 512, 1024}, Sizes{45, 600, 100}, Sizes{45, 600, 96}})
        check_in_panels(s, ta, tb, DType::kBf16, ta == tb ? DType::kBf16 : DType::kF32);
      for (const Sizes s :
           {Sizes{45, 600, 100}, Sizes{145, 64, 523}, Sizes{1, 71, 256}, Sizes{401, 70, 130}})
        check_in_panels(s, ta, tb, DType::kF32, DType::kF32);
    }
  }
  for (const DType data : {DType::kBf16, DType::kF32}) {
    for (const ActivationKind kind : all_activations()) {
      check_op(
          {.name = cat("activation ", static_cast<int>(kind)),
           .op = Matmul{.transpose_b = true, .has_bias = true, .activation = kind, .dtype = data},
           .inputs = {{{45, 96}},
                      {{530, 96}, {}, Recipe::uniform(-0.2, 0.2)},
                      {{530}, DType::kF32}},
           .accuracy = {.terms = 96, .ulps = activation_ulps(kind)},
           .dtypes = {data},
           .thread_invariant = false},
          matmul_reference);
    }
  }
}

// What is kept is rounded before the activation is applied, or beside it.
void check_epilogue(ActivationKind kind, bool bias, bool keep_pre) {
  OpCase c{.name = cat(static_cast<int>(kind), bias ? " bias" : "", keep_pre ? " kept" : ""),
           .op = {},
           .inputs = {{{6, 33}}, {{10, 33}, {}, Recipe::uniform(-0.2, 0.2)}},
           .accuracy = {.terms = 33, .ulps = activation_ulps(kind), .roundings = keep_pre}};
  if (bias) c.inputs.push_back({{10}, DType::kF32});
  if (keep_pre || gradient_reads_output(kind)) {
    c.gradients = {0, 1};
    if (bias) c.gradients.push_back(2);
  }
  const Matmul p{.transpose_b = true, .has_bias = bias, .activation = kind, .keep_pre = keep_pre};
  check(c, p);
  if (!bias || make_backend_under_test(1)->target().kind != Target::Kind::kCuda) return;
  // Biases of the result's type, which the library adds: what is left is applied to a rounded sum.
  c.name += " of its type";
  c.inputs[2].dtype.reset();
  c.gradients.clear();  // biases get their type when gradients are there
  c.accuracy.roundings = kind != ActivationKind::kNone;
  c.thread_invariant = false;
  for (const DType type : {DType::kBf16, DType::kF16}) {
    c.dtypes = {type};
    c.op = p;
    std::get<Matmul>(c.op).dtype = type;
    check_op(c, matmul_reference);
  }
}

TEST(Matmul, EveryEpilogue) {
  for (const ActivationKind kind : all_activations()) {
    for (const bool bias : {false, true}) {
      check_epilogue(kind, bias, false);
      if (kind != ActivationKind::kNone) check_epilogue(kind, bias, true);
    }
  }
}

// A box of a tensor, as Slice takes it.
Tensor columns(const Tensor& wide, int64_t first, int64_t n) {
  Tensor part{{wide.dims[0], n}, {}};
  for (int64_t row = 0; row < wide.dims[0]; ++row) {
    const auto begin = wide.values.begin() + row * wide.dims[1] + first;
    part.values.insert(part.values.end(), begin, begin + n);
  }
  return part;
}

Tensor drawn(const Dims& dims, int64_t seed, DType dtype) {
  Tensor tensor{dims, {}};
  for (int64_t i = 0; i < dims.numel(); ++i)
    tensor.values.push_back(static_cast<double>((seed + i) * 263 % 509 - 254) / 256);
  return rounded(tensor, dtype);
}

int copies(const RunResult& result) {
  return static_cast<int>(
      std::count_if(result.kernels.begin(), result.kernels.end(),
                    [](const std::string& kernel) { return kernel.starts_with("own:copy"); }));
}

// A product whose operands are columns of wider rows, as a product of packed queries, keys and
// values leaves them.
struct WideProduct {
  Matmul op;
  DType in;
  int64_t first, pitch;  // elements before the columns, and in a row
  Dims dims[2];          // of the columns
  Tensor wide[2];
  Graph graph;
  ValueId x[2], y;

  WideProduct(const Matmul& product, DType dtype, const Sizes& s, int64_t before, int64_t row)
      : op(product), in(dtype), first(before), pitch(row) {
    dims[0] = op.transpose_a ? Dims{s.k, s.m} : Dims{s.m, s.k};
    dims[1] = op.transpose_b ? Dims{s.n, s.k} : Dims{s.k, s.n};
    std::vector<ValueId> operands;
    for (int i = 0; i < 2; ++i) {
      wide[i] = drawn({dims[i][0], pitch}, 71 * i, in);
      x[i] = graph.emit1(Input{cat("x", i), in, wide[i].dims}, {});
      operands.push_back(graph.emit1(Slice{{0, first}, dims[i]}, {x[i]}));
    }
    y = graph.emit(op, operands)[0];
  }

  std::vector<Feed> feeds() const {
    return {{x[0], encode(wide[0], in)}, {x[1], encode(wide[1], in)}};
  }
  Tensor expected() const {
    return matmul_reference(
        op, {columns(wide[0], first, dims[0][1]), columns(wide[1], first, dims[1][1])})[0];
  }

  // `aligned`: rows begin on whole cache lines, so that nothing need be copied.
  void check_values(bool aligned) const {
    for (RunOptions options : {RunOptions{}, RunOptions{.threads = 2}, RunOptions{.repeats = 2}}) {
      options.prepare = aligned && options.repeats > 1;  // of inputs, which copies are not
      const RunResult result = run_graph(graph, feeds(), {y}, options);
      for (const std::string& damage : result.damage) ADD_FAILURE() << damage;
      EXPECT_TRUE(result.repeats_equal);
      EXPECT_EQ(copies(result), aligned ? 0 : 2);
      expect_close("y", decode(result.outputs[0], graph.type(y)), expected(), op.dtype, in,
                   {.terms = std::max(dims[0][0], dims[0][1])});
    }
  }

  // Of all of the wide rows: what is beside the columns has the gradient zero.
  void check_gradients() {
    const ValueType type = graph.type(y);
    const ValueId row = graph.emit1(Reshape{{1, type.numel()}}, {y});
    const ValueId column = graph.emit1(Input{"column", type.dtype, {type.numel(), 1}}, {});
    const ValueId loss = graph.emit1(Reshape{{}}, {graph.emit1(Matmul{}, {row, column})});
    const std::vector<ValueId> targets{y, x[0], x[1]};
    const std::vector<ValueId> gradients =
        append_backward(graph, loss, graph.emit1(Fill{{}, 1}, {}), targets);
    const Tensor dy = drawn(type.dims, 5, type.dtype);
    std::vector<Feed> given = feeds();
    given.push_back({gradients[0], encode(dy, type.dtype)});
    const RunResult result = run_graph(graph, given, {gradients[1], gradients[2]});
    for (const std::string& damage : result.damage) ADD_FAILURE() << damage;
    const auto projected = [&] {
      const Tensor now = expected();
      return std::inner_product(now.values.begin(), now.values.end(), dy.values.begin(), 0.0);
    };
    for (const int i : {0, 1}) {
      Tensor numeric{wide[i].dims, {}};
      for (double& value : wide[i].values) {
        const double at = value;
        value = at + 1;
        const double above = projected();
        value = at - 1;
        numeric.values.push_back((above - projected()) / 2);  // exact: y is linear in each
        value = at;
      }
      const auto& got = result.outputs[static_cast<size_t>(i)];
      expect_close(cat("gradient ", i),
                   decode(got, graph.type(gradients[static_cast<size_t>(i) + 1])), numeric, in, in,
                   {.terms = std::max(type.dims[0], type.dims[1]), .roundings = 1});
    }
  }
};

TEST(Matmul, ReadsColumnsOfWiderRows) {
  for (const auto& [in, out] : {std::pair{DType::kF32, DType::kF32},
                                {DType::kBf16, DType::kBf16},
                                {DType::kBf16, DType::kF32}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        SCOPED_TRACE(cat(in, " to ", out, ta ? " a^T" : "", tb ? " b^T" : ""));
        const Matmul op{.transpose_a = ta, .transpose_b = tb, .dtype = out};
        WideProduct(op, in, {33, 65, 70}, 32, 128).check_values(true);
        WideProduct(op, in, {385, 65, 70}, 32, 448).check_values(true);
        WideProduct(op, in, {1, 1, 1}, 64, 96).check_values(true);
        WideProduct(op, in, {7, 10, 64}, 3, 75).check_values(false);
        WideProduct(op, in, {4, 3, 5}, 32, 64).check_gradients();
        WideProduct(op, in, {3, 5, 2}, 1, 9).check_gradients();
      }
    }
  }
}

// [B,T,3,H,D] as one product wrote it: heads of queries, keys and values are read where they lie.
TEST(Matmul, ReadsHeadsOfPackedQueriesKeysAndValues) {
  const int64_t b = 2, t = 5, h = 3, d = 32;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Graph g;
    const Tensor packed = drawn({b, t, 3 * h * d}, 0, dtype);
    const ValueId x = g.emit1(Input{"qkv", dtype, packed.dims}, {});
    const ValueId split = g.emit1(Reshape{{b, t, 3, h, d}}, {x});
    const auto part = [&](int64_t k) {  // [B,H,T,D]
      const ValueId one = g.emit1(Slice{{0, 0, k, 0, 0}, {b, t, 1, h, d}}, {split});
      return g.emit1(Transpose{{0, 2, 1, 3}}, {g.emit1(Reshape{{b, t, h, d}}, {one})});
    };
    const ValueId parts[] = {part(0), part(1), part(2)};
    for (int64_t n = 0; n < b * h; ++n) {
      Tensor matrices[3];
      std::vector<ValueId> heads;
      for (int64_t k = 0; k < 3; ++k) {
        const ValueId head = g.emit1(Slice{{n / h, n % h, 0, 0}, {1, 1, t, d}}, {parts[k]});
        heads.push_back(g.emit1(Reshape{{t, d}}, {head}));
        matrices[k] = {{t, d}, {}};
        for (int64_t i = 0; i < t * d; ++i) {
          const int64_t at = (((n / h * t + i / d) * 3 + k) * h + n % h) * d + i % d;
          matrices[k].values.push_back(packed.values[static_cast<size_t>(at)]);
        }
      }
      const Matmul scores{.transpose_b = true, .dtype = dtype}, context{.dtype = dtype};
      const ValueId s = g.emit1(scores, {heads[0], heads[1]});
      const ValueId y = g.emit1(context, {s, heads[2]});
      const RunResult result = run_graph(g, {{x, encode(packed, dtype)}}, {s, y});
      EXPECT_EQ(copies(result), 0);
      const Tensor expected_s = matmul_reference(scores, {matrices[0], matrices[1]})[0];
      const Tensor got_s = decode(result.outputs[0], g.type(s));
      expect_close("scores", got_s, expected_s, dtype, dtype, {.terms = d});
      expect_close("context", decode(result.outputs[1], g.type(y)),
                   matmul_reference(context, {got_s, matrices[2]})[0], dtype, dtype, {.terms = t});
    }
  }
}

TEST(Matmul, RefusesInnerSizesThatDiffer) {
  EXPECT_THROW(make_node(Matmul{}, {{DType::kF32, {2, 3}}, {DType::kF32, {4, 5}}}), Error);
}

}  // namespace
}  // namespace assay::test
