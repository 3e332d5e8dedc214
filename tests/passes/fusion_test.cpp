// Each other fusion: text in, text out, and graphs where it must not fire. That fused and unfused
// graphs compute the same is tested on whole models (tests/train/trainer_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/verify.h"
#include "sdk/passes/fuse_bias_gradient.h"
#include "sdk/passes/fuse_epilogue.h"
#include "sdk/passes/fuse_norm.h"
#include "sdk/passes/fuse_pointwise.h"
#include "sdk/passes/fuse_squeeze.h"
#include "sdk/passes/join_casts.h"
#include "sdk/passes/lower_biases.h"
#include "sdk/passes/merge_equal_nodes.h"
#include "sdk/passes/pipeline.h"
#include "sdk/passes/precision.h"
#include "tests/harness/graph_text.h"
#include "tests/passes/run_pass.h"

namespace assay {
namespace {

using test::kConvNorm;
using test::kTrainNorm;
using test::run;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(FuseActivation, OnlyKindsWhoseGradientReadsTheOutput) {
  const std::string relu =
      run(fuse_activation,
          std::string(kConvNorm) +
              "%5 = pointwise(%2) {code=relu, dtype=none} : f32[2,4,4,3]\nreturn y=%5\n");
  EXPECT_THAT(relu, HasSubstr("activation=relu"));
  run(fuse_activation,
      std::string(kConvNorm) +
          "%5 = pointwise(%2) {code=gelu, dtype=none} : f32[2,4,4,3]\nreturn y=%5\n",
      false);
}

// What it is applied to is kept beside the result for those who read it too, and only for them.
TEST(FuseKeptActivation, KeepsWhatOthersRead) {
  for (const char* kind : {"gelu", "gelu_tanh", "swish"}) {
    const std::string text =
        cat(kConvNorm, "%5 = pointwise(%2) {code=", kind, ", dtype=none} : f32[2,4,4,3]\n");
    const std::string alone = run(fuse_kept_activation, text + "return y=%5\n");
    EXPECT_THAT(alone, HasSubstr(cat("activation=", kind, ", keep_pre=false")));
    const std::string kept =
        run(fuse_kept_activation, cat(text, "%6 = pointwise(%2, %0) {code=", kind,
                                      "_grad, dtype=none} : f32[2,4,4,3]\nreturn y=%5, dx=%6\n"));
    EXPECT_THAT(kept, HasSubstr(cat("activation=", kind, ", keep_pre=true")));
    EXPECT_THAT(kept, HasSubstr(": f32[2,4,4,3], f32[2,4,4,3]"));
    EXPECT_THAT(kept, HasSubstr("return y=%2, dx=%4"));
  }
  run(fuse_kept_activation,
      std::string(kConvNorm) +
          "%5 = pointwise(%2) {code=relu, dtype=none} : f32[2,4,4,3]\nreturn y=%5\n",
      false);
}

TEST(FuseProductCast, KeepsTheAccumulatorsBits) {
  const std::string text =
      "%0 = input() {name=\"x\", dtype=bf16, dims=[4,3]} : bf16[4,3]\n"
      "%1 = input() {name=\"dy\", dtype=bf16, dims=[4,2]} : bf16[4,2]\n"
      "%2 = matmul(%1, %0) {transpose_a=true, transpose_b=false, has_bias=false, activation=none, "
      "dtype=bf16, keep_pre=false} : bf16[2,3]\n"
      "%3 = pointwise(%2) {code=cast, dtype=f32} : f32[2,3]\n";
  const std::string out = run(fuse_product_cast, text + "return dw=%3\n");
  EXPECT_THAT(out, HasSubstr("dtype=f32, keep_pre=false} : f32[2,3]"));
  EXPECT_THAT(out, Not(HasSubstr("code=cast")));
  run(fuse_product_cast, text + "return dw=%3, raw=%2\n", false);
  run(fuse_gradient_cast, text + "return dw=%3\n", false);
}

const char* const kWeightGradient =
    "%0 = input() {name=\"x\", dtype=bf16, dims=[2,4,4,3]} : bf16[2,4,4,3]\n"
    "%1 = input() {name=\"dy\", dtype=bf16, dims=[2,4,4,5]} : bf16[2,4,4,5]\n"
    "%2, %3 = conv2d_grad_weight(%0, %1) {stride=[1,1], pad_begin=[0,0], pad_end=[0,0], "
    "dilation=[1,1], groups=1, w_dims=[5,1,1,3], dtype=bf16, has_bias=true} : bf16[5,1,1,3], "
    "f32[5]\n"
    "%4 = pointwise(%2) {code=cast, dtype=f32} : f32[5,1,1,3]\n";

TEST(FuseGradientCast, OfAConvolutionKeepsTheGradientOfItsBias) {
  const std::string text = cat(kWeightGradient, "return dw=%4, dbias=%3\n");
  const std::string out = run(fuse_gradient_cast, text);
  EXPECT_THAT(out, HasSubstr("dtype=f32, has_bias=true} : f32[5,1,1,3], f32[5]"));
  EXPECT_THAT(out, Not(HasSubstr("code=cast")));
  run(fuse_product_cast, text, false);
}

TEST(FuseGradientCast, IsNotForGpus) {
  const auto has = [](const Target& target) {
    const auto passes = training_passes(target);
    return std::any_of(passes.begin(), passes.end(),
                       [](const Pass& pass) { return pass.name == "fuse_gradient_cast"; });
  };
  EXPECT_TRUE(has(Target{}));
  EXPECT_FALSE(has(Target::h200()));
}

TEST(FuseBatchNormGradientSums, IsNotForDeterminism) {
  Target target = Target::h200();
  const auto first = [&] { return gpu_passes(target).front().name; };
  EXPECT_NE(first(), "fuse_batch_norm_gradient_sums");
  target.deterministic = false;
  EXPECT_EQ(first(), "fuse_batch_norm_gradient_sums");
  target.compute_capability = 80;
  EXPECT_NE(first(), "fuse_batch_norm_gradient_sums");
}

TEST(SumGradientsInF32, CastsTheTermsOfASharedWeight) {
  std::string text =
      "%0 = input() {name=\"x\", dtype=bf16, dims=[4,3]} : bf16[4,3]\n"
      "%1 = input() {name=\"dy\", dtype=bf16, dims=[4,2]} : bf16[4,2]\n";
  for (const char* id : {"%2", "%3", "%4"})
    text += cat(id,
                " = matmul(%1, %0) {transpose_a=true, transpose_b=false, has_bias=false, "
                "activation=none, dtype=bf16, keep_pre=false} : bf16[2,3]\n");
  text +=
      "%5 = pointwise(%2, %3) {code=add, dtype=none} : bf16[2,3]\n%6 = "
      "pointwise(%5, %4) {code=add, dtype=none} : bf16[2,3]\n"
      "%7 = pointwise(%6) {code=cast, dtype=f32} : f32[2,3]\n";
  const std::string out = run(sum_gradients_in_f32, text + "return dw=%7\n");
  EXPECT_THAT(out, Not(ContainsRegex("code=add[^\n]*bf16")));
  EXPECT_THAT(out, ContainsRegex("code=add[^\n]*f32"));
  EXPECT_THAT(run(fuse_product_cast, out), Not(HasSubstr("code=cast")));
  run(sum_gradients_in_f32, text + "return dw=%7, raw=%5\n", false);
}

const char* const kConvGradient =
    "%0 = input() {name=\"dy\", dtype=f32, dims=[2,4,4,3]} : f32[2,4,4,3]\n"
    "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[3,1,1,5]} : f32[3,1,1,5]\n"
    "%2 = input() {name=\"saved\", dtype=f32, dims=[2,4,4,5]} : f32[2,4,4,5]\n"
    "%3 = conv2d_grad_data(%0, %1) {stride=[1,1], pad_begin=[0,0], pad_end=[0,0], "
    "dilation=[1,1], groups=1, x_dims=[2,4,4,5], activation=none, keep_sums=false} : "
    "f32[2,4,4,5]\n";

TEST(FuseActivationGrad, JoinsTheMaskToADataGradient) {
  const std::string mask = std::string(kConvGradient) +
                           "%4 = pointwise(%2, %3) {code=relu_grad, dtype=none} : "
                           "f32[2,4,4,5]\n";
  const std::string out = run(fuse_activation_grad, mask + "return dx=%4\n");
  EXPECT_THAT(out, HasSubstr("conv2d_grad_data(%0, %1, %2)"));
  EXPECT_THAT(out, HasSubstr("activation=relu"));
  EXPECT_THAT(out, Not(HasSubstr("pointwise(")));
  run(fuse_activation_grad, mask + "return dx=%4, unmasked=%3\n", false);
}

// A data gradient through relu into a convolution with a bias; `type` and channels of the images.
std::string bias_gradient_of(const std::string& type, const std::string& channels,
                             const std::string& activation) {
  const std::string image = "2,4,4," + channels, filters = channels + ",1,1," + channels;
  const auto typed = [&](const std::string& dims) { return cat(type, "[", dims, "]"); };
  const auto input = [&](const char* id_and_name, const std::string& dims) {
    const std::string text = id_and_name;
    return cat("%", text[0], " = input() {name=\"", text.substr(1), "\", dtype=", type, ", dims=[",
               dims, "]} : ", typed(dims), "\n");
  };
  const std::string geometry =
      "stride=[1,1], pad_begin=[0,0], pad_end=[0,0], dilation=[1,1], groups=1, ";
  return cat(input("0dy", image), input("1saved", image), input("2x", image), input("3w", filters),
             "%4 = conv2d_grad_data(%0, %3, %1) {", geometry, "x_dims=[", image,
             "], activation=", activation, ", keep_sums=false} : ", typed(image),
             "\n%5, %6 = conv2d_grad_weight(%2, %4) {", geometry, "w_dims=[", filters,
             "], dtype=", type, ", has_bias=true} : ", typed(filters), ", f32[", channels,
             "]\nreturn dw=%5, dbias=%6\n");
}

TEST(FuseBiasGradient, TakesItFromTheDataGradientThatMakesDy) {
  const std::string out = run(fuse_bias_gradient, bias_gradient_of("f16", "8", "relu"));
  EXPECT_THAT(out, ContainsRegex("%4, %5 = conv2d_grad_data\\(.*keep_sums=true} : "
                                 "f16\\[2,4,4,8\\], f32\\[8\\]\n"));
  EXPECT_THAT(out, ContainsRegex("%6 = conv2d_grad_weight\\(%2, %4\\) .*has_bias=false}"));
  EXPECT_THAT(out, HasSubstr("return dw=%6, dbias=%5\n"));
  run(fuse_bias_gradient, out, false);
}

TEST(FuseBiasGradient, LeavesOtherActivationsAlone) {
  run(fuse_bias_gradient, bias_gradient_of("f16", "8", "tanh"), false);
  run(fuse_bias_gradient, bias_gradient_of("f32", "5", "tanh"), false);
}

TEST(FuseBiasGradient, TakesItFromTheActivationsGradient) {
  const auto text = [](std::string_view code, std::string_view sum) {
    return cat(
        "%0 = input() {name=\"saved\", dtype=f16, dims=[6,8]} : f16[6,8]\n"
        "%1 = input() {name=\"dy\", dtype=f16, dims=[6,8]} : f16[6,8]\n"
        "%2 = pointwise(%0, %1) {code=",
        code, ", dtype=none} : f16[6,8]\n%3 = pointwise(%2) {code=tanh, dtype=none} : f16[6,8]\n",
        sum, "return dx=%3, dbias=%4\n");
  };
  const std::string columns = "%4 = sum_to(%2) {dims=[8]} : f32[8]\n";
  const std::string out = run(fuse_bias_gradient, text("gelu_grad", columns));
  EXPECT_THAT(out, HasSubstr("%2, %3 = activation_grad_sums(%0, %1) {activation=gelu} : f16[6,8], "
                             "f32[8]\n"));
  EXPECT_THAT(out, Not(HasSubstr("sum_to")));
  EXPECT_THAT(out, ContainsRegex("return dx=%4, dbias=%3\n"));
  run(fuse_bias_gradient, text("add", columns), false);
  std::string view = text("gelu_grad", columns);  // dy, as a part of wider rows
  view.replace(view.find("%1 = input() {name=\"dy\", dtype=f16, dims=[6,8]} : f16[6,8]"), 58,
               "%5 = input() {name=\"dy\", dtype=f16, dims=[6,16]} : f16[6,16]\n"
               "%1 = slice(%5) {begin=[0,8], dims=[6,8]} : f16[6,8]");
  run(fuse_bias_gradient, view, false);
  run(fuse_bias_gradient, text("gelu_grad", "%4 = sum_to(%2) {dims=[1]} : f32[1]\n"), false);
  run(fuse_bias_gradient, text("gelu_grad", "%4 = sum_to(%2, %0) {dims=[8]} : f32[8]\n"), false);
}

// The gradient of a layer normalisation behind dropout, of a sum.
std::string norm_gradient(const std::string& more) {
  const std::string image = "f16[6,8]", input = " = input() {name=\"";
  return "%0" + input + "z\", dtype=f16, dims=[6,8]} : f16[6,8]\n%1" + input +
         "g\", dtype=f32, dims=[8]} : f32[8]\n%2" + input +
         "m\", dtype=f32, dims=[6]} : f32[6]\n%3" + input +
         "a\", dtype=f16, dims=[6,8]} : f16[6,8]\n%4" + input +
         "b\", dtype=f16, dims=[6,8]} : f16[6,8]\n"
         "%5 = step_scalar() {kind=random_step} : i64[]\n"
         "%6 = pointwise(%3, %4) {code=add, dtype=none} : f16[6,8]\n"
         "%7, %8, %9, %10 = layer_norm_grad(%0, %1, %2, %2, %6, %5) {rate=0.1, seed=1, stream=2, "
         "has_addend=false, keep_sums=false} : f16[6,8], f32[8], f32[8], f16[6,8]\n" +
         more;
}

TEST(FuseBiasGradient, TakesItFromTheNormalisationsGradient) {
  const std::string out =
      run(fuse_bias_gradient, norm_gradient("%11 = sum_to(%10) {dims=[8]} : f32[8]\nreturn dz=%7, "
                                            "dx=%10, dbias=%11\n"));
  EXPECT_THAT(out, HasSubstr("keep_sums=true} : f16[6,8], f32[8], f32[8], f16[6,8], f32[8]\n"));
  EXPECT_THAT(out, Not(HasSubstr("sum_to")));
  // What arrives at the residual is nobody's bias.
  run(fuse_bias_gradient,
      norm_gradient("%11 = sum_to(%7) {dims=[8]} : f32[8]\nreturn dx=%10, sums=%11\n"), false);
}

TEST(FuseLayerNormGradientAdd, ReadsTheTerms) {
  const std::string out =
      run(fuse_layer_norm_gradient_add, norm_gradient("return dz=%7, dx=%10\n"));
  EXPECT_THAT(out,
              ContainsRegex("layer_norm_grad\\(%0, %1, %2, %2, %3, %5, %4\\) .*has_addend=true"));
  EXPECT_THAT(out, Not(HasSubstr("code=add")));
  run(fuse_layer_norm_gradient_add, norm_gradient("return dz=%7, dx=%10, sum=%6\n"), false);
}

// A pooled tensor %0 that stands, cropped, in a concatenation whose gradient is %2.
const char* const kPoolGradient =
    "%0 = input() {name=\"x\", dtype=f32, dims=[2,8,8,3]} : f32[2,8,8,3]\n"
    "%1 = input() {name=\"dy\", dtype=f32, dims=[2,4,4,3]} : f32[2,4,4,3]\n"
    "%2 = input() {name=\"d\", dtype=f32, dims=[2,6,4,7]} : f32[2,6,4,7]\n"
    "%3 = max_pool_grad(%0, %1) {window=[2,2], stride=[2,2], pad_begin=[0,0], pad_end=[0,0], "
    "has_addend=false, activation=none} : f32[2,8,8,3]\n"
    "%4 = slice(%2) {begin=[0,0,0,4], dims=[2,6,4,3]} : f32[2,6,4,3]\n"
    "%5 = slice_grad(%4) {begin=[0,1,2,0], x_dims=[2,8,8,3]} : f32[2,8,8,3]\n";

TEST(FuseActivationGrad, JoinsTheMaskToAPoolsGradientIfItReadsThePoolsInput) {
  const std::string pool = kPoolGradient;
  const std::string out =
      run(fuse_activation_grad,
          pool +
              "%6 = pointwise(%0, %3) {code=relu_grad, dtype=none} : f32[2,8,8,3]\n"
              "return dx=%6\n");
  EXPECT_THAT(out, HasSubstr("has_addend=false, activation=relu"));
  EXPECT_THAT(out, Not(HasSubstr("pointwise(")));
  run(fuse_activation_grad,
      pool +
          "%6 = pointwise(%5, %3) {code=relu_grad, dtype=none} : f32[2,8,8,3]\n"
          "return dx=%6\n",
      false);
  run(fuse_activation_grad,
      pool +
          "%6 = pointwise(%0, %3) {code=gelu_grad, dtype=none} : f32[2,8,8,3]\n"
          "return dx=%6\n",
      false);
}

TEST(FuseGradientAddition, JoinsAnyOtherGradientAndLeavesWhatIsReadTwice) {
  const std::string pool = kPoolGradient;
  for (const char* add : {"%6 = pointwise(%5, %3) {code=add, dtype=none}",
                          "%6 = pointwise(%3, %5) {code=add, dtype=none}"}) {
    const std::string out =
        run(fuse_gradient_addition, pool + add + " : f32[2,8,8,3]\nreturn dx=%6\n");
    EXPECT_THAT(out, HasSubstr("has_addend=true, activation=none"));
    EXPECT_THAT(out, HasSubstr("slice_grad("));
    EXPECT_THAT(out, Not(HasSubstr("code=add")));
  }
  const std::string sum = "%6 = pointwise(%3, %0) {code=add, dtype=none} : f32[2,8,8,3]\n";
  const std::string dense = run(fuse_gradient_addition, pool + sum + "return dx=%6\n");
  EXPECT_THAT(dense, HasSubstr("max_pool_grad(%0, %1, %0)"));
  run(fuse_gradient_addition, pool + sum + "return dx=%6, alone=%3\n", false);
}

// A word table that is read by rows twice and by a product once: one sum in one place.
TEST(FuseGradientAddition, AddsRowsToWhatAProductGaveATable) {
  const std::string out =
      run(fuse_gradient_addition,
          "%0 = input() {name=\"ids\", dtype=i32, dims=[5]} : i32[5]\n"
          "%1 = input() {name=\"dy\", dtype=f32, dims=[5,4]} : f32[5,4]\n"
          "%2 = input() {name=\"dense\", dtype=f32, dims=[7,4]} : f32[7,4]\n"
          "%3 = gather_rows_grad(%0, %1) {rows=7, dtype=f32, has_addend=false} : f32[7,4]\n"
          "%4 = gather_rows_grad(%0, %1) {rows=7, dtype=f32, has_addend=false} : f32[7,4]\n"
          "%5 = pointwise(%3, %2) {code=add, dtype=none} : f32[7,4]\n"
          "%6 = pointwise(%5, %4) {code=add, dtype=none} : f32[7,4]\nreturn dtable=%6\n");
  EXPECT_THAT(out, HasSubstr("%3 = gather_rows_grad(%0, %1, %2)"));
  EXPECT_THAT(out, HasSubstr("%4 = gather_rows_grad(%0, %1, %3)"));
  EXPECT_THAT(out, Not(HasSubstr("code=add")));
}

TEST(FuseSqueeze, TakesTheMeanAndItsGradientIntoTheNormalisation) {
  const auto text = [](std::string_view activation, std::string_view window,
                       std::string_view returns) {
    const std::string pool =
        cat("{window=", window, ", stride=[4,4], pad_begin=[0,0], pad_end=[0,0]");
    const std::string norm = cat("{epsilon=1e-05, activation=", activation, ", has_residual=false");
    return cat(
        "%0 = input() {name=\"x\", dtype=f32, dims=[2,4,4,3]} : f32[2,4,4,3]\n"
        "%1 = input() {name=\"c\", dtype=f32, dims=[3]} : f32[3]\n"
        "%2 = input() {name=\"dproduct\", dtype=f32, dims=[2,4,4,3]} : f32[2,4,4,3]\n"
        "%3 = input() {name=\"gate\", dtype=f32, dims=[2,1,1,3]} : f32[2,1,1,3]\n"
        "%4 = input() {name=\"dsqueezed\", dtype=f32, dims=[2,1,1,3]} : f32[2,1,1,3]\n"
        "%5, %6, %7 = batch_norm(%0, %1, %1) ",
        norm,
        ", has_sums=false, normalizes_residual=false, keep_mask=false} : f32[2,4,4,3], f32[3], "
        "f32[3]\n",
        "%8 = avg_pool(%5) ", pool, "} : f32[2,1,1,3]\n",
        "%9 = pointwise(%3, %2) {code=[mul(x1, x0)], dtype=f32} : f32[2,4,4,3]\n",
        "%10 = avg_pool_grad(%4) ", pool, ", x_dims=[2,4,4,3]} : f32[2,4,4,3]\n",
        "%11 = pointwise(%9, %10) {code=add, dtype=none} : f32[2,4,4,3]\n",
        "%12, %13, %14 = batch_norm_grad(%0, %1, %1, %6, %7, %11) ", norm,
        ", has_addend=false, has_mask=false, has_sums=false, has_second=false} : f32[2,4,4,3], "
        "f32[3], f32[3]\n",
        "return y=%5, squeezed=%8, dx=%12", returns, "\n");
  };
  const std::string out = run(fuse_squeeze, text("swish", "[4,4]", ""));
  EXPECT_THAT(out, ContainsRegex("squeezed_batch_norm\\(%0, %1, %1\\)"));
  EXPECT_THAT(out, ContainsRegex("squeezed_batch_norm_grad\\(%0, %1, %1, %[0-9]+, %[0-9]+, %2, %3, "
                                 "%4\\)"));
  EXPECT_THAT(out, Not(HasSubstr("pool")));
  EXPECT_THAT(out, Not(HasSubstr("pointwise")));
  run(fuse_squeeze, text("relu", "[4,4]", ""), false);
  run(fuse_squeeze, text("swish", "[3,3]", ""), false);           // no mean of all pixels
  run(fuse_squeeze, text("swish", "[4,4]", ", sum=%11"), false);  // which somebody else reads
}

TEST(FuseProductSum, SumsWhatIsMultipliedOnTheWay) {
  const auto text = [](std::string_view product) {
    return cat(
        "%0 = input() {name=\"dy\", dtype=bf16, dims=[6,3]} : bf16[6,3]\n"
        "%1 = input() {name=\"x\", dtype=bf16, dims=[6,3]} : bf16[6,3]\n"
        "%2 = input() {name=\"w\", dtype=bf16, dims=[3]} : bf16[3]\n",
        product, "%4 = sum_to(%3) {dims=[3]} : f32[3]\nreturn dw=%4");
  };
  const std::string product = "%3 = pointwise(%0, %1) {code=[mul(x1, x0)], dtype=f32} : f32[6,3]\n";
  const std::string out = run(fuse_product_sum, text(product) + "\n");
  EXPECT_THAT(out, HasSubstr("sum_to(%0, %1) {dims=[3]} : f32[3]"));
  EXPECT_THAT(out, Not(HasSubstr("pointwise")));
  run(fuse_product_sum, text(product) + ", product=%3\n", false);
  for (const char* other :
       {"%3 = pointwise(%0, %1) {code=[mul(x1, x0)], dtype=bf16} : bf16[6,3]\n",  // rounds
        "%3 = pointwise(%0, %2) {code=[mul(x1, x0)], dtype=f32} : f32[6,3]\n",    // repeats
        "%3 = pointwise(%0, %1) {code=[sub(x1, x0)], dtype=f32} : f32[6,3]\n"})
    run(fuse_product_sum, text(other) + "\n", false);
  // Counts are no factors.
  std::string counts = text("%3 = pointwise(%0, %1) {code=[mul(x0, x1)], dtype=f32} : f32[6,3]\n");
  for (size_t at; (at = counts.find("bf16[6,3]")) != std::string::npos;)
    counts.replace(at, 4, "i32");
  for (size_t at; (at = counts.find("dtype=bf16, dims=[6")) != std::string::npos;)
    counts.replace(at, 10, "dtype=i32");
  run(fuse_product_sum, counts + "\n", false);
}

TEST(MergeEqualNodes, AlsoWhereTheirInputsAreEqualOnly) {
  const std::string text =
      "%0 = input() {name=\"a\", dtype=f32, dims=[4]} : f32[4]\n"
      "%1 = slice(%0) {begin=[1], dims=[2]} : f32[2]\n"
      "%2 = slice(%0) {begin=[1], dims=[2]} : f32[2]\n"
      "%3 = pointwise(%1) {code=tanh, dtype=none} : f32[2]\n"
      "%4 = pointwise(%2) {code=tanh, dtype=none} : f32[2]\n"
      "%5 = slice(%0) {begin=[2], dims=[2]} : f32[2]\n"
      "%6 = pointwise(%5) {code=tanh, dtype=none} : f32[2]\n"
      "%7 = pointwise(%3, %4, %6) {code=[mul(x0, x1), add(s0, x2)], dtype=f32} : f32[2]\n";
  const std::string out = run(merge_equal_nodes, text + "return y=%7\n");
  EXPECT_THAT(out, HasSubstr("pointwise(%2, %2, %4) {code=[mul(x0, x1), add(s0, x2)]"));
  // What the host reads has a place of its own.
  EXPECT_THAT(run(merge_equal_nodes, text + "return y=%7, twin=%4\n"),
              HasSubstr("pointwise(%2, %3, %5)"));
  run(merge_equal_nodes, out, false);
}

// What backward makes again would otherwise wait in memory.
TEST(MergeEqualNodes, WithinAPhase) {
  Graph g = parse_graph("%0 = input() {name=\"a\", dtype=f32, dims=[4]} : f32[4]\nreturn a=%0\n");
  const ValueId forward = activation(g, {0}, ActivationKind::kTanh);
  g.set_phase(Phase::kBackward);
  const ValueId backward = activation(g, {0}, ActivationKind::kTanh);
  g.outputs().push_back({"y", add(g, forward, backward)});
  EXPECT_FALSE(merge_equal_nodes(g));
}

// Weights before the first that is read, gradients where the last is there.
TEST(JoinCasts, OfWeightsAndOfGradientsThatAreStored) {
  std::string text = "%0 = input() {name=\"x\", dtype=f32, dims=[3]} : f32[3]\n";
  const std::string cast = "{code=cast, dtype=f16} : f16[3]\n";
  for (int i = 0; i < 2; ++i) {
    const int v = 1 + 4 * i;
    text +=
        cat("%", v, " = parameter() {name=\"w", i,
            "\", role=value, dtype=f32, dims=[3]} : f32[3]\n", "%", v + 1, " = pointwise(%", v,
            ") ", cast, "%", v + 2, " = pointwise(%", v + 1, ") {code=tanh, dtype=none} : f16[3]\n",
            "%", v + 3, " = pointwise(%", v + 2, ") {code=cast, dtype=f32} : f32[3]\n");
  }
  for (int i = 0; i < 2; ++i) {
    const int v = 9 + 2 * i;
    text += cat("%", v, " = parameter() {name=\"w", i,
                "\", role=gradient, dtype=f32, dims=[3]} : f32[3]\n", "%", v + 1, " = store(%", v,
                ", %", 4 + 4 * i, ") {accumulate=false} : f32[3]\n");
  }
  text += cat("%13 = pointwise(%0) ", cast);
  const std::string out = run(join_casts, text + "return y=%13\n");
  EXPECT_THAT(out, ContainsRegex("casts\\(%[0-9]+, %[0-9]+\\) \\{dtype=f16\\} : f16\\[3\\], f16"));
  EXPECT_THAT(out, ContainsRegex("casts\\(%[0-9]+, %[0-9]+\\) \\{dtype=f32\\} : f32\\[3\\], f32"));
  EXPECT_THAT(out, ContainsRegex("pointwise\\(%0\\) \\{code=cast"));  // of an input: left alone
  EXPECT_LT(out.find("{dtype=f16} : f16[3], f16"), out.find("tanh"));
  EXPECT_GT(out.find("{dtype=f32} : f32[3], f32"), out.rfind("tanh"));
  // Side by side parameters are there as early.
  const std::string beside = run(
      join_casts, text +
                      "%14 = concat(%1, %5) {axis=0} : f32[6]\n%15 = pointwise(%14) {code=cast, "
                      "dtype=f16} : f16[6]\nreturn y=%13, w=%15\n");
  EXPECT_THAT(beside,
              ContainsRegex("casts\\(.*\\) \\{dtype=f16\\} : f16\\[3\\], f16\\[3\\], f16\\[6\\]"));
  // A sum over devices does not wait for the last gradient.
  const std::string sent =
      run(join_casts, text + "%14 = all_reduce(%10) {wire=none} : f32[3]\n" +
                          "%15 = all_reduce(%12) {wire=none} : f32[3]\n" + "return y=%13\n");
  EXPECT_THAT(sent, HasSubstr("{dtype=f16} : f16[3], f16"));
  EXPECT_THAT(sent, Not(HasSubstr("{dtype=f32} : f32[3], f32")));
}

// Once for two convolutions; f32 stays.
TEST(LowerBiases, OfConvolutionsOf16Bits) {
  const auto convolutions = [](const std::string& type) {
    const std::string attributes =
        ") {stride=[1,1], pad_begin=[0,0], pad_end=[0,0], dilation=[1,1], groups=1, has_bias=true, "
        "has_residual=false, activation=none, keep_pre=false, keep_sums=false} : " +
        type + "[1,2,2,3]\n";
    return "%0 = input() {name=\"x\", dtype=" + type + ", dims=[1,2,2,3]} : " + type +
           "[1,2,2,3]\n%1 = input() {name=\"w\", dtype=" + type + ", dims=[3,1,1,3]} : " + type +
           "[3,1,1,3]\n%2 = parameter() {name=\"b\", role=value, dtype=f32, dims=[3]} : f32[3]\n" +
           "%3 = conv2d(%0, %1, %2" + attributes + "%4 = conv2d(%3, %1, %2" + attributes +
           "return y=%4\n";
  };
  const std::string lowered = run(lower_biases, convolutions("f16"));
  EXPECT_THAT(lowered,
              ContainsRegex("(%[0-9]+) = pointwise\\(%2\\) \\{code=cast, dtype=f16\\} : f16"));
  EXPECT_THAT(lowered, Not(ContainsRegex("conv2d\\([^)]*%2\\)")));
  EXPECT_EQ(lowered.find("cast"), lowered.rfind("cast"));
  Graph f32 = parse_graph(convolutions("f32"));
  EXPECT_FALSE(lower_biases(f32));
}

TEST(LowerBiases, OfProductsThatGive16Bits) {
  const auto product = [](const std::string& type) {
    return "%0 = input() {name=\"x\", dtype=f16, dims=[4,3]} : f16[4,3]\n"
           "%1 = input() {name=\"w\", dtype=f16, dims=[3,2]} : f16[3,2]\n"
           "%2 = parameter() {name=\"b\", role=value, dtype=f32, dims=[2]} : f32[2]\n"
           "%3 = matmul(%0, %1, %2) {transpose_a=false, transpose_b=false, has_bias=true, "
           "activation=none, dtype=" +
           type + ", keep_pre=false} : " + type + "[4,2]\nreturn y=%3\n";
  };
  EXPECT_THAT(run(lower_biases, product("f16")),
              ContainsRegex("pointwise\\(%2\\) \\{code=cast, dtype=f16\\} : f16"));
  run(lower_biases, product("f32"), false);
}

TEST(Precision, CastsOperandsOnceAndKeepsOutputs) {
  Graph g = parse_graph(
      std::string(kConvNorm) + kTrainNorm +
      "%8 = pointwise(%5, %0) {code=add, dtype=none} : f32[2,4,4,3]\nreturn y=%8, mean=%6\n");
  apply_precision(g, Precision::kAmpBf16);
  verify(g);
  const std::string text = graph_text(g);
  EXPECT_THAT(text, HasSubstr("pointwise(%0) {code=cast, dtype=bf16} : bf16[2,4,4,3]"));
  EXPECT_THAT(text, HasSubstr(": bf16[2,4,4,3], f32[3], f32[3]"));  // statistics stay f32
  EXPECT_EQ(g.type(g.output("y")).dtype, DType::kF32);
  EXPECT_EQ(g.type(g.output("mean")).dtype, DType::kF32);
}

// Whatever their sizes, the parts of a concatenation have one type.
TEST(Precision, OfPartsThatAreConcatenated) {
  Graph g = parse_graph(std::string(kConvNorm) +
                        "%5 = input() {name=\"z\", dtype=f32, dims=[2,4,4,1]} : f32[2,4,4,1]\n"
                        "%6 = concat(%5, %2) {axis=3} : f32[2,4,4,4]\n"
                        "%7 = concat(%5, %0) {axis=3} : f32[2,4,4,4]\nreturn y=%6, z=%7\n");
  apply_precision(g, Precision::kAmpBf16);
  verify(g);
  const std::string text = graph_text(g);
  EXPECT_THAT(text, ContainsRegex("concat\\(.*: bf16\\[2,4,4,4\\]"));
  EXPECT_THAT(text, ContainsRegex("concat\\(.*: f32\\[2,4,4,4\\]"));
}

TEST(Precision, NeedsATargetThatOffersIt) {
  const std::string text = std::string(kConvNorm) + kTrainNorm + "return y=%5, mean=%6\n";
  for (const Precision precision : {Precision::kTf32, Precision::kAmpF16}) {
    Graph g = parse_graph(text);
    EXPECT_THROW(apply_precision(g, precision), Error);
    EXPECT_EQ(graph_text(g), graph_text(parse_graph(text)));
  }
  Graph tf32 = parse_graph(text);
  apply_precision(tf32, Precision::kTf32, Target::h200());
  EXPECT_TRUE(tf32.tf32());
  EXPECT_EQ(graph_text(tf32), "tf32\n" + graph_text(parse_graph(text)));
  Graph f16 = parse_graph(text);
  apply_precision(f16, Precision::kAmpF16, Target::h200());
  verify(f16);
  EXPECT_FALSE(f16.tf32());
  EXPECT_THAT(graph_text(f16), HasSubstr("pointwise(%0) {code=cast, dtype=f16} : f16[2,4,4,3]"));
}

TEST(Pipeline, PassesCanBeSwitchedOffByName) {
  const std::string text =
      std::string(kConvNorm) + kTrainNorm +
      "%8 = pointwise(%5) {code=relu, dtype=none} : f32[2,4,4,3]\nreturn y=%8\n";
  Graph g = parse_graph(text);
  const auto records =
      run_passes(g, forward_passes(), std::vector<std::string>{"fuse_batch_norm_activation"});
  EXPECT_EQ(records.size(), forward_passes().size() - 1);
  EXPECT_THAT(graph_text(g), HasSubstr("code=relu"));
  try {
    run_passes(g, forward_passes(), std::vector<std::string>{"fuse_everything"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("disabled_pass is \"fuse_everything\", expected \"fold_batch_norm\""));
  }
}

const char* const kTwoNarrow =
    "%0 = input() {name=\"a\", dtype=bf16, dims=[2,3]} : bf16[2,3]\n"
    "%1 = input() {name=\"b\", dtype=bf16, dims=[2,3]} : bf16[2,3]\n";

TEST(FusePointwise, AChainBecomesOneNodeThatRoundsWhereTheChainDid) {
  const std::string out =
      run(fuse_pointwise, std::string(kTwoNarrow) +
                              "%2 = pointwise(%0, %1) {code=add, dtype=none} : bf16[2,3]\n"
                              "%3 = pointwise(%2) {code=relu, dtype=none} : bf16[2,3]\n"
                              "%4 = pointwise(%3) {code=cast, dtype=f32} : f32[2,3]\n"
                              "return y=%4\n");
  EXPECT_THAT(out, HasSubstr("pointwise(%0, %1) {code=[add(x0, x1), bf16(s0), max(0, s1), "
                             "bf16(s2)], dtype=f32}"));
  EXPECT_THAT(out, Not(HasSubstr("code=cast")));
}

TEST(FusePointwise, AValueReadTwiceByOneNodeIsComputedOnce) {
  run(fuse_pointwise,
      std::string(kTwoNarrow) +
          "%2 = pointwise(%0, %1) {code=add, dtype=none} : bf16[2,3]\n%3 = pointwise(%2, %2) "
          "{code=add, dtype=none} : bf16[2,3]\nreturn y=%3\n",
      false);
}

TEST(FusePointwise, LeavesWhatOthersReadWhatIsRepeatedAndTheOtherQueueAlone) {
  const std::string sum =
      std::string(kTwoNarrow) + "%2 = pointwise(%0, %1) {code=add, dtype=none} : bf16[2,3]";
  const std::string relu = "%3 = pointwise(%2) {code=relu, dtype=none} : bf16[2,3]\n";
  run(fuse_pointwise, sum + "\n" + relu + "return y=%3, sum=%2\n", false);
  run(fuse_pointwise,
      sum + "\n" + relu +
          "%4 = pointwise(%3, %2) {code=add, dtype=none} : bf16[2,3]\nreturn y=%4, z=%3\n",
      false);
  run(fuse_pointwise, sum + " on communication\n" + relu + "return y=%3\n", false);
  run(fuse_pointwise,
      "%0 = input() {name=\"a\", dtype=f32, dims=[3]} : f32[3]\n"
      "%1 = input() {name=\"b\", dtype=f32, dims=[2,3]} : f32[2,3]\n"
      "%2 = pointwise(%0) {code=tanh, dtype=none} : f32[3]\n"
      "%3 = pointwise(%1, %2) {code=[mul(x0, x1)], dtype=f32} : f32[2,3]\nreturn y=%3\n",
      false);
}

TEST(FusePointwise, LeavesWhatForwardKeepsForBackwardAlone) {
  Graph g = parse_graph(std::string(kTwoNarrow) +
                        "%2 = pointwise(%0, %1) {code=add, dtype=none} : bf16[2,3]\n"
                        "%3 = pointwise(%2) {code=relu, dtype=none} : bf16[2,3]\nreturn y=%3\n");
  g.node(g.value(g.output("y")).producer).phase = Phase::kBackward;
  EXPECT_FALSE(fuse_pointwise(g));
}

TEST(FusePointwise, JoinsBothSidesAndSharesTheirInputs) {
  const std::string out =
      run(fuse_pointwise, std::string(kTwoNarrow) +
                              "%2 = pointwise(%0) {code=cast, dtype=f32} : f32[2,3]\n"
                              "%3 = pointwise(%1) {code=cast, dtype=f32} : f32[2,3]\n"
                              "%4 = pointwise(%2, %3) {code=add, dtype=none} : f32[2,3]\n"
                              "%5 = pointwise(%4) {code=tanh, dtype=none} : f32[2,3]\n"
                              "return y=%5\n");
  EXPECT_THAT(out, HasSubstr("pointwise(%0, %1) {code=[add(x0, x1), tanh(s0)], dtype=f32}"));
}

}  // namespace
}  // namespace assay
