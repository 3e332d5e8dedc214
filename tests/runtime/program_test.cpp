#include "sdk/runtime/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sdk/backend/cpu/device.h"
#include "sdk/graph/elementwise.h"
#include "tests/harness/graph_text.h"

namespace assay {
namespace {

using testing::ElementsAre;

class ProgramTest : public testing::Test {
 protected:
  std::unique_ptr<Program> compile_text(const std::string& text,
                                        const CompileOptions& options = {}) {
    segments.ensure(Role::kValue);
    segments.ensure(Role::kGradient);
    return compile(parse_graph(text), segments, options);
  }
  static void write(Program& program, const char* name, const std::vector<float>& values) {
    program.backend().write(program.input(name).data, values.data(), values.size() * sizeof(float));
  }
  static std::vector<float> read(const void* data, size_t n) {
    const auto* values = static_cast<const float*>(data);
    return {values, values + n};
  }

  std::unique_ptr<Backend> backend = cpu::make_backend({.threads = 1});
  VariableTable variables;
  Segments segments{*backend, variables};
};

const char* const kTwoInputs =
    "%0 = input() {name=\"a\", dtype=f32, dims=[3]} : f32[3]\n"
    "%1 = input() {name=\"b\", dtype=f32, dims=[3]} : f32[3]\n";

TEST_F(ProgramTest, RunsOnWhatTheInputsHold) {
  const auto program =
      compile_text(std::string(kTwoInputs) +
                   "%2 = pointwise(%0, %1) {code=add, dtype=none} : f32[3]\nreturn sum=%2\n");
  write(*program, "a", {1, 2, 3});
  write(*program, "b", {10, 20, 30});
  for (int repeat = 0; repeat < 2; ++repeat) {
    program->run();
    EXPECT_THAT(read(program->output("sum").data, 3), ElementsAre(11, 22, 33));
  }
}

// A small program runs first; a larger one makes the arena grow, and the first runs on in it.
TEST_F(ProgramTest, ProgramsShareAnArenaThatGrows) {
  const auto arena = std::make_shared<Arena>(*backend);
  const auto text = [](int n) {
    return cat("%0 = input() {name=\"a\", dtype=f32, dims=[", n, "]} : f32[", n,
               "]\n%1 = pointwise(%0, %0) {code=add, dtype=none} : f32[", n,
               "]\n%2 = pointwise(%1, %0) {code=add, dtype=none} : f32[", n,
               "]\nreturn thrice=%2\n");
  };
  const auto small = compile_text(text(3), {.arena = arena});
  write(*small, "a", {1, 2, 3});
  small->run();
  EXPECT_THAT(read(small->output("thrice").data, 3), ElementsAre(3, 6, 9));
  const size_t before = arena->bytes();
  const auto large = compile_text(text(1000), {.arena = arena});
  const auto again = compile_text(text(1000), {.arena = arena});
  EXPECT_EQ(again->input("a").data, large->input("a").data);
  write(*large, "a", std::vector<float>(1000, 2));
  large->run();
  EXPECT_EQ(read(large->output("thrice").data, 1000), std::vector<float>(1000, 6));
  small->run();
  EXPECT_THAT(read(small->output("thrice").data, 3), ElementsAre(3, 6, 9));
  EXPECT_EQ(small->output("thrice").data >= arena->data(), true);
  EXPECT_EQ(arena->bytes(), large->memory().arena_bytes);
  EXPECT_GT(arena->bytes(), before);
  EXPECT_EQ(arena->input_bytes(), 4u * 1003);
}

TEST_F(ProgramTest, UnknownPortsNameWhatExists) {
  const auto program =
      compile_text(std::string(kTwoInputs) +
                   "%2 = pointwise(%0, %1) {code=add, dtype=none} : f32[3]\nreturn sum=%2\n");
  try {
    program->input("c");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("there are a and b"));
  }
}

// An in-place activation must not destroy a value that someone reads later, and inputs are never
// overwritten.
TEST_F(ProgramTest, TakesOverOnlyDyingBuffers) {
  const auto program = compile_text(std::string(kTwoInputs) +
                                    "%2 = pointwise(%0, %1) {code=add, dtype=none} : f32[3]\n"
                                    "%3 = pointwise(%2) {code=relu, dtype=none} : f32[3]\n"
                                    "%4 = pointwise(%3, %2) {code=add, dtype=none} : f32[3]\n"
                                    "return y=%4\n");
  write(*program, "a", {1, -2, 3});
  write(*program, "b", {1, 1, 1});
  for (int repeat = 0; repeat < 2; ++repeat) {
    program->run();
    EXPECT_THAT(read(program->output("y").data, 3), ElementsAre(4, -1, 8));
    EXPECT_THAT(read(program->input("a").data, 3), ElementsAre(1, -2, 3));
  }
}

// y = conv(x) + x: taking over x's memory for the sum would destroy what the convolution reads.
TEST_F(ProgramTest, AnInputReadTwiceKeepsItsMemory) {
  variables.add({"w", {2, 3, 3, 2}, DType::kF32, Role::kValue, {}});
  segments.ensure(Role::kValue);
  auto* w = static_cast<float*>(segments.tensor("w", Role::kValue).data);
  for (int i = 0; i < 36; ++i) w[i] = static_cast<float>(i % 5 - 2);
  const std::string leaves =
      "%0 = input() {name=\"a\", dtype=f32, dims=[1,6,6,2]} : f32[1,6,6,2]\n"
      "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[2,3,3,2]} : f32[2,3,3,2]\n"
      "%2 = pointwise(%0, %0) {code=add, dtype=none} : f32[1,6,6,2]\n"
      "%3 = pointwise(%0, %0) {code=add, dtype=none} : f32[1,6,6,2]\n";
  const std::string attributes =
      "{stride=[1,1], pad_begin=[1,1], pad_end=[1,1], dilation=[1,1], groups=1, has_bias=false, "
      "has_residual=true, activation=none, keep_pre=false, keep_sums=false} : f32[1,6,6,2]\nreturn "
      "y=%4\n";
  const auto once = compile_text(leaves + "%4 = conv2d(%2, %1, %2) " + attributes);
  const auto apart = compile_text(leaves + "%4 = conv2d(%2, %1, %3) " + attributes);
  std::vector<float> a(72);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7);
  for (Program* program : {once.get(), apart.get()}) {
    write(*program, "a", a);
    program->run();
  }
  EXPECT_EQ(read(once->output("y").data, 72), read(apart->output("y").data, 72));
}

// A view that dies gives its memory to nobody: others stand in it.
TEST_F(ProgramTest, ViewsAreNotOverwritten) {
  const auto program = compile_text(
      "%0 = input() {name=\"a\", dtype=f32, dims=[32]} : f32[32]\n"
      "%1 = pointwise(%0, %0) {code=add, dtype=none} : f32[32]\n"
      "%2 = slice(%1) {begin=[0], dims=[16]} : f32[16] in %1 +0 [1]\n"
      "%3 = slice(%1) {begin=[16], dims=[16]} : f32[16] in %1 +16 [1]\n"
      "%4 = pointwise(%3) {code=relu, dtype=none} : f32[16]\n"
      "%5 = pointwise(%4, %2) {code=add, dtype=none} : f32[16]\n"
      "%6 = pointwise(%2) {code=relu, dtype=none} : f32[16]\n"
      "%7 = pointwise(%5, %6) {code=add, dtype=none} : f32[16]\n"
      "return y=%7\n");
  EXPECT_EQ(program->plan_text().find("copy("), std::string::npos);
  std::vector<float> a(32);
  for (size_t i = 0; i < 32; ++i) a[i] = static_cast<float>(i) - 10;
  write(*program, "a", a);
  program->run();
  const std::vector<float> y = read(program->output("y").data, 16);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(y[i], 2 * std::max(a[16 + i], 0.0f) + 2 * a[i] + 2 * std::max(a[i], 0.0f)) << i;
  }
}

// What is seen otherwise, but whole, is taken over as what it is a view of would be; a part of it
// is not, though nobody reads it later.
TEST_F(ProgramTest, WholeViewsAreTakenOverAndPartsAreNot) {
  const std::string input =
      "%0 = input() {name=\"a\", dtype=f32, dims=[4096]} : f32[4096]\n"
      "%1 = pointwise(%0, %0) {code=add, dtype=none} : f32[4096]\n";
  const auto whole = compile_text(input +
                                  "%2 = reshape(%1) {dims=[64,64]} : f32[64,64] in %1 +0 [64,1]\n"
                                  "%3 = pointwise(%2) {code=relu, dtype=none} : f32[64,64]\n"
                                  "return y=%3\n");
  EXPECT_EQ(whole->memory().arena_bytes, 4096u * 4);
  const auto part =
      compile_text(input +
                   "%2 = slice(%1) {begin=[0], dims=[4080]} : f32[4080] in %1 +0 [1]\n"
                   "%3 = pointwise(%2) {code=relu, dtype=none} : f32[4080]\n"
                   "return y=%3\n");
  EXPECT_EQ(part->memory().arena_bytes, 4096u * 4 + 4080 * 4);
  for (Program* const program : {whole.get(), part.get()}) {
    std::vector<float> a(4096);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) - 2000;
    write(*program, "a", a);
    program->run();
    const std::vector<float> y = read(program->output("y").data, 4080);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 2 * std::max(a[i], 0.0f)) << i;
  }
}

// One block holds the parts of a concatenation and the concatenation.
TEST_F(ProgramTest, PlacedPartsTakeNoMemory) {
  variables.add({"w", {4, 2, 2, 16}, DType::kF32, Role::kValue, {}});
  const auto program = compile_text(
      "%0 = input() {name=\"a\", dtype=f32, dims=[1,8,8,4]} : f32[1,8,8,4]\n"
      "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[4,2,2,16]} : f32[4,2,2,16]\n"
      "%2 = conv2d_transpose(%0, %1) {stride=[2,2], pad_begin=[0,0], pad_end=[0,0], "
      "dilation=[1,1], groups=1, y_dims=[1,16,16,16], has_bias=false, activation=relu} : "
      "f32[1,16,16,16]\n"
      "%3 = input() {name=\"b\", dtype=f32, dims=[1,16,16,16]} : f32[1,16,16,16]\n"
      "%4 = concat(%2, %3) {axis=3} : f32[1,16,16,32]\n"
      "return y=%4\n");
  const MemoryReport& memory = program->memory();
  EXPECT_LT(memory.arena_bytes, 16u * 16 * 32 * 4 + 16 * 16 * 16 * 4 + 20000);  // y, scratch
  write(*program, "b", std::vector<float>(16 * 16 * 16, 7));
  program->run();
  const std::vector<float> y = read(program->output("y").data, 64);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[16], 7);
}

// Constant parts of what changes are written at each run: their memory is used for others between.
TEST_F(ProgramTest, ConstantPartsOfWhatChangesAreNoConstants) {
  variables.add({"w", {4}, DType::kF32, Role::kValue, {}});
  segments.ensure(Role::kValue);
  std::fill_n(static_cast<float*>(segments.tensor("w", Role::kValue).data), 4, 3.0f);
  const std::string leaves =
      "%0 = input() {name=\"a\", dtype=f32, dims=[4]} : f32[4]\n"
      "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[4]} : f32[4]\n";
  const auto store = std::make_shared<ConstantStore>();
  const auto changing =
      compile_text(leaves +
                       "%2 = concat(%1, %0) {axis=0} : f32[8]\n"
                       "%3 = pointwise(%2, %2) {code=add, dtype=none} : f32[8]\nreturn y=%3\n",
                   {store});
  for (const float value : {1.0f, 2.0f}) {
    write(*changing, "a", {value, value, value, value});
    changing->run();
    EXPECT_THAT(read(changing->output("y").data, 8),
                ElementsAre(6, 6, 6, 6, 2 * value, 2 * value, 2 * value, 2 * value));
  }
  for (int program = 0; program < 2; ++program) {
    const auto constant =
        compile_text(leaves +
                         "%2 = concat(%1, %1) {axis=0} : f32[8]\n"
                         "%3 = concat(%0, %0) {axis=0} : f32[8]\n"
                         "%4 = pointwise(%2, %3) {code=add, dtype=none} : f32[8]\nreturn y=%4\n",
                     {store});
    write(*constant, "a", {1, 2, 3, 4});
    constant->run();
    EXPECT_THAT(read(constant->output("y").data, 8), ElementsAre(4, 5, 6, 7, 4, 5, 6, 7));
  }
}

// A predictor's weights are brought into the kernel's layout once, when the program is made.
TEST_F(ProgramTest, PreparesConstantWeightsOnce) {
  variables.add({"w", {64, 64}, DType::kF32, Role::kValue, {}});
  const std::string text =
      "%0 = input() {name=\"x\", dtype=f32, dims=[1,64]} : f32[1,64]\n"
      "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[64,64]} : f32[64,64]\n"
      "%2 = matmul(%0, %1) {transpose_a=false, transpose_b=true, has_bias=false, "
      "activation=none, dtype=f32, keep_pre=false} : f32[1,64]\n"
      "return y=%2\n";
  segments.ensure(Role::kValue);
  auto* w = static_cast<float*>(segments.tensor("w", Role::kValue).data);
  std::fill_n(w, 64 * 64, 1.0f);
  const auto trained = compile_text(text);
  const auto served = compile_text(text, {.constants = std::make_shared<ConstantStore>()});
  EXPECT_EQ(trained->memory().constant_bytes, 0u);
  EXPECT_GE(served->memory().constant_bytes, 64u * 64 * sizeof(float));
  std::fill_n(w, 64 * 64, 2.0f);
  for (Program* program : {trained.get(), served.get()}) {
    write(*program, "x", std::vector<float>(64, 1.0f));
    program->run();
    EXPECT_THAT(read(program->output("y").data, 64),
                testing::Each(program == trained.get() ? 128.0f : 64.0f));
  }
}

// One convolution whose filters are transformed (Winograd) behind a folded batch norm.
std::string folded_convolution(int batch) {
  const std::string image = cat("[", batch, ",16,16,64]");
  return cat("%0 = input() {name=\"x\", dtype=f32, dims=", image, "} : f32", image, "\n",
             "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[64,3,3,64]} : "
             "f32[64,3,3,64]\n"
             "%2 = pointwise(%1, %1) {code=add, dtype=none} : f32[64,3,3,64]\n"
             "%3 = conv2d(%0, %2) {stride=[1,1], pad_begin=[1,1], pad_end=[1,1], dilation=[1,1], "
             "groups=1, has_bias=false, has_residual=false, activation=none, keep_pre=false, "
             "keep_sums=false} : f32",
             image, "\nreturn y=%3\n");
}

TEST_F(ProgramTest, ConstantsAreSharedAmongPrograms) {
  variables.add({"w", {64, 3, 3, 64}, DType::kF32, Role::kValue, {}});
  segments.ensure(Role::kValue);
  auto* w = static_cast<float*>(segments.tensor("w", Role::kValue).data);
  constexpr size_t kWeights = 64 * 3 * 3 * 64;
  std::fill_n(w, kWeights, 1.0f);
  const auto store = std::make_shared<ConstantStore>();
  const CompileOptions options{.constants = store};
  auto one = compile_text(folded_convolution(2), options);
  const uint64_t bytes = store->bytes();
  EXPECT_GT(bytes, kWeights * sizeof(float));
  EXPECT_EQ(one->memory().constant_bytes, bytes);
  std::fill_n(w, kWeights, 9.0f);  // whose doubles nobody computes again
  auto other = compile_text(folded_convolution(4), options);
  EXPECT_EQ(store->bytes(), bytes);
  EXPECT_EQ(other->memory().constant_bytes, bytes);
  one.reset();  // the other one goes on holding them
  EXPECT_EQ(store->bytes(), bytes);
  write(*other, "x", std::vector<float>(4 * 16 * 16 * 64, 1.0f));
  other->run();
  const auto y = read(other->output("y").data, 4 * 16 * 16 * 64);
  EXPECT_NEAR(y[(16 * 5 + 5) * 64], 2 * 9 * 64, 1e-2);  // away from the padding
  other.reset();
  EXPECT_EQ(store->bytes(), 0u);
  std::fill_n(w, kWeights, 0.0f);
  const auto fresh = compile_text(folded_convolution(2), options);
  write(*fresh, "x", std::vector<float>(2 * 16 * 16 * 64, 1.0f));
  fresh->run();
  EXPECT_EQ(read(fresh->output("y").data, 1)[0], 0);
}

TEST_F(ProgramTest, PreparedFiltersTakeNoScratch) {
  variables.add({"w", {64, 3, 3, 64}, DType::kF32, Role::kValue, {}});
  const auto trained = compile_text(folded_convolution(4));
  const auto served =
      compile_text(folded_convolution(4), {.constants = std::make_shared<ConstantStore>()});
  constexpr uint64_t kWeightBytes = 64 * 3 * 3 * 64 * sizeof(float);
  const uint64_t prepared = served->memory().constant_bytes - kWeightBytes;  // less the sum
  EXPECT_GE(prepared, kWeightBytes);
  EXPECT_LE(served->memory().arena_bytes + prepared, trained->memory().arena_bytes);
}

TEST_F(ProgramTest, StoresComputeInPlaceAtTheirDestination) {
  variables.add({"w", {3}, DType::kF32, Role::kValue, {}});
  const std::string text =
      std::string(kTwoInputs) +
      "%2 = pointwise(%0, %1) {code=add, dtype=none} : f32[3]\n"
      "%3 = parameter() {name=\"w\", role=gradient, dtype=f32, dims=[3]} : f32[3]\n"
      "%4 = store(%3, %2) {accumulate=";
  const auto first = compile_text(text + "false} : f32[3]\n");
  const auto next = compile_text(text + "true} : f32[3]\n");
  const float* gradient = static_cast<const float*>(segments.tensor("w", Role::kGradient).data);
  for (Program* program : {first.get(), next.get()}) {
    write(*program, "a", {1, 2, 3});
    write(*program, "b", {1, 1, 1});
  }
  first->run();
  EXPECT_THAT(read(gradient, 3), ElementsAre(2, 3, 4));
  EXPECT_EQ(first->memory().arena_bytes, 0u);
  next->run();
  next->run();
  EXPECT_THAT(read(gradient, 3), ElementsAre(6, 9, 12));
}

// Two variables [rows,2] and one product, y = x [a; b]^T, and a gradient of both, y^T x.
Graph joined(int64_t rows) {
  Graph g;
  const ValueId x = g.emit1(Input{"x", DType::kF32, {1, 2}}, {});
  const auto leaf = [&](const char* name, Role role) {
    return g.emit1(Parameter{name, role, DType::kF32, {rows, 2}}, {});
  };
  const ValueId w = g.emit1(Concat{0}, {leaf("a", Role::kValue), leaf("b", Role::kValue)});
  const ValueId y = g.emit1(Matmul{.transpose_b = true}, {x, w});
  const ValueId dw = g.emit1(Matmul{.transpose_a = true}, {y, x});
  const ValueId da = g.emit1(Slice{{0, 0}, {rows, 2}}, {dw});
  const ValueId db = g.emit1(Slice{{rows, 0}, {rows, 2}}, {dw});
  g.emit(Store{}, {leaf("a", Role::kGradient), da});
  g.emit(Store{}, {leaf("b", Role::kGradient), db});
  g.outputs() = {{"y", y}};
  return g;
}

// Without a copy where they lie side by side: 8 rows are 64 bytes, 3 are not.
TEST_F(ProgramTest, ParametersSideBySideAreOneOperand) {
  for (const int64_t rows : {8, 3}) {
    VariableTable two;
    for (const char* name : {"a", "b"}) two.add({name, {rows, 2}, DType::kF32, Role::kValue, {}});
    Segments memory(*backend, two);
    const auto at = [&](const char* name, Role role) {
      memory.ensure(role);
      return static_cast<float*>(memory.tensor(name, role).data);
    };
    for (int64_t i = 0; i < 2 * rows; ++i) {
      at("a", Role::kValue)[i] = static_cast<float>(i);
      at("b", Role::kValue)[i] = static_cast<float>(100 + i);
    }
    at("a", Role::kGradient);
    const auto program = compile(joined(rows), memory);
    write(*program, "x", {1, 10});
    program->run();
    const auto y = read(program->output("y").data, static_cast<size_t>(2 * rows));
    for (int64_t i = 0; i < rows; ++i) {
      // a's row i is (2i, 2i + 1)
      EXPECT_EQ(y[i], static_cast<float>(22 * i + 10)) << i;
      EXPECT_EQ(y[rows + i], static_cast<float>(22 * i + 1110)) << i;
      EXPECT_EQ(at("a", Role::kGradient)[2 * i + 1], 10 * y[i]) << i;
      EXPECT_EQ(at("b", Role::kGradient)[2 * i + 1], 10 * y[rows + i]) << i;
    }
    const std::string text = program->plan_text();
    EXPECT_EQ(text.find("copy(") != std::string::npos, rows == 3) << text;
    // Nothing but y takes memory of the arena.
    EXPECT_EQ(text.find(" @") != text.rfind(" @"), rows == 3) << text;
  }
}

TEST_F(ProgramTest, ConstantsAreComputedOnce) {
  variables.add({"w", {3}, DType::kF32, Role::kValue, {}});
  const auto program = compile_text(
      "%0 = parameter() {name=\"w\", role=value, dtype=f32, dims=[3]} : f32[3]\n"
      "%1 = pointwise(%0, %0) {code=add, dtype=none} : f32[3]\n"
      "%2 = input() {name=\"x\", dtype=f32, dims=[3]} : f32[3]\n"
      "%3 = pointwise(%1, %2) {code=add, dtype=none} : f32[3]\nreturn y=%3\n",
      {.constants = std::make_shared<ConstantStore>()});
  EXPECT_GT(program->memory().constant_bytes, 0u);
  // Changing the weight afterwards changes nothing: 2w was taken when w was 0.
  const std::vector<float> changed{5, 5, 5};
  backend->write(segments.tensor("w", Role::kValue).data, changed.data(), 12);
  write(*program, "x", {1, 2, 3});
  program->run();
  EXPECT_THAT(read(program->output("y").data, 3), ElementsAre(1, 2, 3));
}

TEST_F(ProgramTest, CancelStopsBeforeAnyUpdate) {
  const auto program =
      compile_text(std::string(kTwoInputs) +
                   "%2 = pointwise(%0, %1) {code=add, dtype=none} : f32[3]\nreturn sum=%2\n");
  const std::atomic<bool> cancel{true};
  try {
    program->run(&cancel);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kCancelled);
  }
}

TEST_F(ProgramTest, ProfileAndPlanTextNameEveryLaunch) {
  const auto program = compile_text(
      std::string(kTwoInputs) +
      "%2 = pointwise(%0, %1) {code=add, dtype=none} : f32[3]  # block.sum\nreturn sum=%2\n");
  const auto rows = program->profile(3);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].op, "pointwise");
  EXPECT_EQ(rows[0].scope, "block.sum");
  EXPECT_GT(rows[0].bytes, 0);
  EXPECT_THAT(program->plan_text(),
              testing::HasSubstr(
                  "pointwise(%0, %1) {code=add, dtype=none} : f32[3]  # block.sum @0  [own:"));
}

}  // namespace
}  // namespace assay
