// Each op at shapes of the models, with GFLOP/s and GB/s of the algorithm (not of the
// implementation's detours).
//
//   ops_bench --benchmark_filter=conv2d/resnet18
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "sdk/backend/cpu/device.h"
#include "sdk/graph/elementwise.h"
#include "sdk/runtime/program.h"

namespace assay::bench {
namespace {

constexpr int kThreads = 2;

// A graph of one op on inputs of these types.
struct OpBench {
  std::string name;
  Op op;
  std::vector<ValueType> inputs;
};

void run(benchmark::State& state, const OpBench& bench) {
  const auto backend = cpu::make_backend({.threads = kThreads});
  const VariableTable variables;
  Segments segments(*backend, variables);
  Graph graph;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < bench.inputs.size(); ++i) {
    inputs.push_back(
        graph.emit1(Input{cat("x", i), bench.inputs[i].dtype, bench.inputs[i].dims}, {}));
  }
  const auto outputs = graph.emit(bench.op, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) graph.outputs().push_back({cat("y", i), outputs[i]});
  const auto program = compile(std::move(graph), segments);
  const ProfileRow cost = program->profile(1).at(0);
  for (auto _ : state) program->run();
  state.SetLabel(cost.kernel);
  state.counters["GFLOP/s"] =
      benchmark::Counter(cost.flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      benchmark::Counter(cost.bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

struct ConvShape {
  const char* name;
  Dims x, w;
  int64_t stride, padding;
};

const std::vector<ConvShape> kConvShapes{
    {"cnn.block1", {128, 28, 28, 1}, {32, 5, 5, 1}, 1, 2},
    {"cnn.block2", {128, 14, 14, 32}, {64, 5, 5, 32}, 1, 2},
    {"resnet18.stem", {64, 32, 32, 3}, {64, 3, 3, 3}, 1, 1},
    {"resnet18.layer1", {64, 32, 32, 64}, {64, 3, 3, 64}, 1, 1},
    {"resnet18.layer2.down", {64, 32, 32, 64}, {128, 1, 1, 64}, 2, 0},
    {"resnet18.layer2", {64, 16, 16, 128}, {128, 3, 3, 128}, 1, 1},
    {"resnet50.layer3.expand", {16, 14, 14, 256}, {1024, 1, 1, 256}, 1, 0},
    {"resnet50.layer4.expand", {16, 7, 7, 512}, {2048, 1, 1, 512}, 1, 0},
    {"resnet18.layer3", {64, 8, 8, 256}, {256, 3, 3, 256}, 1, 1},
    {"resnet18.layer4", {64, 4, 4, 512}, {512, 3, 3, 512}, 1, 1},
};

void add_convolutions(std::vector<OpBench>& list, DType dtype) {
  for (const ConvShape& s : kConvShapes) {
    const ConvGeometry g{.stride = {s.stride, s.stride},
                         .pad_begin = {s.padding, s.padding},
                         .pad_end = {s.padding, s.padding}};
    const int64_t rows = (s.x[1] + 2 * s.padding - s.w[1]) / s.stride + 1;
    const Dims y{s.x[0], rows, rows, s.w[0]};
    const std::string suffix = cat("/", s.name, "/", dtype);
    list.push_back({"conv2d" + suffix, Conv2d{.geometry = g}, {{dtype, s.x}, {dtype, s.w}}});
    list.push_back(
        {"conv2d_grad_data" + suffix, Conv2dGradData{g, s.x}, {{dtype, y}, {dtype, s.w}}});
    list.push_back({"conv2d_grad_weight" + suffix,
                    Conv2dGradWeight{.geometry = g, .w_dims = s.w},
                    {{dtype, s.x}, {dtype, y}}});
  }
}

void add_normalisations(std::vector<OpBench>& list, DType dtype) {
  for (const Dims& x :
       {Dims{128, 28, 28, 32}, Dims{64, 32, 32, 64}, Dims{64, 8, 8, 256}, Dims{64, 4, 4, 512}}) {
    const ValueType data{dtype, x};
    const ValueType channel{DType::kF32, {x.back()}};
    const std::string suffix = cat("/", to_text(x), "/", dtype);
    list.push_back({"batch_norm_relu" + suffix,
                    BatchNorm{.activation = ActivationKind::kRelu},
                    {data, channel, channel}});
    list.push_back({"batch_norm_add_relu" + suffix,
                    BatchNorm{.activation = ActivationKind::kRelu, .has_residual = true},
                    {data, channel, channel, data}});
    list.push_back({"batch_norm_grad_relu" + suffix,
                    BatchNormGrad{.activation = ActivationKind::kRelu},
                    {data, channel, channel, channel, channel, data}});
  }
}

void add_others(std::vector<OpBench>& list, DType dtype) {
  const ValueType image{dtype, {128, 28, 28, 32}};
  const ValueType pooled{dtype, {128, 14, 14, 32}};
  const std::string suffix = cat("/", dtype);
  list.push_back({"max_pool" + suffix, MaxPool{}, {image}});
  list.push_back({"max_pool_grad" + suffix, MaxPoolGrad{}, {image, pooled}});
  list.push_back({"add" + suffix, Pointwise{add_code(), {}}, {image, image}});
  list.push_back({"matmul/128x3136x256" + suffix,
                  Matmul{.transpose_b = true, .dtype = dtype},
                  {{dtype, {128, 3136}}, {dtype, {256, 3136}}}});
  const ValueType scalar{DType::kF32, {}};
  const ValueType weights{DType::kF32, {11000000}};
  if (dtype != DType::kF32) return;
  list.push_back({"sgd_momentum/11M",
                  SgdUpdate{.momentum = 0.9f},
                  {scalar, scalar, scalar, weights, weights, weights}});
  list.push_back({"adam/11M",
                  AdamUpdate{},
                  {scalar, scalar, scalar, {DType::kI64, {}}, weights, weights, weights, weights}});
  list.push_back({"gradient_norm/11M", GradientNorm{}, {scalar, weights}});
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay;
  benchmark::Initialize(&argc, argv);
  std::vector<bench::OpBench> list;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    bench::add_convolutions(list, dtype);
    bench::add_normalisations(list, dtype);
    bench::add_others(list, dtype);
  }
  for (const bench::OpBench& entry : list) {
    benchmark::RegisterBenchmark(entry.name.c_str(),
                                 [&entry](benchmark::State& state) { bench::run(state, entry); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
