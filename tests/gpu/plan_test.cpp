// Golden plans for an H200, made without one: kernels, scratch and memory of each model's step and
// prediction. After a change that is meant: ASSAY_UPDATE_GOLDEN=1 cuda_plan_test, and read the
// diff.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "models/models.h"
#include "sdk/backend/cuda/plan_only.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"

namespace assay::train {
namespace {

struct PlanCase {
  std::string architecture, config, precision;
  std::optional<int64_t> sequence_length = std::nullopt;
};
std::ostream& operator<<(std::ostream& out, const PlanCase& c) {
  return out << c.architecture << " " << c.precision;
}

void compare_with_golden(const std::string& name, const Program& program) {
  const std::string path =
      std::string(ASSAY_SOURCE_DIR) + "/tests/golden/plans/h200/" + name + ".txt";
  const MemoryReport& memory = program.memory();
  const std::string text =
      cat(program.plan_text(), "arena ", memory.arena_bytes, " of ", memory.separate_bytes,
          " bytes, inputs ", memory.input_bytes, ", constants ", memory.constant_bytes, "\n");
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << "no golden file " << path;
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << path;
}

class H200Plan : public testing::TestWithParam<PlanCase> {};

TEST_P(H200Plan, StepAndPrediction) {
  const PlanCase& c = GetParam();
  const auto instance = std::make_shared<ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(c.architecture, c.config)),
      std::shared_ptr<Backend>(cuda::make_plan_only_backend(Target::h200())));
  instance->mark_initialized();
  TrainerConfig config;
  config.batch_size = 8;
  config.precision = c.precision;
  config.optimizer.name = "sgd";
  config.optimizer.learning_rate = 0.1;
  config.optimizer.momentum = 0.9;
  config.sequence_length = c.sequence_length;
  Trainer trainer(instance, config);
  const std::string name = cat(c.architecture, ".", c.precision);
  compare_with_golden(name + ".step", trainer.step_program());
  const Predictor predictor(
      *instance, {.precision = parse_precision(c.precision), .sequence_length = c.sequence_length});
  compare_with_golden(name + ".predict", *PredictorSlot(predictor).prepare(8));
}

INSTANTIATE_TEST_SUITE_P(
    Models, H200Plan,
    testing::Values(PlanCase{"cnn", R"({"dropout": 0.5})", "fp32"},
                    PlanCase{"resnet18", "", "tf32"}, PlanCase{"resnet18", "", "amp-fp16"},
                    PlanCase{"resnet18", "", "amp-bf16"}, PlanCase{"resnet50", "", "fp32"},
                    PlanCase{"resnet50", "", "tf32"}, PlanCase{"resnet50", "", "amp-fp16"},
                    PlanCase{"unet_medical", "", "tf32"}, PlanCase{"unet_medical", "", "amp-fp16"},
                    PlanCase{"electra_base_qa", R"({"layers": 2, "version": "2.0"})", "amp-fp16",
                             384}),
    [](const auto& param) {
      std::string name = param.param.architecture + "_" + param.param.precision;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

std::string kernel_of(const Matmul& p) {
  const DType data = p.dtype;
  Graph graph;
  std::vector<ValueId> inputs{graph.emit1(Input{"a", data, {64, 128}}, {}),
                              graph.emit1(Input{"b", data, {128, 256}}, {})};
  if (p.has_bias) inputs.push_back(graph.emit1(Input{"bias", DType::kF32, {256}}, {}));
  const auto outputs = graph.emit(p, inputs);
  const auto backend = cuda::make_plan_only_backend(Target::h200());
  return backend->plan(graph, graph.value(outputs[0]).producer).kernel;
}

// By bytes: sdk/decisions/0013.
TEST(H200Plan, ActivationsOfProductsThatAreKept) {
  Matmul p{.activation = ActivationKind::kGeluTanh, .dtype = DType::kBf16, .keep_pre = true};
  EXPECT_EQ(kernel_of(p), "cublaslt:bf16+gelu_tanh");
  p.activation = ActivationKind::kGelu;
  EXPECT_EQ(kernel_of(p), "cublaslt:bf16 own:pointwise");
  p.has_bias = true;
  EXPECT_EQ(kernel_of(p), "cublaslt:bf16 own:epilogue");
  p.dtype = DType::kF32, p.activation = ActivationKind::kGeluTanh;
  EXPECT_EQ(kernel_of(p), "cublaslt:f32+bias+gelu_tanh");
  p.activation = ActivationKind::kSwish;
  EXPECT_EQ(kernel_of(p), "cublaslt:f32+bias own:pointwise");
}

}  // namespace
}  // namespace assay::train
