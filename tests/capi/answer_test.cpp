// From a file of questions to answers, with nothing but the C interface: a small ELECTRA learns a
// few questions of SQuAD's form by heart, and a checkpoint is all that the example program gets.
#include <fstream>
#include <set>

#include "tests/capi/answering.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

struct Asked {
  const char *question, *answer;  // "" if the paragraph does not say
};
struct Paragraph {
  const char* text;
  std::vector<Asked> asked;
};

// Each kind of question has several answers: which is right stands in the paragraph only.
const std::vector<Paragraph> kParagraphs{
    {"The bridge over the Elbe was built in 1893 by Claus Koepcke. It is 280 metres long.",
     {{"When was the bridge built?", "1893"},
      {"Who built the bridge?", "Claus Koepcke"},
      {"How long is the bridge?", "280 metres"},
      {"Who paid for the bridge?", ""}}},
    {"In 1901, Emma Lindqvist opened the first school of Lund; forty children came.",
     {{"Who opened the school?", "Emma Lindqvist"},
      {"When was the school opened?", "1901"},
      {"How many children came?", "forty"},
      {"How long is the bridge?", ""}}},
    {"The lake, 45 metres deep, is fed by two rivers: the Arve and the Dranse.",
     {{"How deep is the lake?", "45 metres"},
      {"Which rivers feed the lake?", "the Arve and the Dranse"},
      {"Who opened the school?", ""}}},
    {"Red foxes sleep by day. They hunt mice at night, alone, and live in pairs.",
     {{"What do foxes hunt?", "mice"},
      {"When do foxes sleep?", "by day"},
      {"How do foxes live?", "in pairs"},
      {"How deep is the lake?", ""}}},
};

std::string file_of_questions() {
  std::string json = R"({"version": "v2.0", "data": [{"paragraphs": [)";
  int id = 0;
  for (const Paragraph& paragraph : kParagraphs) {
    const std::string context = paragraph.text;
    json += (id == 0 ? R"({"context": ")" : R"(, {"context": ")") + context + R"(", "qas": [)";
    for (const Asked& asked : paragraph.asked) {
      json += &asked == &paragraph.asked[0] ? "" : ", ";
      json += R"({"id": "q)" + std::to_string(id++) + R"(", "question": ")" + asked.question +
              R"(", "is_impossible": )" + (*asked.answer == 0 ? "true" : "false") +
              R"(, "answers": [)";
      if (*asked.answer != 0)
        json += R"({"text": ")" + std::string(asked.answer) + R"(", "answer_start": )" +
                std::to_string(context.find(asked.answer)) + "}";
      json += "]}";
    }
    json += "]}";
  }
  return json + "]}]}";
}

// All words are pieces.
std::string vocabulary() {
  std::set<std::string> words;
  std::string word;
  const auto add = [&](const std::string& text) {
    for (const char c : text + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        word += static_cast<char>(std::tolower(c));
        continue;
      }
      if (!word.empty()) words.insert(word);
      if (c != ' ') words.insert(std::string(1, c));
      word.clear();
    }
  };
  for (const Paragraph& paragraph : kParagraphs) {
    add(paragraph.text);
    for (const Asked& asked : paragraph.asked) add(asked.question);
  }
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const std::string& each : words) text += each + "\n";
  return text;
}

class Answers : public testing::Test {
 protected:
  static constexpr int64_t kTrained = 15;
  static constexpr const char* kNullThreshold = R"({"null_threshold": 0})";

  // Trained once, for all tests.
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    std::ofstream(folder_->at("vocab.txt")) << vocabulary();
    std::ofstream(folder_->at("train-v2.0.json")) << file_of_questions();
    // One thread: what is this small gains nothing from others.
    const assay_context_options alone{.struct_size = sizeof alone, .n_threads = 1};
    const auto context =
        make<assay_context>(assay_context_create, &alone, nullptr, nullptr, size_t{0});
    const std::string options = R"({"version": "2.0", "sequence_length": 48, "max_question": 16,
                                    "stride": 8, "vocabulary": ")" +
                                folder_->at("vocab.txt") + R"("})";
    const auto converted =
        report(assay_dataset_convert, context.get(), text("squad"), text(folder_->at("")),
               text(folder_->at("data")), text(options), nullptr, uintptr_t{0});
    const std::string lines = vocabulary();
    const int64_t pieces = std::count(lines.begin(), lines.end(), '\n');
    const std::string size = R"({"version": "2.0", "beam": 3, "hidden": 64, "layers": 2,
        "heads": 2, "inner": 128, "dropout": 0, "attention_dropout": 0, "vocabulary": )" +
                             std::to_string(pieces) + "}";
    const auto model =
        make<assay_model>(assay_model_named, context.get(), text("electra_base_qa"), text(size));
    const auto loader =
        make<assay_loader>(assay_loader_create, context.get(), text(folder_->at("data")),
                           text("train"), text(R"({"batch_size": 15, "seed": 1})"), text(""));
    const assay_trainer_options trainer_options{.struct_size = sizeof trainer_options,
                                                .batch_size = kTrained};
    const auto trainer = make<assay_trainer>(assay_trainer_create, model.get(), &trainer_options,
                                             text(R"({"sequence_length": 48, "seed": 3,
                 "optimizer": {"name": "adamw", "learning_rate": 3e-3, "clip_norm": 1}})"));
    assay_step_info info{.struct_size = sizeof info};
    for (int step = 0; step < 120; ++step) {
      const assay_tensor* batch[6] = {};
      ok(assay_loader_next, loader.get(), +batch, size_t{6}, nullptr);
      ok(assay_trainer_step, trainer.get(), +batch, size_t{6}, &info);
    }
    EXPECT_LT(info.loss, 0.05);
    const auto words = make<assay_text>(assay_text_create, text(folder_->at("data")), text(""));
    ok(assay_text_attach, words.get(), trainer.get());
    ok(assay_checkpoint_save, trainer.get(), text(checkpoint()), 0u);
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string checkpoint() { return folder_->at("answers.ckpt"); }

  static Printed program(const std::vector<std::string>& arguments) {
    std::string command = ASSAY_ANSWER_PROGRAM;
    for (const std::string& argument : arguments) command += " '" + argument + "'";
    return printed_by(command);
  }

  static TemporaryFolder* folder_;
};
TemporaryFolder* Answers::folder_ = nullptr;

TEST_F(Answers, OfTheExampleProgram) {
  for (const Paragraph& paragraph : kParagraphs) {
    for (const Asked& asked : paragraph.asked) {
      const Printed printed =
          program({checkpoint(), asked.question, paragraph.text, kNullThreshold});
      EXPECT_EQ(printed.code, 0);
      EXPECT_THAT(printed.all, testing::StartsWith(R"({"answer":")" + std::string(asked.answer) +
                                                   R"(","answers":[)"))
          << asked.question;
    }
  }
  // Without a threshold there always is an answer, and the report says nothing of none.
  const Printed forced =
      program({checkpoint(), kParagraphs[0].asked[3].question, kParagraphs[0].text});
  EXPECT_THAT(forced.all, testing::Not(HasSubstr(R"("answer":"",)")));
  EXPECT_THAT(forced.all, testing::Not(HasSubstr("no_answer")));
}

// The whole way of an evaluation: windows, candidates, answers, predictions, the official score.
TEST_F(Answers, OfAFileHaveTheBestScore) {
  const auto context = make_context();
  const auto model = make<assay_model>(assay_model_open, context.get(), text(checkpoint()));
  const auto words = make<assay_text>(assay_text_create, text(checkpoint()), text(""));
  const std::string file = folder_->at("data/train.json");
  const auto squad = make<assay_text_squad>(assay_text_squad_open, text(file));
  int64_t questions = 0;
  ok(assay_text_squad_size, squad.get(), &questions, nullptr);
  EXPECT_EQ(questions, kTrained);
  Answering answering(context.get(), model.get(), 48);
  for (int64_t i = 0; i < questions; ++i) {
    const auto question = make<assay_text_question>(
        assay_text_squad_question, squad.get(), i, words.get(),
        text(R"({"sequence_length": 48, "stride": 8, "max_question": 16})"));
    const auto answered = answering.answer(question.get(), kNullThreshold);
    ok(assay_text_squad_answer, squad.get(), i, text(at(answered, "answer").string_value()));
  }
  const std::string predictions = folder_->at("predictions.json");
  ok(assay_text_squad_save, squad.get(), text(predictions));
  const auto score = report(assay_text_score, text(file), text(predictions));
  for (const char* part : {"all", "answerable", "impossible"})
    EXPECT_EQ(number(at(score, part).struct_value(), "exact"), 100) << part;
}

TEST_F(Answers, TheProgramExplainsWhatIsWrong) {
  const std::string question = kParagraphs[0].asked[0].question, paragraph = kParagraphs[0].text;
  EXPECT_EQ(program({checkpoint(), question}).code, 2);
  const auto refusal = [&](const std::vector<std::string>& arguments) {
    const Printed printed = program(arguments);
    EXPECT_EQ(printed.code, 1);
    return printed.all;
  };
  EXPECT_THAT(refusal({folder_->at("none.ckpt"), question, paragraph}), HasSubstr("none.ckpt"));
  EXPECT_THAT(refusal({folder_->at("vocab.txt"), question, paragraph}), HasSubstr("vocab.txt"));
  EXPECT_THAT(refusal({checkpoint(), question, ""}), HasSubstr("paragraph"));
  EXPECT_THAT(refusal({checkpoint(), question, paragraph, R"({"threshold": 0})"}),
              HasSubstr("null_threshold"));
}

}  // namespace
}  // namespace assay::test
