// Pre-training on real text: a small BERT learns the masked words of 64 pairs of sentences by
// heart. A minute. The numbers to reach are those of PyTorch on the same text, 1.00 after 150 steps
// and a loss of 0.03 after 240, with room for another order of the pairs.
#include <fstream>

#include "tests/capi/support.h"
#include "tests/data/squad_files.h"

namespace assay::test {
namespace {

const std::string kBooks = sample_data() + "/text-corpus/books.txt.xz";

TEST(WordsByHeart, OfSixtyFourPairs) {
  if (!std::filesystem::exists(kBooks)) GTEST_SKIP() << kBooks << " is not there";
  constexpr int64_t kBatch = 32, kSteps = 200;
  const TemporaryFolder folder;
  const auto context = make_context();
  const std::string source = folder.at("text"), data = folder.at("data");
  std::filesystem::create_directories(source);
  std::ofstream(source + "/books.txt") << output_of("xz -dc '" + kBooks + "' | head -n 2000");
  report(assay_dataset_convert, context.get(), text("bert_pretraining"), text(source), text(data),
         text(R"({"lines": "paragraphs", "vocabulary": ")" + kVocabulary + R"("})"), nullptr,
         uintptr_t{0});
  std::string records = "0";
  for (int i = 1; i < 64; ++i) records += ", " + std::to_string(i);
  const auto loader = make<assay_loader>(
      assay_loader_create, context.get(), text(data), text("train"),
      text(R"({"batch_size": 32, "seed": 1, "record": [)" + records + "]}"), text(""));
  const auto model = make<assay_model>(assay_model_named, context.get(), text("bert_base"),
                                       text(R"({"hidden": 128, "layers": 2, "heads": 2,
                                            "inner": 512, "dropout": 0, "attention_dropout": 0})"));
  const assay_trainer_options options{.struct_size = sizeof options, .batch_size = kBatch};
  const auto trainer = make<assay_trainer>(
      assay_trainer_create, model.get(), &options,
      text(R"({"seed": 1, "optimizer": {"name": "adamw", "learning_rate": 2e-3}})"));
  constexpr size_t kArrays = 6;
  const auto next = [&](auto run) {
    const assay_tensor* batch[kArrays] = {};
    ok(assay_loader_next, loader.get(), +batch, kArrays, nullptr);
    run(+batch);
  };
  for (int64_t step = 0; step < kSteps; ++step)
    next([&](auto batch) { ok(assay_trainer_step, trainer.get(), batch, kArrays, nullptr); });
  for (int i = 0; i < 2; ++i) {
    assay_eval_info info{.struct_size = sizeof info};
    next([&](auto batch) { ok(assay_trainer_eval, trainer.get(), batch, kArrays, 0u, &info); });
    const auto mean = [&](const char* name) {
      double value = 0;
      ok(assay_trainer_scalar, trainer.get(), text(name), &value);
      double count = 0;
      ok(assay_trainer_scalar, trainer.get(), text(std::string(name) + ".weight"), &count);
      return value / count;
    };
    EXPECT_EQ(mean("masked_accuracy"), 1);
    EXPECT_LE(mean("mlm_loss"), 0.2);
  }
}

}  // namespace
}  // namespace assay::test
