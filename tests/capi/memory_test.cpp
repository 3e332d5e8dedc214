// What assay_model_check says a training takes, against what the context then counts: all models,
// every kind of configuration.
#include "tests/capi/support.h"

namespace assay::test {
namespace {

using google::protobuf::Struct;

struct ModelCase {
  std::string name, config;
  int64_t batch;
};
// The name is GoogleTest's. NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const ModelCase& c, std::ostream* out) { *out << c.name; }

// A batch of zeros in whatever form the model takes, as bytes if images come raw; labels of class
// 0.
class AnyBatch {
 public:
  AnyBatch(const assay_context* context, const assay_model* model, int64_t rows, bool raw = false) {
    const Struct described = report(assay_model_report, model);
    for (const auto& value : at(described, "inputs").list_value().values()) {
      const Struct& input = value.struct_value();
      std::vector<int64_t> shape{rows};
      for (const auto& size : at(input, "sample_shape").list_value().values())
        shape.push_back(static_cast<int64_t>(size.number_value()));
      const bool is_int = at(input, "dtype").string_value() == "i32";
      add(context, shape, is_int ? ASSAY_I32 : raw ? ASSAY_U8 : ASSAY_F32);
    }
    if (raw) add(context, {rows, 4}, ASSAY_I32);  // placement
  }
  const assay_tensor* const* tensors() const { return tensors_.data(); }
  size_t size() const { return tensors_.size(); }

 private:
  void add(const assay_context* context, const std::vector<int64_t>& shape, int32_t dtype) {
    int64_t bytes = dtype == ASSAY_U8 ? 1 : 4;
    for (const int64_t size : shape) bytes *= size;
    auto& data = data_.emplace_back(static_cast<size_t>(bytes));
    owned_.push_back(make<assay_tensor>(assay_tensor_borrow, context,
                                        static_cast<void*>(data.data()), data.size(), dtype,
                                        shape.data(), shape.size(), nullptr, 0));
    tensors_.push_back(owned_.back().get());
  }

  std::vector<std::vector<std::byte>> data_;
  std::vector<Owned<assay_tensor>> owned_;
  std::vector<const assay_tensor*> tensors_;
};

double total(const Struct& check) { return number(at(check, "memory").struct_value(), "total"); }

class Memory : public testing::TestWithParam<ModelCase> {
 protected:
  double in_use() const {
    assay_mem_stats stats{.struct_size = sizeof stats};
    ok(assay_context_mem_stats, context.get(), device_under_test, &stats);
    return static_cast<double>(stats.in_use);
  }
  Owned<assay_model> make_model() const {
    return make<assay_model>(assay_model_named, context.get(), text(GetParam().name),
                             text(GetParam().config));
  }
  std::string config(const std::string& keys) const {
    return R"({"batch_size": )" + std::to_string(GetParam().batch) + ", " + keys + "}";
  }
  Owned<assay_context> context = make_context();
};

TEST_P(Memory, IsWhatCheckSaid) {
  const std::string sgd = R"("optimizer": {"name": "sgd", "learning_rate": 1e-4})";
  const std::string ema =
      R"("optimizer": {"name": "adam", "learning_rate": 1e-4, "ema_decay": 0.9})";
  std::vector<std::string> configurations{sgd, ema + R"(, "precision": "amp-bf16")",
                                          sgd + R"(, "accumulate": 3)",
                                          sgd + R"(, "accumulate": 3, "emulated_devices": 3)",
                                          ema + R"(, "accumulate": 2, "eval_batch_size": 9)"};
  if (GetParam().name != "unet_medical") {
    configurations.push_back(sgd + R"(, "mixup_alpha": 0.2, "label_smoothing": 0.1)");
    configurations.push_back(sgd + R"(, "mixup_alpha": 0.2, "raw_images": {})");
  }
  for (const std::string& keys : configurations) {
    const auto model = make_model();
    const auto check = report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_TRAIN,
                              text(config(keys)));
    EXPECT_EQ(in_use(), 0);
    const auto trainer =
        make<assay_trainer>(assay_trainer_create, model.get(), nullptr, text(config(keys)));
    const bool has_ema = keys.find("ema") != std::string::npos;
    const int64_t eval_rows = keys.find("eval") != std::string::npos ? 9 : GetParam().batch;
    const int updates = 1, accumulate = keys.find(": 3") != std::string::npos   ? 3
                                        : keys.find(": 2") != std::string::npos ? 2
                                                                                : 1;
    const bool raw = keys.find("raw") != std::string::npos;
    const AnyBatch batch(context.get(), model.get(), GetParam().batch, raw);
    for (int i = 0; i < updates * accumulate; ++i)
      ok(assay_trainer_step, trainer.get(), batch.tensors(), batch.size(), nullptr);
    EXPECT_EQ(total(check), in_use()) << keys;
    const AnyBatch others(context.get(), model.get(), eval_rows);
    for (const uint32_t flags : {uint32_t{0}, uint32_t{ASSAY_EVAL_EMA}}) {
      if (flags == 0 || has_ema)
        ok(assay_trainer_eval, trainer.get(), others.tensors(), others.size(), flags, nullptr);
    }
    EXPECT_EQ(total(check), in_use()) << keys << ", evaluated";
    // A report adds no program.
    const auto described = report(assay_trainer_report, trainer.get());
    EXPECT_EQ(total(check), in_use()) << keys << ", reported";
    EXPECT_EQ(total(described), in_use()) << keys;
    const bool halves = accumulate > 1;
    for (const auto& row : at(described, "passes").list_value().values()) {
      const std::string program = at(row.struct_value(), "program").string_value();
      EXPECT_TRUE(halves ? program == "backward" || program == "apply" : program == "step")
          << program;
    }
  }
}

TEST_P(Memory, OfEvaluationAlone) {
  const std::string keys = R"("optimizer": {"name": "sgd", "learning_rate": 1e-4})";
  const auto model = make_model();
  const auto check = report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_EVAL,
                            text(config(keys)));
  const auto trainer =
      make<assay_trainer>(assay_trainer_create, model.get(), nullptr, text(config(keys)));
  const AnyBatch batch(context.get(), model.get(), GetParam().batch);
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), batch.size(), uint32_t{0}, nullptr);
  EXPECT_EQ(total(check), in_use());
  const auto training = report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_TRAIN,
                               text(config(keys)));
  ok(assay_trainer_step, trainer.get(), batch.tensors(), batch.size(), nullptr);
  EXPECT_EQ(total(training), in_use());  // the arena has grown
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), batch.size(), uint32_t{0}, nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Memory,
    testing::Values(
        ModelCase{"cnn", R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16]})", 8},
        ModelCase{"resnet18", R"({"image": [16, 16, 3], "width": 8})", 4},
        ModelCase{"resnet50", R"({"image": [32, 32, 3], "classes": 10, "width": 8})", 4},
        ModelCase{"unet_medical", R"({"image": [92, 92, 1], "width": 4, "depth": 3})", 2}),
    [](const auto& param) { return param.param.name; });

// Accumulating runs two programs where one did; they share their arena.
TEST(AccumulationMemory, IsThatOfAWholeStep) {
  const auto context = make_context();
  const auto model = make<assay_model>(assay_model_named, context.get(), text("resnet18"),
                                       text(R"({"image": [32, 32, 3]})"));
  const std::string sgd =
      R"({"batch_size": 64, "optimizer": {"name": "sgd", "learning_rate": 0.1}, "accumulate": )";
  const auto check = [&](const char* accumulate) {
    return total(report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_TRAIN,
                        text(sgd + accumulate + "}")));
  };
  EXPECT_LE(check("2"), 1.1 * check("1"));
}

}  // namespace
}  // namespace assay::test
