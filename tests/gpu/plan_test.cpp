// Golden plans for an H200, made by cuDNN itself without one: kernels, workspaces and memory of
// each model's step and prediction. Driver and compiler are needed for attention: planning_driver.c
// stands in for the one. After a change that is meant: ASSAY_UPDATE_GOLDEN=1
// cuda_plan_test, and read the diff. Needs the CUDA plug-in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

#include "models/models.h"
#include "sdk/backend/cuda/loader.h"
#include "sdk/base/proto_json.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"
#include "sdk/train/trainer_config.h"
#include "tests/ops/convolution_shapes.h"

namespace assay::train {
namespace {

constexpr const char* kMomentum = R"({"name": "sgd", "learning_rate": 0.1, "momentum": 0.9})";
constexpr const char* kAdamW = R"({"name": "adamw", "learning_rate": 0.001, "clip_norm": 1,
    "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0}], "weight_decay": 0.01})";
constexpr const char* kLamb = R"({"name": "lamb", "learning_rate": 0.001, "clip_norm": 1,
    "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0, "no_trust_ratio": true}],
    "weight_decay": 0.01})";

struct PlanCase {
  std::string architecture, config, precision;
  std::optional<int64_t> sequence_length = std::nullopt;
  std::string optimizer = kMomentum, variant = "";  // of the golden files' names

  std::string name() const {
    return cat(architecture, ".", precision, variant.empty() ? "" : ".", variant);
  }
};
std::ostream& operator<<(std::ostream& out, const PlanCase& c) { return out << c.name(); }

// The plug-in's planner: it is what links cuDNN.
class Planning : public testing::Test {
 protected:
  void SetUp() override {
#if !defined(ASSAY_WITH_CUDA)
    GTEST_SKIP() << "built without the CUDA plug-in, whose cuDNN does the planning";
#endif
  }
};

// Without what another release of cuDNN may choose differently: engines, their workspaces, and
// where that puts everything else.
std::string without_engines(const std::string& text) {
  static const std::regex kEngine(R"(cudnn:eng\w*(=\w+)*( workspace=\d+)?)"), kAddress(R"( @\d+)"),
      kArena(R"(arena .*)");
  return std::regex_replace(
      std::regex_replace(std::regex_replace(text, kEngine, "cudnn"), kAddress, ""), kArena, "");
}

void compare_with_golden(const std::string& name, const Program& program) {
  const std::string path =
      std::string(ASSAY_SOURCE_DIR) + "/tests/golden/plans/h200/" + name + ".txt";
  const MemoryReport& memory = program.memory();
  const std::string planner = program.backend().info().driver + "\n";
  const std::string text =
      cat(planner, program.plan_text(), "arena ", memory.arena_bytes, " of ", memory.separate_bytes,
          " bytes, inputs ", memory.input_bytes, ", constants ", memory.constant_bytes, "\n");
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << "no golden file " << path;
  const std::string golden(std::istreambuf_iterator<char>(file), {});
  if (golden.starts_with(planner)) {
    EXPECT_EQ(text, golden) << path;
  } else {
    const auto rest = [](const std::string& plan) {
      return without_engines(plan.substr(plan.find('\n')));
    };
    EXPECT_EQ(rest(text), rest(golden)) << path << ", planned by another cuDNN: " << planner;
  }
}

class H200Plan : public Planning, public testing::WithParamInterface<PlanCase> {};

TEST_P(H200Plan, StepAndPrediction) {
  const PlanCase& c = GetParam();
  const auto instance = std::make_shared<ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(c.architecture, c.config)),
      std::shared_ptr<Backend>(cuda::make_planner(Target::h200())));
  instance->mark_initialized();
  TrainerConfig config;
  parse_json(cat(R"({"precision": ")", c.precision, R"(", "optimizer": )", c.optimizer, "}"),
             config, "the case");
  config.batch_size = 8;
  config.sequence_length = c.sequence_length;
  Trainer trainer(instance, config);
  compare_with_golden(c.name() + ".step", trainer.step_program());
  const Predictor predictor(
      *instance, {.precision = parse_precision(c.precision), .sequence_length = c.sequence_length});
  compare_with_golden(c.name() + ".predict", *PredictorSlot(predictor).prepare(8));
}

INSTANTIATE_TEST_SUITE_P(
    Models, H200Plan,
    testing::Values(
        PlanCase{"cnn", R"({"dropout": 0.5})", "fp32"}, PlanCase{"resnet18", "", "tf32"},
        PlanCase{"resnet18", "", "amp-fp16"}, PlanCase{"resnet18", "", "amp-bf16"},
        PlanCase{"resnet50", "", "fp32"}, PlanCase{"resnet50", "", "tf32"},
        PlanCase{"resnet50", "", "amp-fp16"}, PlanCase{"resnet50", "", "amp-bf16"},
        PlanCase{"unet_medical", "", "fp32"}, PlanCase{"unet_medical", "", "tf32"},
        PlanCase{"unet_medical", "", "amp-fp16"}, PlanCase{"unet_medical", "", "amp-bf16"},
        PlanCase{"bert_base", R"({"layers": 2})", "amp-fp16", 128},
        PlanCase{"electra_base_pretraining", R"({"layers": 2, "generator_layers": 2})", "amp-fp16",
                 128},
        PlanCase{"efficientdet_d0", "", "amp-fp16"},
        PlanCase{"electra_base_qa", R"({"layers": 2, "version": "2.0"})", "amp-fp16", 384},
        PlanCase{"bert_base", R"({"layers": 1})", "tf32", 512, kLamb, "long"},
        PlanCase{"bert_base", R"({"layers": 1, "head": "span"})", "amp-bf16", 384, kAdamW, "span"},
        PlanCase{"electra_base_pretraining", R"({"layers": 1, "generator_layers": 1})", "amp-bf16",
                 512, kLamb, "long"}),
    [](const auto& param) {
      std::string name = param.param.name();
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

// ---- Single nodes ----

class Kernels : public Planning {};

std::string kernel_of(Backend& backend, const Op& op, const std::vector<ValueType>& inputs,
                      bool tf32 = false) {
  Graph graph;
  graph.set_tf32(tf32);
  std::vector<ValueId> values;
  for (const ValueType& type : inputs)
    values.push_back(graph.emit1(Input{cat("x", values.size()), type.dtype, type.dims}, {}));
  const auto outputs = graph.emit(op, values);
  return backend.plan(graph, graph.value(outputs[0]).producer).kernel;
}

// Where cuDNN's sums may be used, whose order changes from run to run.
Target without_determinism(Target target) {
  target.deterministic = false;
  return target;
}

Target a100() { return {Target::Kind::kCuda, "NVIDIA A100-SXM4-80GB", 80, true, true}; }

bool is_planned(const std::string& kernel) { return kernel.find("cudnn:eng") != std::string::npos; }

// Compiled kernels of cuDNN for every shape that the tests of the ops use, in every precision:
// there is nothing of our own that could stand in. What is joined to a convolution costs no pass of
// its own: residual, bias and relu stand in the order, and the bias in the type, that they know.
void expect_every_shape_is_planned(Backend& backend) {
  for (const test::ConvolutionShape& s : test::convolution_shapes()) {
    const Dims y_dims = test::output_of(s.g, s.x, s.w);
    for (const auto& type : {std::pair(DType::kF32, false), std::pair(DType::kF32, true),
                             std::pair(DType::kF16, false), std::pair(DType::kBf16, false)}) {
      const DType data = type.first;
      const bool tf32 = type.second;
      const ValueType x{data, s.x}, w{data, s.w}, y{data, y_dims}, bias{data, {s.w[0]}};
      const std::string name = cat(s.name, " ", to_text(data), tf32 ? " tf32" : "");
      const auto kernel = [&](const Op& op, const std::vector<ValueType>& inputs) {
        return kernel_of(backend, op, inputs, tf32);
      };
      const std::string joined =
          kernel(Conv2d{s.g, true, true, ActivationKind::kRelu}, {x, w, bias, y});
      EXPECT_TRUE(is_planned(joined) && joined.find("own:epilogue") == std::string::npos)
          << name << ": " << joined;
      EXPECT_TRUE(is_planned(kernel(Conv2d{.geometry = s.g}, {x, w}))) << name;
      EXPECT_TRUE(is_planned(kernel(Conv2dGradData{s.g, s.x}, {y, w}))) << name;
      EXPECT_TRUE(is_planned(kernel(Conv2dGradWeight{.geometry = s.g, .w_dims = s.w}, {x, y})))
          << name;
    }
  }
}

TEST_F(Kernels, OfEveryConvolutionForAnH200) {
  expect_every_shape_is_planned(*cuda::make_planner(Target::h200()));
}

TEST_F(Kernels, OfEveryConvolutionForAnA100) {
  expect_every_shape_is_planned(*cuda::make_planner(a100()));
}

// With what a normalisation sums up taken along: of ResNet-50 all but the first, 256 images of
// them.
TEST_F(Kernels, OfConvolutionsThatKeepSums) {
  struct Shape {
    int64_t size, channels, filters, window, stride;
  };
  for (const Target& target : {Target::h200(), a100()}) {
    const auto backend = cuda::make_planner(without_determinism(target)),
               deterministic = cuda::make_planner(target);
    for (const Shape& s :
         {Shape{56, 64, 64, 1, 1},    Shape{56, 64, 64, 3, 1},     Shape{56, 64, 256, 1, 1},
          Shape{56, 256, 64, 1, 1},   Shape{56, 256, 128, 1, 1},   Shape{56, 128, 128, 3, 2},
          Shape{28, 128, 512, 1, 1},  Shape{56, 256, 512, 1, 2},   Shape{28, 512, 128, 1, 1},
          Shape{28, 128, 128, 3, 1},  Shape{28, 512, 256, 1, 1},   Shape{28, 256, 256, 3, 2},
          Shape{14, 256, 1024, 1, 1}, Shape{28, 512, 1024, 1, 2},  Shape{14, 1024, 256, 1, 1},
          Shape{14, 256, 256, 3, 1},  Shape{14, 1024, 512, 1, 1},  Shape{14, 512, 512, 3, 2},
          Shape{7, 512, 2048, 1, 1},  Shape{14, 1024, 2048, 1, 2}, Shape{7, 2048, 512, 1, 1},
          Shape{7, 512, 512, 3, 1}}) {
      const Conv2d op{.geometry = test::padded(s.window / 2, s.stride), .keep_sums = true};
      const std::vector<ValueType> types{
          {DType::kF16, {256, s.size, s.size, s.channels}},
          {DType::kF16, {s.filters, s.window, s.window, s.channels}}};
      EXPECT_TRUE(kernel_of(*deterministic, op, types).ends_with(" own:norm_sums"));
      const std::string kernel = kernel_of(*backend, op, types);
      EXPECT_TRUE(is_planned(kernel) && kernel.find("own:") == std::string::npos)
          << target.name << ": " << s.size << " " << s.channels << " " << s.filters << ": "
          << kernel;
    }
  }
}

// The same of gradients, with all that is joined to them, where a device has kernels for it that
// leave no copy of the gradient in their work space: 256 images through ResNet-50's convolutions
// behind a normalisation, and through those that read the end of a block.
TEST_F(Kernels, OfGradientsThatSumUp) {
  struct Shape {
    int64_t size, channels, filters, window, stride;
  };
  const auto backend = cuda::make_planner(without_determinism(Target::h200()));
  const auto expect_joined = [&](const Shape& s, int64_t norms, bool addend, bool residual) {
    const Dims x{256, s.size, s.size, s.channels};
    const ValueType image{DType::kF16, x}, numbers{DType::kF32, {s.channels}};
    const ConvGeometry geometry = test::padded(s.window / 2, s.stride);
    const Dims w{s.filters, s.window, s.window, s.channels};
    std::vector<ValueType> inputs{{DType::kF16, test::output_of(geometry, x, w)}, {DType::kF16, w}};
    inputs.insert(inputs.end(), static_cast<size_t>(addend) + residual, image);
    for (int64_t i = 0; i < norms; ++i)
      inputs.insert(inputs.end(), {image, numbers, numbers, numbers, numbers});
    const std::string kernel =
        kernel_of(*backend, Conv2dGradNorm{geometry, 1e-5f, norms, addend, residual}, inputs);
    EXPECT_TRUE(is_planned(kernel) && kernel.find("own:") == std::string::npos)
        << to_text(x) << ", " << to_text(w) << ", " << norms << ": " << kernel;
    const size_t at = kernel.find("workspace=");
    ASSERT_NE(at, std::string::npos) << kernel;
    EXPECT_LT(std::stoull(kernel.substr(at + 10)), image.bytes() / 8) << kernel;
  };
  for (const Shape& s :
       {Shape{56, 64, 64, 3, 1}, Shape{56, 64, 256, 1, 1}, Shape{56, 128, 128, 3, 2},
        Shape{28, 128, 512, 1, 1}, Shape{28, 128, 128, 3, 1}, Shape{28, 256, 256, 3, 2},
        Shape{14, 256, 1024, 1, 1}, Shape{14, 256, 256, 3, 1}, Shape{14, 512, 512, 3, 2},
        Shape{7, 512, 2048, 1, 1}, Shape{7, 512, 512, 3, 1}})
    expect_joined(s, 1, false, false);
  for (const Shape& s :
       {Shape{56, 256, 64, 1, 1}, Shape{56, 256, 128, 1, 1}, Shape{28, 512, 128, 1, 1},
        Shape{28, 512, 256, 1, 1}, Shape{14, 1024, 256, 1, 1}, Shape{14, 1024, 512, 1, 1},
        Shape{7, 2048, 512, 1, 1}}) {
    expect_joined(s, 1, true, true);
    expect_joined(s, 2, true, false);
  }
}

// With relu's derivative and the gradient of a bias taken along: of U-Net all but the last, which
// has two filters, 8 images of them.
TEST_F(Kernels, OfDataGradientsThatKeepSums) {
  struct Shape {
    int64_t size, channels;
  };
  const auto backend = cuda::make_planner(without_determinism(Target::h200()));
  for (const Shape& s :
       {Shape{390, 64}, Shape{198, 128}, Shape{102, 256}, Shape{54, 512}, Shape{30, 1024},
        Shape{66, 512}, Shape{138, 256}, Shape{282, 128}, Shape{570, 64}}) {
    const Dims x{8, s.size, s.size, s.channels}, y{8, s.size - 2, s.size - 2, s.channels};
    const Conv2dGradData op{{}, x, ActivationKind::kRelu, true};
    const std::vector<ValueType> types{
        {DType::kF16, y}, {DType::kF16, {s.channels, 3, 3, s.channels}}, {DType::kF16, x}};
    EXPECT_TRUE(
        kernel_of(*cuda::make_planner(Target::h200()), op, types).ends_with(" own:relu_sums"));
    const std::string kernel = kernel_of(*backend, op, types);
    EXPECT_TRUE(is_planned(kernel) && kernel.find("own:") == std::string::npos)
        << s.size << " " << s.channels << ": " << kernel;
  }
}

// On tensor cores, which want a GiB for it here, not by a kernel further down the list that needs
// less.
TEST_F(Kernels, OfAFirstLayerGetTheirWorkspace) {
  const ConvGeometry g{.stride = {2, 2}, .pad_begin = {3, 3}, .pad_end = {3, 3}};
  const auto backend = cuda::make_planner(Target::h200());
  const std::string kernel =
      kernel_of(*backend, Conv2dGradWeight{.geometry = g, .w_dims = {64, 7, 7, 3}},
                {{DType::kF32, {256, 224, 224, 3}}, {DType::kF32, {256, 112, 112, 64}}}, true);
  const size_t at = kernel.find(" workspace=");
  ASSERT_NE(at, std::string::npos) << kernel;
  EXPECT_GT(std::stoll(kernel.substr(at + 11)), int64_t{512} << 20) << kernel;
}

struct AttentionCase {
  int64_t heads, longest;
  DType data = DType::kF16;
  float rate = 0.1f;
  int64_t size = 64;
};
std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.heads << "x" << c.size << " at " << c.longest << ", " << to_text(c.data)
             << ", rate " << c.rate;
}

// Of an attention to 8 sequences, and of its gradient.
std::array<std::string, 2> kernels_of(Backend& backend, const AttentionCase& c) {
  const int64_t tokens = 8 * c.longest, hidden = c.heads * c.size;
  const ValueType qkv{c.data, {tokens, 3 * hidden}}, numbers{DType::kI32, {8}},
      context{c.data, {tokens, hidden}}, logsumexp{DType::kF32, {tokens, c.heads}};
  std::vector<ValueType> inputs{qkv, numbers, numbers},
      saved{qkv, numbers, numbers, context, logsumexp, context};
  if (c.rate > 0)
    for (auto* types : {&inputs, &saved}) types->push_back({DType::kI64, {}});
  return {kernel_of(backend, Attention{c.heads, 0.125f, c.longest, c.rate}, inputs),
          kernel_of(backend, AttentionGrad{c.heads, 0.125f, c.longest, c.rate}, saved)};
}

// BERT's and ELECTRA's at their lengths, in training and, without dropout, in predictions.
TEST_F(Kernels, OfAttentionOfTheModelsAreThoseOfCudnn) {
  const auto backend = cuda::make_planner(Target::h200());
  for (const DType data : {DType::kF16, DType::kBf16})
    for (const AttentionCase& c :
         {AttentionCase{12, 128, data}, AttentionCase{12, 384, data}, AttentionCase{12, 512, data},
          AttentionCase{4, 128, data}, AttentionCase{12, 384, data, 0}})
      for (const std::string& kernel : kernels_of(*backend, c))
        EXPECT_TRUE(is_planned(kernel)) << c << ": " << kernel;
}

// In f32, of heads that cuDNN refuses, and of an A100 with dropout: its gradient of sequences of
// different lengths is not deterministic, and own kernels draw other masks than its forward pass.
TEST_F(Kernels, OfOtherAttentionAreOwnOnes) {
  const auto h200 = cuda::make_planner(Target::h200());
  const auto a100 =
      cuda::make_planner({Target::Kind::kCuda, "NVIDIA A100-SXM4-80GB", 80, true, true});
  const std::array<std::string, 2> own{"own:attention", "own:attention"};
  EXPECT_EQ(kernels_of(*h200, {12, 128, DType::kF32}), own);
  EXPECT_EQ(kernels_of(*h200, {.heads = 3, .longest = 128, .size = 20}), own);
  EXPECT_EQ(kernels_of(*a100, {12, 128}), own);
  const auto without_dropout = kernels_of(*a100, {12, 128, DType::kF16, 0});
  EXPECT_TRUE(is_planned(without_dropout[0])) << without_dropout[0];
  EXPECT_EQ(without_dropout[1], own[1]);
}

TEST_F(Kernels, AreForDescribedDevicesOnly) {
  Target target = Target::h200();
  target.name = "NVIDIA H20";
  try {
    cuda::make_planner(target);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_STREQ(error.what(),
                 "no description of a NVIDIA H20 to plan for; there are: NVIDIA H200, NVIDIA "
                 "A100-SXM4-80GB");
  }
}

std::string kernel_of(const Matmul& p) {
  std::vector<ValueType> inputs{{p.dtype, {64, 128}}, {p.dtype, {128, 256}}};
  if (p.has_bias) inputs.push_back({DType::kF32, {256}});
  return kernel_of(*cuda::make_planner(Target::h200()), p, inputs);
}

// By bytes: sdk/decisions/0013.
TEST_F(Kernels, OfActivationsOfProductsThatAreKept) {
  Matmul p{.activation = ActivationKind::kGeluTanh, .dtype = DType::kBf16, .keep_pre = true};
  EXPECT_EQ(kernel_of(p), "cublaslt:bf16+gelu_tanh");
  p.activation = ActivationKind::kGelu;
  EXPECT_EQ(kernel_of(p), "cublaslt:bf16 own:pointwise");
  p.has_bias = true;
  EXPECT_EQ(kernel_of(p), "cublaslt:bf16 own:epilogue");
  p.dtype = DType::kF32, p.activation = ActivationKind::kGeluTanh;
  EXPECT_EQ(kernel_of(p), "cublaslt:f32+bias own:pointwise");
  p.activation = ActivationKind::kSwish;
  EXPECT_EQ(kernel_of(p), "cublaslt:f32+bias own:pointwise");
}

}  // namespace
}  // namespace assay::train
