#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

class PredictorTest : public SmallModel {
 protected:
  PredictorTest() { ok(assay_model_initialize, model.get(), uint64_t{1}); }
  Owned<assay_predictor> make_predictor(std::string_view config = R"({"max_batch": 8})") const {
    return make<assay_predictor>(assay_predictor_create, model.get(), text(config));
  }
  Owned<assay_slot> make_slot(const assay_predictor* of) const {
    return make<assay_slot>(assay_slot_create, of);
  }
  Owned<assay_model> model = make_model();
};

TEST_F(PredictorTest, ReportsWhatItTakesAndGives) {
  const auto described = report(assay_predictor_report, make_predictor().get());
  ASSERT_EQ(at(described, "inputs").list_value().values_size(), 1);
  const auto& outputs = at(described, "outputs").list_value().values();
  ASSERT_EQ(outputs.size(), 2);
  EXPECT_EQ(at(outputs[0].struct_value(), "name").string_value(), "logits");
  EXPECT_EQ(at(outputs[0].struct_value(), "sample_shape").list_value().values(0).number_value(), 3);
  EXPECT_EQ(number(described, "max_batch"), 8);
}

TEST_F(PredictorTest, ItsKeysAreExplainedInTheHeader) {
  assay_predictor* none = nullptr;
  const Outcome outcome = call(assay_predictor_create, model.get(), text(R"({"zzz": 1})"), &none);
  std::ifstream file(ASSAY_SOURCE_DIR "/capi/include/assay/assay.h");
  const std::string header{std::istreambuf_iterator<char>(file), {}};
  const std::regex key("[a-z]+_?[a-z]*");
  int keys = 0;
  for (std::sregex_iterator it(outcome.expected.begin(), outcome.expected.end(), key), end;
       it != end; ++it) {
    if (it->str() == "and" || it->str() == "or") continue;
    EXPECT_NE(header.find('"' + it->str() + '"'), std::string::npos) << it->str();
    ++keys;
  }
  EXPECT_GE(keys, 8) << outcome.expected;
}

TEST_F(PredictorTest, ViewsAreGivenAgain) {
  const auto predictor = make_predictor();
  auto slot = make_slot(predictor.get());
  ok(assay_slot_prepare, slot.get(), kBatch);
  assay_tensor* out[2] = {nullptr, nullptr};
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, out, size_t{2});
  const Owned<assay_tensor> logits(out[0]), probabilities(out[1]);
  float sum = 0;
  for (int k = 0; k < 3; ++k) sum += floats_of(probabilities.get())[k];
  EXPECT_NEAR(sum, 1, 1e-6);
  const float first = floats_of(logits.get())[0];
  const float zeros[3 * kBatch] = {};
  fails(ASSAY_E_INVALID, assay_tensor_write, logits.get(), zeros, sizeof zeros);

  for (float& value : batch.images()) value = 1 - value;
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, out, size_t{2});
  EXPECT_EQ(out[0], logits.get());
  EXPECT_NE(floats_of(logits.get())[0], first);
  assay_tensor* again = nullptr;
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &again,
     size_t{1});
  EXPECT_EQ(again, logits.get());
  assay_tensor_release(again);
  slot.reset();  // views keep the results
  EXPECT_NE(floats_of(logits.get())[0], first);
}

TEST_F(PredictorTest, ResultsIntoTheCallersTensors) {
  const auto predictor = make_predictor();
  const auto slot = make_slot(predictor.get());
  const int64_t shape[] = {kBatch, 3};
  const auto own = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 2);
  assay_tensor* out[2] = {own.get(), nullptr};
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, out, size_t{2});
  const Owned<assay_tensor> probabilities(out[1]);
  EXPECT_EQ(out[0], own.get());
  EXPECT_NE(floats_of(own.get())[0], 0);

  const int64_t wrong_shape[] = {3, kBatch};
  const auto wrong =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, wrong_shape, 2);
  assay_tensor* bad[2] = {wrong.get(), nullptr};
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_predictor_run, predictor.get(), slot.get(),
                    batch.tensors(), size_t{1}, bad, size_t{2}),
              HasSubstr("logits"));
  EXPECT_EQ(bad[1], nullptr);
}

// It shares the weights of a model that nothing changes, and keeps them when something does.
TEST_F(PredictorTest, IsASnapshot) {
  const auto bytes_in_use = [&] {
    assay_mem_stats stats{.struct_size = sizeof stats};
    ok(assay_context_mem_stats, context.get(), device_under_test, &stats);
    return stats.in_use;
  };
  const TemporaryFolder folder;
  const std::string others = folder.at("others.safetensors");
  const auto other = make_model();
  ok(assay_model_initialize, other.get(), uint64_t{2});
  ok(assay_model_save_weights, other.get(), text(others), text("safetensors"), text(""));
  const std::function<void()> changes[] = {
      [&] {
        report(assay_model_load_weights, model.get(), text(others), text("safetensors"), text(""),
               0u);
      },
      [&] {
        const auto trainer = make_trainer(model.get());
        step(trainer.get(), batch);
      },
      [&] {
        const auto weights = make<assay_tensor>(assay_model_tensor, model.get(),
                                                text("output.weight"), int32_t{ASSAY_KIND_VALUE});
        const std::vector<std::byte> zeros(bits(model.get(), "output.weight").size());
        ok(assay_tensor_write, weights.get(), zeros.data(), zeros.size());
      }};
  for (size_t first = 0; first < std::size(changes); ++first) {
    model = make_model();
    ok(assay_model_initialize, model.get(), uint64_t{1});
    const uint64_t before = bytes_in_use();
    const auto predictor = make_predictor();
    EXPECT_EQ(bytes_in_use(), before) << "no copy of the weights";
    const auto logits = [&] {  // of a new slot, for which the weights are read again
      const auto slot = make_slot(predictor.get());
      assay_tensor* out = nullptr;
      ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out,
         size_t{1});
      const Owned<assay_tensor> owned(out);
      return floats_of(out);
    };
    const std::vector<float> expected = logits();
    for (size_t i = 0; i < std::size(changes); ++i) {
      changes[(first + i) % std::size(changes)]();
      EXPECT_EQ(logits(), expected) << first << ", then " << i << " others";
    }
  }
}

TEST_F(PredictorTest, BadRequests) {
  assay_predictor* none = nullptr;
  const auto empty = make_model();
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_predictor_create, empty.get(), text(""), &none),
              HasSubstr("no weights yet"));
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_predictor_create, model.get(),
                    text(R"({"maxbatch": 3})"), &none),
              HasSubstr("maxbatch"));
  for (const char* config : {R"({"max_batch": -3})", R"({"max_batch": 0})", R"({"precision": ""})"})
    fails(ASSAY_E_INVALID, assay_predictor_create, model.get(), text(config), &none);
  fails(ASSAY_E_INVALID, assay_predictor_create, model.get(), text(R"({"precision": "x"})"), &none);

  const auto predictor = make_predictor(R"({"max_batch": 4})"), other = make_predictor();
  const auto slot = make_slot(predictor.get());
  const auto fail_run = [&](const assay_predictor* p, const assay_tensor* const* in, size_t n_in,
                            size_t n_out) {
    assay_tensor* out[3] = {nullptr, nullptr, nullptr};
    const Outcome outcome =
        call(assay_predictor_run, p, slot.get(), in, n_in, static_cast<assay_tensor**>(out), n_out);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(out[0], nullptr);
    return outcome.message;
  };
  EXPECT_THAT(fail_run(predictor.get(), batch.tensors(), 1, 1), HasSubstr("1 to max_batch (4)"));
  EXPECT_THAT(fail_run(other.get(), batch.tensors(), 1, 1), HasSubstr("another predictor"));
  fail_run(predictor.get(), batch.tensors(), 0, 1);
  fail_run(predictor.get(), batch.tensors(), 2, 1);
  fail_run(predictor.get(), batch.tensors(), 1, 3);
  fail_run(predictor.get(), batch.tensors() + 1, 1, 1);
  const auto scalar =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, nullptr, 0);
  const assay_tensor* scalars[] = {scalar.get()};
  EXPECT_THAT(fail_run(predictor.get(), scalars, 1, 1), HasSubstr("batch axis"));
  fails(ASSAY_E_INVALID, assay_slot_prepare, slot.get(), int64_t{0});
  fails(ASSAY_E_INVALID, assay_slot_prepare, slot.get(), int64_t{5});
}

TEST_F(PredictorTest, Export) {
  const auto predictor = make_predictor();
  const TemporaryFolder folder;
  const std::string path = folder.at("small.onnx");
  const auto said = report(assay_predictor_export, predictor.get(), text(path), text("onnx"));
  EXPECT_EQ(at(said, "path").string_value(), path);
  EXPECT_EQ(number(said, "opset"), 17);
  EXPECT_EQ(number(said, "file_bytes"), double(std::filesystem::file_size(path)));
  ok(assay_predictor_export, predictor.get(), text(path), text("onnx"), nullptr);  // replaces it
  const auto fail_export = [&](assay_status status, const assay_predictor* p,
                               const std::string& where, const char* format) {
    assay_report* none = nullptr;
    return fails(status, assay_predictor_export, p, text(where), text(format), &none);
  };
  EXPECT_THAT(fail_export(ASSAY_E_INVALID, predictor.get(), path, "tflite"), HasSubstr("onnx"));
  fail_export(ASSAY_E_INVALID, nullptr, path, "onnx");
  fail_export(ASSAY_E_INVALID, predictor.get(), "", "onnx");
  fail_export(ASSAY_E_NOT_FOUND, predictor.get(), folder.at("none/small.onnx"), "onnx");
}

// The size of images and the way finds are thinned out are the predictor's, not the model's.
TEST_F(PredictorTest, DetectorsTakeImagesOfSeveralSizes) {
  const auto detector =
      make<assay_model>(assay_model_named, context.get(), text("efficientdet_d0"), text(""));
  ok(assay_model_initialize, detector.get(), uint64_t{1});
  const auto predictor = make<assay_predictor>(
      assay_predictor_create, detector.get(),
      text(R"({"max_batch": 1, "image_size": [128, 256], "suppression": "hard"})"));
  const auto described = report(assay_predictor_report, predictor.get());
  const auto& input = at(described, "inputs").list_value().values(0).struct_value();
  EXPECT_EQ(at(input, "sample_shape").list_value().values(1).number_value(), 256);
  const auto slot = make_slot(predictor.get());
  const int64_t shape[] = {1, 128, 256, 3};
  const auto image = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 4);
  const assay_tensor* const images[] = {image.get()};
  assay_tensor* out[3] = {nullptr, nullptr, nullptr};
  ok(assay_predictor_run, predictor.get(), slot.get(), images, size_t{1}, out, size_t{3});
  const Owned<assay_tensor> boxes(out[0]), scores(out[1]), classes(out[2]);
  EXPECT_EQ(floats_of(scores.get())[0], 0);  // nothing is sure at first

  const auto refused = [&](const assay_model* of, const char* config) {
    assay_predictor* made = nullptr;
    return fails(ASSAY_E_INVALID, assay_predictor_create, of, text(config), &made);
  };
  EXPECT_THAT(refused(detector.get(), R"({"image_size": [128, 200]})"),
              HasSubstr("multiples of 128"));
  EXPECT_THAT(refused(detector.get(), R"({"suppression": "none"})"), HasSubstr("suppression"));
  EXPECT_THAT(refused(model.get(), R"({"image_size": [128, 128]})"), HasSubstr("image_size"));
  EXPECT_THAT(refused(model.get(), R"({"suppression": "hard"})"), HasSubstr("finds no objects"));
}

TEST_F(PredictorTest, Profile) {
  const auto slot = make_slot(make_predictor().get());  // the slot outlives its predictor
  const auto profile = report(assay_slot_profile, slot.get(), int64_t{2}, 3);
  EXPECT_GT(at(profile, "rows").list_value().values_size(), 2);
  EXPECT_EQ(number(profile, "repeats"), 3);
  assay_report* out = nullptr;
  fails(ASSAY_E_INVALID, assay_slot_profile, slot.get(), int64_t{2}, 1001, &out);
}

// Averages of an earlier training are not those of the present weights.
TEST_F(PredictorTest, AveragesNeedATrainerThatKeepsThem) {
  const std::string_view config = R"({"use_ema": true})";
  const auto refused = [&] {
    assay_predictor* out = nullptr;
    return call(assay_predictor_create, model.get(), text(config), &out);
  };
  const Outcome never = refused();
  EXPECT_EQ(never.status, ASSAY_E_INVALID);
  EXPECT_EQ(never.argument, "use_ema");
  EXPECT_THAT(never.message, HasSubstr("optimizer.ema_decay"));
  {
    const auto averaging =
        make_trainer(model.get(), R"({"optimizer": {"name": "sgd", "ema_decay": 0.9}})");
    step(averaging.get(), batch);
  }
  make_predictor(config);
  const auto plain = make_trainer(model.get());
  step(plain.get(), batch);
  EXPECT_EQ(refused().status, ASSAY_E_INVALID);
}

// Any number of batch sizes takes the memory of the few used last; results that were handed out
// stay readable.
TEST_F(PredictorTest, PlansOfManyBatchSizesDoNotPileUp) {
  const auto predictor = make_predictor(R"({"max_batch": 40})");
  const auto slot = make_slot(predictor.get());
  const auto memory = [&] {
    assay_mem_stats stats{.struct_size = sizeof stats};
    ok(assay_context_mem_stats, context.get(), device_under_test, &stats);
    return stats.in_use;
  };
  const auto run = [&](int64_t rows) {
    const int64_t shape[] = {rows, 8, 8, 1};
    const auto image =
        make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 4);
    const assay_tensor* in = image.get();
    assay_tensor* out = nullptr;
    ok(assay_predictor_run, predictor.get(), slot.get(), &in, size_t{1}, &out, size_t{1});
    return Owned<assay_tensor>(out);
  };
  for (int64_t rows = 33; rows <= 40; ++rows) run(rows);
  const uint64_t eight_largest = memory();
  const auto kept = run(1);
  for (int64_t rows = 1; rows <= 40; ++rows) run(rows);
  EXPECT_LE(memory(), eight_largest + eight_largest / 8);  // one small plan is kept by its view
  float logits[3] = {};
  ok(assay_tensor_read, kept.get(), logits, sizeof logits);
  assay_tensor* stale = kept.get();
  const auto image = run(2);
  const int64_t shape[] = {1, 8, 8, 1};
  const auto one = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 4);
  const assay_tensor* in = one.get();
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_predictor_run, predictor.get(), slot.get(), &in,
                    size_t{1}, &stale, size_t{1}),
              HasSubstr("no view of this plan"));
}

}  // namespace
}  // namespace assay::test
