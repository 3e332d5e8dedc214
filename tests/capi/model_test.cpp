#include <span>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

class ModelTest : public SmallModel {};

uint64_t memory_in_use(const assay_context* context) {
  assay_mem_stats stats{.struct_size = sizeof stats};
  ok(assay_context_mem_stats, context, device_under_test, &stats);
  return stats.in_use;
}

TEST_F(ModelTest, ListNamesWhatCanBeMade) {
  const auto list = report(assay_model_list);
  const auto& rows = at(list, "models").list_value().values();
  ASSERT_GE(rows.size(), 2);
  for (const auto& row : rows) {
    const std::string name = at(row.struct_value(), "name").string_value();
    make<assay_model>(assay_model_named, context.get(), text(name), text(""));
  }
}

TEST_F(ModelTest, ReportsKeepTheOrderOfTheHeader) {
  const auto listed = make<assay_report>(assay_model_list);
  EXPECT_THAT(string(assay_report_text(listed.get())),
              HasSubstr(R"("config":{"image":["28","28","1"],"classes":"10","conv":["32","64"],)"
                        R"("kernel":"5","batch_norm":true,"hidden":["256"],"dropout":0,)"
                        R"("activation":"relu"}})"));
  const auto model = make_model();
  const auto described = make<assay_report>(assay_model_report, model.get());
  EXPECT_THAT(string(assay_report_text(described.get())),
              testing::StartsWith(R"({"architecture":"cnn","config":{"image":["8","8","1"],)"
                                  R"("classes":"3","conv":["4"],"kernel":"3","batch_norm":true,)"
                                  R"("hidden":["0"],"dropout":0,"activation":"relu"},)"));
}

TEST_F(ModelTest, BadNamesAndConfigurations) {
  assay_model* out = nullptr;
  const auto fail_named = [&](assay_status status, std::string_view name, std::string_view config) {
    return fails(status, assay_model_named, context.get(), text(name), text(config), &out);
  };
  EXPECT_THAT(fail_named(ASSAY_E_NOT_FOUND, "cmn", ""), HasSubstr("cnn"));
  EXPECT_THAT(fail_named(ASSAY_E_INVALID, "cnn", R"({"kernle": 5})"), HasSubstr("kernle"));
  EXPECT_THAT(fail_named(ASSAY_E_INVALID, "cnn", R"({"kernel": 4})"), HasSubstr("kernel"));
  EXPECT_THAT(fail_named(ASSAY_E_INVALID, "cnn", R"({"kernel": "five"})"), HasSubstr("kernel"));
  fail_named(ASSAY_E_INVALID, "cnn", "{");
  fail_named(ASSAY_E_INVALID, "cnn", std::string_view("{\0}", 3));
  EXPECT_EQ(call(assay_model_named, context.get(), assay_str{nullptr, 3}, text(""), &out).argument,
            "arch");
}

TEST_F(ModelTest, ReportBeforeAnyWeight) {
  const auto model = make_model();
  const auto described = report(assay_model_report, model.get());
  EXPECT_EQ(memory_in_use(context.get()), 0u);
  EXPECT_EQ(at(described, "architecture").string_value(), "cnn");
  EXPECT_FALSE(at(described, "initialized").bool_value());
  // conv [4,3,3,1], batch norm 2 x 4, output [3,64] and 3
  EXPECT_EQ(number(described, "parameters"), 36 + 8 + 3 * 64 + 3);
  const auto& inputs = at(described, "inputs").list_value().values();
  ASSERT_EQ(inputs.size(), 2);
  EXPECT_EQ(at(inputs[0].struct_value(), "name").string_value(), "image");
  EXPECT_FALSE(inputs[0].struct_value().fields().contains("classes"));
  EXPECT_EQ(number(inputs[1].struct_value(), "classes"), 3);
  // The filters' standard deviation is sqrt(2 / (4 outputs x 9 places)).
  const auto& weight = at(described, "variables").list_value().values(0).struct_value();
  EXPECT_EQ(at(weight, "initializer").string_value(), "normal(0.23570226039551584)");
  std::vector<std::string> kinds;
  for (const auto& variable : at(described, "variables").list_value().values()) {
    if (at(variable.struct_value(), "role").string_value() == "value")
      kinds.push_back(at(variable.struct_value(), "kind").string_value());
  }
  EXPECT_THAT(kinds, testing::ElementsAre("kernel", "batch_norm", "batch_norm", "kernel", "bias"));
}

TEST_F(ModelTest, InitializeOnceFromTheSeed) {
  const auto first = make_model(), second = make_model(), third = make_model();
  ok(assay_model_initialize, first.get(), uint64_t{1});
  ok(assay_model_initialize, second.get(), uint64_t{1});
  ok(assay_model_initialize, third.get(), uint64_t{2});
  EXPECT_EQ(bits(first.get(), "block1.conv.weight"), bits(second.get(), "block1.conv.weight"));
  EXPECT_NE(bits(first.get(), "block1.conv.weight"), bits(third.get(), "block1.conv.weight"));
  fails(ASSAY_E_INVALID, assay_model_initialize, first.get(), uint64_t{1});
}

TEST_F(ModelTest, TensorsByName) {
  auto model = make_model();
  assay_tensor* out = nullptr;
  const auto fail_tensor = [&](assay_status status, std::string_view name, int32_t kind) {
    return fails(status, assay_model_tensor, model.get(), text(name), kind, &out);
  };
  EXPECT_THAT(fail_tensor(ASSAY_E_INVALID, "block1.conv.weight", ASSAY_KIND_VALUE),
              HasSubstr("no weights yet"));
  ok(assay_model_initialize, model.get(), uint64_t{1});
  EXPECT_THAT(fail_tensor(ASSAY_E_NOT_FOUND, "block9.conv.weight", ASSAY_KIND_VALUE),
              HasSubstr("block9"));
  fail_tensor(ASSAY_E_NOT_FOUND, "block1.conv.weight", ASSAY_KIND_MOMENT1);
  fail_tensor(ASSAY_E_NOT_FOUND, "block1.bn.running_mean", ASSAY_KIND_VALUE);
  fail_tensor(ASSAY_E_INVALID, "block1.conv.weight", 7);
  fail_tensor(ASSAY_E_INVALID, "block1.conv.weight", 0);

  const auto view =
      make<assay_tensor>(assay_model_tensor, model.get(), text("output.bias"), ASSAY_KIND_VALUE);
  const float bias[3] = {1, 2, 3};
  ok(assay_tensor_write, view.get(), bias, sizeof bias);
  EXPECT_TRUE(std::ranges::equal(bits(model.get(), "output.bias"), std::as_bytes(std::span(bias))));
  model.reset();  // the view keeps the storage
  float back[3] = {};
  ok(assay_tensor_read, view.get(), back, sizeof back);
  EXPECT_EQ(back[2], 3);
}

TEST_F(ModelTest, CheckSaysWhatTheRealThingTakes) {
  const auto model = make_model();
  const std::string config = R"({"batch_size": 6, "optimizer": {"name": "adam",
      "learning_rate": 0.01, "ema_decay": 0.9}})";
  const auto check =
      report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_TRAIN, text(config));
  EXPECT_EQ(memory_in_use(context.get()), 0u);
  EXPECT_EQ(at(check, "mode").string_value(), "train");
  EXPECT_EQ(number(check, "batch"), 6);
  EXPECT_GT(number(check, "flops"), 2.0 * 6 * 64 * 36 * 2);  // more than forward of the convolution
  int by_direction[3] = {};
  for (const auto& row : at(check, "ops").list_value().values()) {
    const std::string direction = at(row.struct_value(), "direction").string_value();
    ++by_direction[direction == "forward" ? 0 : direction == "backward" ? 1 : 2];
    EXPECT_NE(at(row.struct_value(), "kernel").string_value(), "");
  }
  EXPECT_GT(by_direction[0], 2);
  EXPECT_GT(by_direction[1], 2);
  EXPECT_GT(by_direction[2], 1);

  const auto trainer =
      make<assay_trainer>(assay_trainer_create, model.get(), nullptr, text(config));
  step(trainer.get(), batch);
  EXPECT_EQ(number(at(check, "memory").struct_value(), "total"),
            static_cast<double>(memory_in_use(context.get())));
}

TEST_F(ModelTest, CheckOfPrediction) {
  const auto model = make_model();
  const auto check = report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_PREDICT,
                            text(R"({"max_batch": 4, "use_ema": true})"));
  EXPECT_EQ(number(check, "batch"), 4);
  EXPECT_EQ(number(at(check, "memory").struct_value(), "gradients"), 0);
  report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_EVAL,
         text(R"({"batch_size": 2, "optimizer": {"name": "sgd", "learning_rate": 1}})"));
  EXPECT_EQ(memory_in_use(context.get()), 0u);
}

// oneDNN would divide by a number of rows that has overflowed.
TEST_F(ModelTest, CheckRefusesMoreRowsThanCanBeCounted) {
  if (!on_cpu()) GTEST_SKIP() << "a limit of the CPU's library";
  const auto model = make_model();
  assay_report* out = nullptr;
  for (const std::string samples : {"268435456", "1073741824"}) {
    const Outcome refused =
        call(assay_model_check, model.get(), device_under_test, ASSAY_MODE_TRAIN,
             text(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1}, "batch_size": )" +
                  samples + "}"),
             &out);
    EXPECT_EQ(refused.status, ASSAY_E_UNSUPPORTED);
    EXPECT_THAT(refused.message, HasSubstr("use a smaller batch"));
  }
}

TEST_F(ModelTest, CheckRefusesNonsense) {
  const auto model = make_model();
  assay_report* out = nullptr;
  const auto fail_check = [&](assay_status status, assay_device_id device, int32_t mode,
                              std::string_view config) {
    return fails(status, assay_model_check, model.get(), device, mode, text(config), &out);
  };
  fail_check(ASSAY_E_NOT_FOUND, {ASSAY_DEVICE_CUDA, 7}, ASSAY_MODE_TRAIN, kSgd);
  fail_check(ASSAY_E_INVALID, device_under_test, 0, kSgd);
  EXPECT_THAT(fail_check(ASSAY_E_INVALID, device_under_test, ASSAY_MODE_TRAIN, kSgd),
              HasSubstr("batch_size"));
  EXPECT_THAT(fail_check(ASSAY_E_INVALID, device_under_test, ASSAY_MODE_PREDICT, R"({"batch": 1})"),
              HasSubstr("batch"));
}

TEST_F(ModelTest, SafetensorsRoundTrip) {
  const TemporaryFolder folder;
  const std::string path = folder.at("weights.safetensors");
  const auto model = make_model();
  fails(ASSAY_E_INVALID, assay_model_save_weights, model.get(), text(path), text("safetensors"),
        text(""));
  ok(assay_model_initialize, model.get(), uint64_t{3});
  ok(assay_model_save_weights, model.get(), text(path), text("safetensors"), text(""));
  const auto copy = make_model();
  const auto loaded =
      report(assay_model_load_weights, copy.get(), text(path), text("safetensors"), text(""), 0u);
  EXPECT_EQ(at(loaded, "loaded").list_value().values_size(), 7);
  for (const char* name : {"block1.conv.weight", "block1.bn.bias", "output.weight"}) {
    EXPECT_EQ(bits(model.get(), name), bits(copy.get(), name)) << name;
  }
}

TEST_F(ModelTest, WeightsThatDoNotFit) {
  const TemporaryFolder folder;
  const std::string path = folder.at("weights.safetensors");
  const auto wide = make<assay_model>(
      assay_model_named, context.get(), text("cnn"),
      text(R"({"image": [8, 8, 1], "classes": 5, "conv": [4], "kernel": 3, "hidden": [0]})"));
  ok(assay_model_initialize, wide.get(), uint64_t{3});
  ok(assay_model_save_weights, wide.get(), text(path), text("safetensors"), text(""));

  const auto model = make_model();
  const auto load = [&](std::string_view from, std::string_view format, uint32_t flags) {
    return call(assay_model_load_weights, model.get(), text(from), text(format), text(""), flags,
                nullptr);
  };
  EXPECT_THAT(load(path, "safetensors", 0).message, HasSubstr("output"));
  EXPECT_FALSE(at(report(assay_model_report, model.get()), "initialized").bool_value());
  EXPECT_EQ(load(path, "safetensors", ASSAY_WEIGHTS_PARTIAL).status, ASSAY_E_INVALID);
  EXPECT_EQ(load(path, "safetensors", 8).status, ASSAY_E_INVALID);
  EXPECT_EQ(load(path, "onnx", 0).status, ASSAY_E_INVALID);
  EXPECT_EQ(load(folder.at("nothing"), "safetensors", 0).status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(load(path, "checkpoint", 0).status, ASSAY_E_FORMAT);
  EXPECT_EQ(load("", "safetensors", 0).status, ASSAY_E_INVALID);

  ok(assay_model_initialize, model.get(), uint64_t{1});
  EXPECT_EQ(load(path, "safetensors", ASSAY_WEIGHTS_PARTIAL).status, ASSAY_OK);
  EXPECT_EQ(bits(model.get(), "block1.conv.weight"), bits(wide.get(), "block1.conv.weight"));
  const auto trainer = make_trainer(model.get());
  EXPECT_THAT(load(path, "safetensors", ASSAY_WEIGHTS_PARTIAL).message, HasSubstr("trainer"));
}

}  // namespace
}  // namespace assay::test
