// The whole chain on real text: 32 questions of SQuAD are learned by heart, answered, and scored as
// the official scripts do. Minutes.
#include "tests/capi/answering.h"
#include "tests/data/squad_files.h"

namespace assay::test {
namespace {

struct ByHeart {
  const char *name, *architecture, *version, *more;
};

class SquadByHeart : public testing::TestWithParam<ByHeart> {};

TEST_P(SquadByHeart, ThirtyTwoQuestions) {
  if (!has_squad()) GTEST_SKIP() << sample_data() << " is not there";
  const ByHeart& c = GetParam();
  constexpr int64_t kQuestions = 32, kApart = 40, kBatch = 16, kSteps = 150;
  const std::string version = c.version;
  const TemporaryFolder folder;
  const auto context = make_context();
  const std::string data = folder.at("data");
  report(assay_dataset_convert, context.get(), text("squad"), text(kSquad), text(data),
         text(R"({"version": ")" + version + R"(", "dev": "dev-v)" + version +
              R"(.json.gz", "vocabulary": ")" + kVocabulary + R"("})"),
         nullptr, uintptr_t{0});
  const auto words = make<assay_text>(assay_text_create, text(data), text(""));
  const std::string file = data + "/dev.json", predictions = folder.at("predictions.json");
  const auto squad = make<assay_text_squad>(assay_text_squad_open, text(file));

  // Every fortieth question, of several articles, and which records its windows are.
  std::vector<Owned<assay_text_question>> questions;
  std::string records;
  int64_t record = 0;
  for (int64_t i = 0; i < kQuestions * kApart; ++i) {
    auto question =
        make<assay_text_question>(assay_text_squad_question, squad.get(), i, words.get(), text(""));
    int64_t windows = 0, length = 0;
    ok(assay_text_question_size, question.get(), &windows, &length);
    for (int64_t w = 0; w < windows; ++w, ++record)
      if (i % kApart == 0) records += (records.empty() ? "" : ", ") + std::to_string(record);
    if (i % kApart == 0) questions.push_back(std::move(question));
  }

  const auto loader = make<assay_loader>(
      assay_loader_create, context.get(), text(data), text("dev"),
      text(R"({"batch_size": 16, "seed": 1, "last_batch": "wrap", "record": [)" + records + "]}"),
      text(""));
  const std::string config =
      std::string(R"({"hidden": 128, "layers": 2, "heads": 2, "inner": 512, "dropout": 0,
                      "attention_dropout": 0)") +
      c.more + "}";
  const auto model =
      make<assay_model>(assay_model_named, context.get(), text(c.architecture), text(config));
  const assay_trainer_options options{.struct_size = sizeof options, .batch_size = kBatch};
  const auto trainer = make<assay_trainer>(assay_trainer_create, model.get(), &options,
                                           text(R"({"sequence_length": 384, "seed": 1,
               "optimizer": {"name": "adamw", "learning_rate": 1e-3, "clip_norm": 1}})"));
  const size_t arrays = version == "2.0" ? 6 : 5;
  assay_step_info info{.struct_size = sizeof info};
  for (int64_t step = 0; step < kSteps; ++step) {
    const assay_tensor* batch[6] = {};
    ok(assay_loader_next, loader.get(), +batch, arrays, nullptr);
    ok(assay_trainer_step, trainer.get(), +batch, arrays, &info);
  }
  EXPECT_LT(info.loss, 0.05);

  Answering answering(context.get(), model.get(), 384);
  for (int64_t i = 0; i < kQuestions; ++i) {
    const auto answered = answering.answer(questions[static_cast<size_t>(i)].get(),
                                           version == "2.0" ? R"({"null_threshold": 0})" : "");
    ok(assay_text_squad_answer, squad.get(), i * kApart,
       text(at(answered, "answer").string_value()));
  }
  ok(assay_text_squad_save, squad.get(), text(predictions));
  const auto score = report(assay_text_score, text(file), text(predictions));
  // Of the whole file: version 1.1 counts the questions that were not asked as wrong, 2.0 leaves
  // them out.
  const auto& all = at(score, "all").struct_value();
  if (version == "2.0") {
    for (const char* part : {"answerable", "impossible"})
      EXPECT_NE(at(at(score, part).struct_value(), "questions").string_value(), "0") << part;
  }
  int64_t asked = 0;
  ok(assay_text_squad_size, squad.get(), &asked, nullptr);
  const double scored = version == "2.0" ? 1 : static_cast<double>(kQuestions) / asked;
  EXPECT_NEAR(number(all, "exact"), 100 * scored, 1e-9);
  EXPECT_NEAR(number(all, "f1"), 100 * scored, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Heads, SquadByHeart,
                         testing::Values(ByHeart{"Bert", "bert_base", "1.1", R"(, "head": "span")"},
                                         ByHeart{"Electra", "electra_base_qa", "1.1", ""},
                                         ByHeart{"ElectraWithoutAnswers", "electra_base_qa", "2.0",
                                                 R"(, "version": "2.0")"}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace assay::test
