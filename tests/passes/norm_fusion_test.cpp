// Fusions of normalisations: text in, text out, and graphs where they must not fire.
#include <gmock/gmock.h>

#include "sdk/passes/fuse_norm.h"
#include "tests/passes/run_pass.h"

namespace assay {
namespace {

using test::kConvNorm;
using test::kTrainNorm;
using test::run;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(FuseBatchNormActivation, MovesTheReluAndTheStatistics) {
  const std::string out = run(fuse_batch_norm_activation,
                              std::string(kConvNorm) + kTrainNorm +
                                  "%8 = pointwise(%5) {code=relu, dtype=none} : f32[2,4,4,3]\n"
                                  "return y=%8, mean=%6, var=%7\n");
  EXPECT_THAT(
      out,
      HasSubstr("batch_norm(%2, %3, %4) {epsilon=1e-05, activation=relu, "
                "has_residual=false, has_sums=false, normalizes_residual=false, keep_mask=false}"));
  EXPECT_THAT(out, Not(HasSubstr("code=relu")));
}

TEST(FuseBatchNormActivation, TakesSwishButInTrainingNotBehindAResidual) {
  const std::string swish = "%8 = pointwise(%5) {code=swish, dtype=none} : f32[2,4,4,3]\n";
  EXPECT_THAT(run(fuse_batch_norm_activation,
                  std::string(kConvNorm) + kTrainNorm + swish + "return y=%8\n"),
              HasSubstr("activation=swish, has_residual=false,"));
  run(fuse_batch_norm_activation,
      std::string(kConvNorm) +
          "%5, %6, %7 = batch_norm(%2, %3, %4, %0) {epsilon=1e-05, activation=none, "
          "has_residual=true, has_sums=false, normalizes_residual=false, keep_mask=false} : "
          "f32[2,4,4,3], f32[3], f32[3]\n" +
          swish + "return y=%8\n",
      false);
}

TEST(FuseBatchNormActivation, LeavesAnotherActivationAndASecondReaderAlone) {
  run(fuse_batch_norm_activation,
      std::string(kConvNorm) + kTrainNorm +
          "%8 = pointwise(%5) {code=tanh, dtype=none} : f32[2,4,4,3]\nreturn y=%8\n",
      false);
  run(fuse_batch_norm_activation,
      std::string(kConvNorm) + kTrainNorm +
          "%8 = pointwise(%5) {code=relu, dtype=none} : f32[2,4,4,3]\n%9 = pointwise(%8, %5) "
          "{code=add, dtype=none} : "
          "f32[2,4,4,3]\nreturn y=%9\n",
      false);
  run(fuse_batch_norm_activation,
      std::string(kConvNorm) + kTrainNorm +
          "%8 = pointwise(%5) {code=relu, dtype=none} : f32[2,4,4,3]\nreturn y=%8, pre=%5\n",
      false);
}

TEST(FuseBatchNormAdd, TakesTheResidualWhicheverSideItIsOn) {
  for (const char* add : {"%8 = pointwise(%5, %0) {code=add, dtype=none}",
                          "%8 = pointwise(%0, %5) {code=add, dtype=none}"}) {
    const std::string out = run(fuse_batch_norm_add, std::string(kConvNorm) + kTrainNorm + add +
                                                         " : f32[2,4,4,3]\nreturn y=%8\n");
    EXPECT_THAT(
        out, HasSubstr(
                 "batch_norm(%2, %3, %4, %0) {epsilon=1e-05, activation=none, "
                 "has_residual=true, has_sums=false, normalizes_residual=false, keep_mask=false}"));
    EXPECT_THAT(out, Not(HasSubstr("code=add")));
  }
}

TEST(FuseBatchNormAdd, LeavesAReluBetweenAndASumWithItselfAlone) {
  run(fuse_batch_norm_add,
      std::string(kConvNorm) +
          "%5, %6, %7 = batch_norm(%2, %3, %4) {epsilon=1e-05, activation=relu, "
          "has_residual=false, has_sums=false, normalizes_residual=false, keep_mask=false} : "
          "f32[2,4,4,3], f32[3], f32[3]\n"
          "%8 = pointwise(%5, %0) {code=add, dtype=none} : f32[2,4,4,3]\nreturn y=%8\n",
      false);
  run(fuse_batch_norm_add,
      std::string(kConvNorm) + kTrainNorm +
          "%8 = pointwise(%5, %5) {code=add, dtype=none} : f32[2,4,4,3]\nreturn y=%8\n",
      false);
}

// `type` and channels of the image, then what is said of the convolution.
std::string conv_norm_of(const std::string& type, const std::string& channels,
                         const std::string& flags) {
  const std::string image = type + "[2,4,4," + channels + "]", f32 = "f32[" + channels + "]";
  const auto leaf = [&](int id, const std::string& name, const std::string& dtype,
                        const std::string& dims) {
    return cat("%", id, " = input() {name=\"", name, "\", dtype=", dtype, ", dims=[", dims,
               "]} : ", dtype, "[", dims, "]\n");
  };
  return leaf(0, "x", type, "2,4,4," + channels) +
         leaf(1, "w", type, channels + ",1,1," + channels) + leaf(2, "g", "f32", channels) +
         leaf(3, "b", "f32", channels) +
         "%4 = conv2d(%0, %1) {stride=[1,1], pad_begin=[0,0], pad_end=[0,0], dilation=[1,1], "
         "groups=1, has_bias=false, has_residual=false, activation=" +
         flags + ", keep_pre=false, keep_sums=false} : " + image +
         "\n%5, %6, %7 = batch_norm(%4, %2, %3, %0) {epsilon=1e-05, activation=relu, "
         "has_residual=true, has_sums=false, normalizes_residual=false, keep_mask=false} : " +
         image + ", " + f32 + ", " + f32 + "\nreturn y=%5\n";
}

TEST(FuseBatchNormSums, OfConvolutionsOfF16) {
  const std::string out = run(fuse_batch_norm_sums, conv_norm_of("f16", "8", "none"));
  EXPECT_THAT(out, HasSubstr("keep_sums=true} : f16[2,4,4,8], f32[2,8]\n"));
  EXPECT_THAT(out, ContainsRegex("batch_norm\\(%4, %2, %3, %0, %5\\) .*has_sums=true"));
  run(fuse_batch_norm_sums, out, false);
}

TEST(FuseBatchNormSums, LeavesOtherTypesPartsOfPacksAndActivationsAlone) {
  for (const std::string& text :
       {conv_norm_of("bf16", "8", "none"), conv_norm_of("f32", "8", "none"),
        conv_norm_of("f16", "12", "none"), conv_norm_of("f16", "8", "relu")})
    run(fuse_batch_norm_sums, text, false);
}

// The end of a residual block and the convolution that reads it, with what is differentiated of
// them. `shortcut` gives the residual, %9; `others` its gradient from %21 and what is returned.
std::string block_end(const std::string& dtype, const std::string& shortcut,
                      const std::string& others, const std::string& stride = "1") {
  const std::string image = dtype + "[2,4,4,8]", f32 = "f32[8]", c = ", " + f32;
  const auto leaf = [](int id, const std::string& name, const std::string& type,
                       const std::string& dims) {
    return cat("%", id, " = input() {name=\"", name, "\", dtype=", type, ", dims=[", dims,
               "]} : ", type, "[", dims, "]\n");
  };
  const std::string size = stride == "1" ? "4" : "2";
  return leaf(0, "x", dtype, "2,4,4,8") + leaf(1, "w", dtype, "8,1,1,8") +
         leaf(2, "g", "f32", "8") + leaf(3, "b", "f32", "8") + leaf(4, "z", dtype, "2,4,4,8") +
         leaf(5, "dy", dtype, "2," + size + "," + size + ",8") + leaf(6, "more", dtype, "2,4,4,8") +
         shortcut +
         "%12, %13, %14 = batch_norm(%0, %2, %3, %9) {epsilon=1e-05, activation=relu, "
         "has_residual=true, has_sums=false, normalizes_residual=false, keep_mask=false} : " +
         image + c + c + "\n%15 = conv2d_grad_data(%5, %1) {stride=[" + stride + "," + stride +
         "], pad_begin=[0,0], pad_end=[0,0], dilation=[1,1], groups=1, x_dims=[2,4,4,8], "
         "activation=none, keep_sums=false} : " +
         image +
         "\n%18, %19, %20, %21 = batch_norm_grad(%0, %2, %3, %13, %14, %6, %12, %15) "
         "{epsilon=1e-05, activation=relu, has_residual=true, has_addend=true, has_mask=false, "
         "has_sums=false, has_second=false} : " +
         image + c + c + ", " + image + "\n" + others;
}
const char* const kIdentity = "%9 = pointwise(%4) {code=relu, dtype=none} : f16[2,4,4,8]\n";
const char* const kNormalised =
    "%9, %10, %11 = batch_norm(%4, %3, %2) {epsilon=1e-05, activation=none, has_residual=false, "
    "has_sums=false, normalizes_residual=false, keep_mask=false} : f16[2,4,4,8], f32[8], f32[8]\n";
const char* const kOthers =
    "%22 = pointwise(%21) {code=tanh, dtype=none} : f16[2,4,4,8]\nreturn dx=%18, a=%19, b=%20, "
    "dz=%22\n";

TEST(FuseBatchNormGradientSums, BehindAResidual) {
  const std::string out = run(fuse_batch_norm_gradient_sums, block_end("f16", kIdentity, kOthers));
  EXPECT_THAT(out, ContainsRegex("conv2d_grad_norm\\(%5, %1, %6, %7, %0, %2, %3, %9, %10\\) "
                                 ".*norms=1, has_addend=true, has_residual=true"));
  EXPECT_THAT(out, ContainsRegex("batch_norm_grad\\(%0, %2, %3, %9, %10, %11, %12\\) "
                                 ".*activation=none, has_residual=false, .*has_sums=true"));
  EXPECT_THAT(out, ContainsRegex("pointwise\\(%11\\) \\{code=tanh"));
}

TEST(FuseBatchNormGradientSums, OfBothNormalisations) {
  const std::string gradient =
      "%22, %23, %24 = batch_norm_grad(%4, %3, %2, %10, %11, %21) {epsilon=1e-05, "
      "activation=none, has_residual=false, has_addend=false, has_mask=false, has_sums=false, "
      "has_second=false} : f16[2,4,4,8], f32[8], f32[8]\n";
  const std::string out =
      run(fuse_batch_norm_gradient_sums,
          block_end("f16", kNormalised, gradient + "return dx=%18, dz=%22, dg=%23\n"));
  EXPECT_THAT(out, HasSubstr("norms=2, has_addend=true, has_residual=false"));
  EXPECT_THAT(out,
              ContainsRegex("has_sums=true, has_second=true\\} : f16\\[2,4,4,8\\], "
                            "f32\\[8\\], f32\\[8\\], f16\\[2,4,4,8\\], f32\\[8\\], f32\\[8\\]"));
  EXPECT_THAT(out, Not(HasSubstr("has_second=false")));
  // Read elsewhere, its gradient is that of a residual like others.
  EXPECT_THAT(
      run(fuse_batch_norm_gradient_sums,
          block_end("f16", kNormalised,
                    gradient + "%25 = pointwise(%21) {code=tanh, dtype=none} : f16[2,4,4,8]\n"
                               "return dx=%18, dz=%22, more=%25\n")),
      HasSubstr("norms=1, has_addend=true, has_residual=true"));
}

TEST(FuseBatchNormGradientSums, LeavesStridesOtherTypesAndOtherReadersAlone) {
  run(fuse_batch_norm_gradient_sums, block_end("f16", kIdentity, kOthers, "2"), false);
  std::string text = block_end("bf16", kIdentity, kOthers);
  for (size_t at = 0; (at = text.find(" f16[", at)) != std::string::npos;)
    text.replace(at, 5, " bf16[");
  run(fuse_batch_norm_gradient_sums, text, false);
  run(fuse_batch_norm_gradient_sums,
      block_end("f16", kIdentity,
                "%22 = pointwise(%15) {code=tanh, dtype=none} : f16[2,4,4,8]\n"
                "return dx=%18, dz=%21, more=%22\n"),
      false);
}

TEST(FuseBatchNormMaxPool, TakesTheMaximaAndTheirGradient) {
  const auto text = [](std::string_view activation, std::string_view window,
                       std::string_view others) {
    const std::string pool =
        cat("{window=", window, ", stride=[2,2], pad_begin=[0,0], pad_end=[0,0]");
    const std::string norm = cat("{epsilon=1e-05, activation=", activation, ", has_residual=false");
    return cat(
        "%0 = input() {name=\"x\", dtype=f32, dims=[2,20,21,3]} : f32[2,20,21,3]\n"
        "%1 = input() {name=\"c\", dtype=f32, dims=[3]} : f32[3]\n"
        "%2, %3, %4 = batch_norm(%0, %1, %1) ",
        norm,
        ", has_sums=false, normalizes_residual=false, keep_mask=false} : f32[2,20,21,3], f32[3], "
        "f32[3]\n%5 = max_pool(%2) ",
        pool, "} : f32[2,3,3,3]\n%6 = pointwise(%5) {code=tanh, dtype=none} : f32[2,3,3,3]\n",
        "%7 = max_pool_grad(%2, %6) ", pool,
        ", has_addend=false, activation=none} : f32[2,20,21,3]\n",
        "%8, %9, %10 = batch_norm_grad(%0, %1, %1, %3, %4, %7) ", norm,
        ", has_addend=false, has_mask=false, has_sums=false, has_second=false} : f32[2,20,21,3], "
        "f32[3], f32[3]\n",
        others, "return y=%5, mean=%3, dx=%8, dgamma=%9");
  };
  const std::string out = run(fuse_batch_norm_max_pool, text("relu", "[16,16]", "") + "\n");
  EXPECT_THAT(out, ContainsRegex("%2, %3, %4, %5, %6 = batch_norm_max_pool\\(%0, %1, %1\\)"));
  EXPECT_THAT(out, ContainsRegex("batch_norm_max_pool_grad\\(%0, %1, %1, %3, %4, %7, %5, %6\\)"));
  EXPECT_THAT(out, Not(HasSubstr(" max_pool")));
  EXPECT_THAT(out, Not(HasSubstr("batch_norm_grad")));
  EXPECT_THAT(out, HasSubstr("return y=%2, mean=%3"));
  run(fuse_batch_norm_max_pool, text("swish", "[16,16]", "") + "\n", false);
  run(fuse_batch_norm_max_pool, text("relu", "[16,17]", "") + "\n", false);  // places of a byte
  run(fuse_batch_norm_max_pool, text("relu", "[16,16]", "") + ", all=%2\n", false);
  run(fuse_batch_norm_max_pool, text("relu", "[16,16]", "") + ", arrives=%7\n", false);
  run(fuse_batch_norm_max_pool,
      text("relu", "[16,16]", "%11 = pointwise(%2) {code=tanh, dtype=none} : f32[2,20,21,3]\n") +
          ", more=%11\n",
      false);
}

TEST(FuseBatchNormResidual, TakesTheNormalisationBeforeIt) {
  const auto both = [](const std::string& more) {
    const std::string f16 = "f16[2,4,4,8]", numbers = ", f32[8], f32[8]\n";
    std::string text;
    int id = 0;
    for (const char* name : {"x", "z"})
      text += cat("%", id++, " = input() {name=\"", name, "\", dtype=f16, dims=[2,4,4,8]} : ", f16,
                  "\n");
    text +=
        "%2 = input() {name=\"g\", dtype=f32, dims=[8]} : f32[8]\n"
        "%3 = input() {name=\"s\", dtype=f32, dims=[2,8]} : f32[2,8]\n"
        "%4 = input() {name=\"t\", dtype=f32, dims=[2,8]} : f32[2,8]\n"
        "%5, %6, %7 = batch_norm(%1, %2, %2, %4) {epsilon=1e-05, activation=none, "
        "has_residual=false, has_sums=true, normalizes_residual=false, keep_mask=false} : " +
        f16 + numbers +
        "%8, %9, %10 = batch_norm(%0, %2, %2, %5, %3) {epsilon=1e-05, activation=relu, "
        "has_residual=true, has_sums=true, normalizes_residual=false, keep_mask=false} : " +
        f16 + numbers + "return y=%8, mean=%6, var=%7" + more + "\n";
    return text;
  };
  const std::string out = run(fuse_batch_norm_residual, both(""));
  EXPECT_THAT(out, HasSubstr("%5, %6, %7, %8, %9 = batch_norm(%0, %2, %2, %1, %3, %2, %2, %4)"));
  EXPECT_THAT(out, HasSubstr("normalizes_residual=true"));
  EXPECT_THAT(out, HasSubstr("return y=%5, mean=%8, var=%9"));
  run(fuse_batch_norm_residual, both(", z=%5"), false);
}

TEST(FuseBatchNormMask, TakesThePlaceOfY) {
  const auto with_gradient = [](const std::string& type, const std::string& channels) {
    const std::string norm = conv_norm_of(type, channels, "none");
    const std::string image = type + "[2,4,4," + channels + "]", f32 = "f32[" + channels + "]";
    return norm.substr(0, norm.find("return")) +
           "%8, %9, %10, %11 = batch_norm_grad(%4, %2, %3, %6, %7, %0, %5) {epsilon=1e-05, "
           "activation=relu, has_residual=true, has_addend=false, has_mask=false, has_sums=false, "
           "has_second=false} : " +
           image + ", " + f32 + ", " + f32 + ", " + image + "\nreturn y=%5, dx=%8\n";
  };
  const std::string f16 = run(fuse_batch_norm_mask, with_gradient("f16", "24"));
  EXPECT_THAT(f16, HasSubstr("normalizes_residual=false, keep_mask=true} : f16[2,4,4,24], f32[24], "
                             "f32[24], u8[2,4,4,3]\n"));
  EXPECT_THAT(f16, HasSubstr("batch_norm_grad(%4, %2, %3, %6, %7, %0, %8)"));
  EXPECT_THAT(run(fuse_batch_norm_mask, with_gradient("f32", "12")), HasSubstr("u8[2,4,4,3]\n"));
  run(fuse_batch_norm_mask, with_gradient("f16", "12"), false);
}

TEST(FoldBatchNorm, MovesIntoTheWeights) {
  const std::string statistics =
      "%5 = parameter() {name=\"m\", role=statistic, dtype=f32, dims=[3]} : f32[3]\n"
      "%6 = parameter() {name=\"v\", role=statistic, dtype=f32, dims=[3]} : f32[3]\n";
  const std::string norm =
      "%7 = batch_norm_inference(%2, %3, %4, %5, %6, %0) {epsilon=1e-05, activation=relu, "
      "has_residual=true} : f32[2,4,4,3]\n";
  const std::string out = run(fold_batch_norm, kConvNorm + statistics + norm + "return y=%7\n");
  EXPECT_THAT(out, HasSubstr("fold_batch_norm(%1, "));
  EXPECT_THAT(out, HasSubstr("has_bias=true, has_residual=true, activation=relu"));
  EXPECT_THAT(out, Not(HasSubstr("batch_norm_inference")));
  // Not if the convolution's own output is read as well.
  run(fold_batch_norm, kConvNorm + statistics + norm + "return y=%7, conv=%2\n", false);
}

TEST(FoldBatchNorm, MovesTheMeanByABias) {
  const std::string out =
      run(fold_batch_norm,
          "%0 = input() {name=\"x\", dtype=f32, dims=[2,4,4,3]} : f32[2,4,4,3]\n"
          "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[3,1,1,3]} : f32[3,1,1,3]\n"
          "%2 = parameter() {name=\"c\", role=value, dtype=f32, dims=[3]} : f32[3]\n"
          "%3 = conv2d(%0, %1, %2) {stride=[1,1], pad_begin=[0,0], pad_end=[0,0], dilation=[1,1], "
          "groups=1, has_bias=true, has_residual=false, activation=none, keep_pre=false, "
          "keep_sums=false} : "
          "f32[2,4,4,3]\n"
          "%4 = parameter() {name=\"g\", role=value, dtype=f32, dims=[3]} : f32[3]\n"
          "%5 = parameter() {name=\"b\", role=value, dtype=f32, dims=[3]} : f32[3]\n"
          "%6 = parameter() {name=\"m\", role=statistic, dtype=f32, dims=[3]} : f32[3]\n"
          "%7 = parameter() {name=\"v\", role=statistic, dtype=f32, dims=[3]} : f32[3]\n"
          "%8 = batch_norm_inference(%3, %4, %5, %6, %7) {epsilon=1e-05, activation=swish, "
          "has_residual=false} : f32[2,4,4,3]\nreturn y=%8\n");
  EXPECT_THAT(out, HasSubstr("%7 = pointwise(%5, %2) {code=[sub(x0, x1)]"));
  EXPECT_THAT(out, HasSubstr("has_bias=true, has_residual=false, activation=swish"));
  EXPECT_THAT(out, Not(HasSubstr("batch_norm_inference")));
}

// The join of a residual block: where its gradient comes from two sides.
TEST(FuseBatchNormGradientAdd, TakesBothTermsWhereTheResidualKeepsTheirSum) {
  const auto text = [](bool has_residual, std::string_view returns) {
    return cat(
        "%0 = input() {name=\"x\", dtype=f32, dims=[6,3]} : f32[6,3]\n"
        "%1 = input() {name=\"c\", dtype=f32, dims=[3]} : f32[3]\n"
        "%2 = input() {name=\"a\", dtype=f32, dims=[6,3]} : f32[6,3]\n"
        "%3 = input() {name=\"b\", dtype=f32, dims=[6,3]} : f32[6,3]\n"
        "%4 = pointwise(%2, %3) {code=add, dtype=none} : f32[6,3]\n"
        "%5, %6, %7",
        has_residual ? ", %8" : "", " = batch_norm_grad(%0, %1, %1, %1, %1, %4",
        has_residual ? ", %0" : "",
        ") {epsilon=1e-05, activation=relu, has_residual=", has_residual ? "true" : "false",
        ", has_addend=false, has_mask=false, has_sums=false, has_second=false} : f32[6,3], f32[3], "
        "f32[3]",
        has_residual ? ", f32[6,3]" : "", "\nreturn dx=%5", returns, "\n");
  };
  const std::string out = run(fuse_batch_norm_gradient_add, text(true, ", dz=%8"));
  EXPECT_THAT(out, HasSubstr("batch_norm_grad(%0, %1, %1, %1, %1, %2, %0, %3) {epsilon=1e-05, "
                             "activation=relu, has_residual=true, has_addend=true, has_mask=false, "
                             "has_sums=false, has_second=false}"));
  EXPECT_THAT(out, Not(HasSubstr("code=add")));
  run(fuse_batch_norm_gradient_add, text(true, ", sum=%4"), false);
  // A term that comes from elementwise code is added there, which saves its own store.
  std::string made = text(true, ", dz=%8");
  const std::string input = R"(%3 = input() {name="b", dtype=f32, dims=[6,3]})";
  made.replace(made.find(input), input.size(), "%3 = pointwise(%2) {code=tanh, dtype=none}");
  run(fuse_batch_norm_gradient_add, made, false);
  run(fuse_batch_norm_gradient_add, text(false, ""), false);
}

}  // namespace
}  // namespace assay
