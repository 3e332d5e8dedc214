// Text as a C host uses it: a vocabulary, a question's windows, answers, scores; and bad input.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

class TextTest : public testing::Test {
 protected:
  TextTest() {
    vocabulary_ = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n##b\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary_ += std::string(1, c) + "\n";
    EXPECT_EQ(call(assay_text_parse, text(vocabulary_), text(""), &text_).status, ASSAY_OK);
  }
  ~TextTest() override { assay_text_free(text_); }
  Outcome tokenize(const std::string& words) {
    size_t count = 0;
    Outcome outcome =
        call(assay_text_tokenize, text_, text(words), static_cast<int32_t*>(nullptr),
             static_cast<int64_t*>(nullptr), static_cast<int64_t*>(nullptr), size_t{0}, &count);
    count_ = count;
    return outcome;
  }
  int32_t id_of(char letter) const { return 7 + letter - 'a'; }

  std::string vocabulary_;
  assay_text* text_ = nullptr;
  size_t count_ = 0;
};

TEST_F(TextTest, PiecesKnowTheirPlaces) {
  const std::string words = "X  ab. \u00e9";
  EXPECT_EQ(tokenize(words).status, ASSAY_OK);
  ASSERT_EQ(count_, 5u);
  int32_t ids[5];
  int64_t begin[5], end[5];
  size_t count = 0;
  EXPECT_EQ(
      call(assay_text_tokenize, text_, text(words), +ids, +begin, +end, size_t{5}, &count).status,
      ASSAY_OK);
  EXPECT_THAT(ids, testing::ElementsAre(id_of('x'), id_of('a'), 6, 5, id_of('e')));
  EXPECT_THAT(begin, testing::ElementsAre(0, 3, 4, 5, 7));
  EXPECT_THAT(end, testing::ElementsAre(1, 4, 5, 6, 9));
  const Outcome small =
      call(assay_text_tokenize, text_, text(words), +ids, +begin, +end, size_t{4}, &count);
  EXPECT_EQ(small.status, ASSAY_E_INVALID);
  EXPECT_EQ(small.argument, "capacity");
  const Outcome bad = tokenize("a \xff");
  EXPECT_EQ(bad.status, ASSAY_E_FORMAT);
  EXPECT_THAT(bad.message, HasSubstr("UTF-8"));
  assay_str contents;
  EXPECT_EQ(call(assay_text_vocabulary, text_, &contents).status, ASSAY_OK);
  EXPECT_EQ(std::string(contents.data, contents.size), vocabulary_);
}

TEST_F(TextTest, BadVocabularies) {
  assay_text* none = nullptr;
  const auto refusal = [&](const std::string& contents) {
    const Outcome outcome = call(assay_text_parse, text(contents), text(""), &none);
    EXPECT_EQ(outcome.status, ASSAY_E_FORMAT);
    EXPECT_EQ(none, nullptr);
    return outcome.message;
  };
  EXPECT_THAT(refusal(vocabulary_ + "a\n"), HasSubstr("already"));
  EXPECT_THAT(refusal(vocabulary_ + "\nq2\n"), HasSubstr("empty"));
  EXPECT_THAT(refusal("[PAD]\r\n"), HasSubstr("CR LF"));
  EXPECT_THAT(refusal("[PAD]\n[UNK]\n"), HasSubstr("[CLS]"));
  EXPECT_THAT(refusal(""), HasSubstr("[PAD]"));
  EXPECT_EQ(call(assay_text_create, text("/nowhere/vocab.txt"), text(""), &none).status,
            ASSAY_E_NOT_FOUND);
  EXPECT_EQ(call(assay_text_parse, text(vocabulary_), text(R"({"longest_word": 0})"), &none).status,
            ASSAY_E_INVALID);
}

// A checkpoint carries what it was trained with: tokenizing needs no other file.
TEST_F(TextTest, CheckpointsCarryTheVocabulary) {
  const TemporaryFolder folder;
  const std::string path = folder.at("model.ckpt"), without = folder.at("without.ckpt");
  const auto context = make_context();
  const auto model = make<assay_model>(assay_model_named, context.get(), text("cnn"),
                                       text(R"({"image": [8, 8, 1], "conv": [2]})"));
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = 2, .learning_rate = 0.1};
  const auto trainer = make<assay_trainer>(assay_trainer_create, model.get(), &options,
                                           text(R"({"optimizer": {"name": "sgd"}})"));
  ok(assay_checkpoint_save, trainer.get(), text(without), 0u);
  assay_text* own = nullptr;
  ok(assay_text_parse, text(vocabulary_), text(R"({"protect_special": false})"), &own);
  ok(assay_text_attach, own, trainer.get());
  assay_text_free(own);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  assay_text* carried = nullptr;
  ok(assay_text_create, text(path), text(""), &carried);
  assay_str contents;
  ok(assay_text_vocabulary, carried, &contents);
  EXPECT_EQ(string(contents), vocabulary_);
  size_t count = 0;  // "[", "mask", "]"
  ok(assay_text_tokenize, carried, text("[MASK]"), static_cast<int32_t*>(nullptr),
     static_cast<int64_t*>(nullptr), static_cast<int64_t*>(nullptr), size_t{0}, &count);
  EXPECT_EQ(count, 3u);
  assay_text_free(carried);
  const Outcome given = call(assay_text_create, text(path), text("{}"), &carried);
  EXPECT_EQ(given.argument, "config_json");
  const Outcome none = call(assay_text_create, text(without), text(""), &carried);
  EXPECT_EQ(none.status, ASSAY_E_NOT_FOUND);
  EXPECT_THAT(none.message, HasSubstr("carries no vocabulary"));
  // Going on from the checkpoint keeps it.
  ok(assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr);
  ok(assay_checkpoint_save, trainer.get(), text(without), 0u);
  ok(assay_text_create, text(without), text(""), &carried);
  assay_text_free(carried);
}

class QuestionTest : public TextTest {
 protected:
  QuestionTest() { paragraph_ = "a b c d E f. g h i j k l m n"; }
  ~QuestionTest() override { assay_text_question_free(question_); }
  Outcome ask(
      const std::string& config = R"({"sequence_length": 16, "stride": 8, "max_question": 2})") {
    return call(assay_text_question_create, text_, text("q r s"), text(paragraph_), text(config),
                &question_);
  }
  std::string paragraph_;
  assay_text_question* question_ = nullptr;
};

TEST_F(QuestionTest, WindowsAndTheAnswer) {
  ASSERT_EQ(ask().status, ASSAY_OK);
  int64_t windows = 0, length = 0;
  ASSERT_EQ(call(assay_text_question_size, question_, &windows, &length).status, ASSAY_OK);
  ASSERT_EQ(windows, 2);
  ASSERT_EQ(length, 16);
  int32_t ids[16], types[16], used = 0;
  ASSERT_EQ(call(assay_text_question_read, question_, int64_t{1}, +ids, +types, &used).status,
            ASSAY_OK);
  EXPECT_EQ(used, 12);  // [CLS] q r [SEP] h ... n [SEP]: "." is a piece of its own
  EXPECT_EQ(ids[0], 2);
  EXPECT_EQ(ids[4], id_of('h'));
  EXPECT_EQ(types[3], 0);
  EXPECT_EQ(types[4], 1);
  EXPECT_EQ(types[11], 1);
  EXPECT_EQ(types[12], 0);
  EXPECT_EQ(ids[12], 0);
  // Pieces 4 and 5 of the paragraph, "E f" without its full stop, stand at 8 and 9.
  std::vector<float> start(32, -9), end(32, -9);
  start[8] = 3, end[9] = 4, start[0] = 1, end[16] = 0.5f;
  start[31] = end[31] = std::nanf("");  // padding
  assay_report* report = nullptr;
  ASSERT_EQ(call(assay_text_question_answer, question_, start.data(), end.data(), size_t{32},
                 text(""), &report)
                .status,
            ASSAY_OK);
  const std::string json(assay_report_text(report).data, assay_report_text(report).size);
  assay_report_free(report);
  EXPECT_THAT(json, HasSubstr(R"({"answer":"E f","answers":[{"text":"E f","score":7})"));
  EXPECT_THAT(json, HasSubstr(R"("no_answer":-8.5)"));
  start[3] = std::nanf("");
  const Outcome nan = call(assay_text_question_answer, question_, start.data(), end.data(),
                           size_t{32}, text(""), &report);
  EXPECT_EQ(nan.status, ASSAY_E_INVALID);
  EXPECT_EQ(nan.argument, "start");
  EXPECT_EQ(call(assay_text_question_answer, question_, start.data(), end.data(), size_t{31},
                 text(""), &report)
                .argument,
            "n");
  EXPECT_EQ(call(assay_text_question_read, question_, windows, +ids, +types, &used).argument,
            "window");
}

// Two windows of two starts with two ends each.
struct Spans {
  std::vector<int32_t> start, end;
  std::vector<float> start_log_prob, end_log_prob, class_logit;
  assay_text_spans of(int64_t windows = 2) const {
    return {.struct_size = sizeof(assay_text_spans),
            .windows = windows,
            .starts = 2,
            .ends = 2,
            .start = start.data(),
            .start_log_prob = start_log_prob.data(),
            .end = end.data(),
            .end_log_prob = end_log_prob.data(),
            .class_logit = class_logit.empty() ? nullptr : class_logit.data()};
  }
};

TEST_F(QuestionTest, SpansThatAModelChose) {
  ASSERT_EQ(ask().status, ASSAY_OK);
  Spans spans{.start = {8, 0, 8, 0},
              .end = {9, 7, 0, 0, 9, 12, 0, 4},
              .start_log_prob = {-1, -0.5f, -2, -1e30f},
              .end_log_prob = {-1, -0.1f, -0.2f, -3, -0.25f, -0.1f, -1, -1}};
  const auto answer = [&](const std::string& config) {
    const assay_text_spans given = spans.of();
    return report(assay_text_question_answer_spans, question_, &given, text(config));
  };
  // Ends before the start, [CLS] and padding are no answers; "E f" of the first window and "l m" of
  // the second are.
  const auto first = answer("");
  EXPECT_EQ(at(first, "answer").string_value(), "E f");
  ASSERT_EQ(at(first, "answers").list_value().values_size(), 2);
  EXPECT_EQ(number(at(first, "answers").list_value().values(0).struct_value(), "score"), -2);
  EXPECT_EQ(number(at(first, "answers").list_value().values(1).struct_value(), "score"), -2.25);
  EXPECT_FALSE(first.fields().contains("no_answer"));
  // The smallest logit of the windows decides, alone.
  spans.class_logit = {3, -5.5f};
  EXPECT_EQ(number(answer(""), "no_answer"), -5.5);
  EXPECT_EQ(at(answer(R"({"null_threshold": -5.6})"), "answer").string_value(), "");
  EXPECT_EQ(at(answer(R"({"null_threshold": -5})"), "answer").string_value(), "E f");

  const auto refusal = [&](assay_text_spans given, const std::string& config = "") {
    assay_report* none = nullptr;
    const Outcome outcome =
        call(assay_text_question_answer_spans, question_, &given, text(config), &none);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    return outcome.argument;
  };
  EXPECT_EQ(refusal(spans.of(1)), "spans->windows");
  assay_text_spans wrong = spans.of();
  wrong.ends = 0;
  EXPECT_EQ(refusal(wrong), "spans->ends");
  wrong = spans.of();
  wrong.class_logit = nullptr;
  EXPECT_EQ(refusal(wrong, R"({"null_threshold": 0})"), "spans->class_logit");
  wrong = spans.of();
  wrong.end = nullptr;
  EXPECT_EQ(refusal(wrong), "spans->end");
  spans.end_log_prob[5] = std::nanf("");
  EXPECT_EQ(refusal(spans.of()), "end_log_prob");
}

// BERT's threshold is against the best answer.
TEST_F(QuestionTest, NoAnswerBesideTheBest) {
  ASSERT_EQ(ask().status, ASSAY_OK);
  std::vector<float> start(32, -9), end(32, -9);
  start[8] = 3, end[9] = 4, start[0] = 5, end[0] = 4.5f, start[16] = 6, end[16] = 5;
  const auto answer = [&](const std::string& config) {
    const auto found = report(assay_text_question_answer, question_, start.data(), end.data(),
                              size_t{32}, text(config));
    return at(found, "answer").string_value();
  };
  EXPECT_EQ(answer(""), "E f");
  EXPECT_EQ(answer(R"({"null_threshold": 2.4})"), "");
  EXPECT_EQ(answer(R"({"null_threshold": 2.5})"), "E f");
}

TEST_F(QuestionTest, BadQuestions) {
  paragraph_ = " \n";
  EXPECT_EQ(ask().argument, "paragraph");
  paragraph_ = "a \xc3";
  EXPECT_EQ(ask().status, ASSAY_E_FORMAT);
  paragraph_ = "a";
  EXPECT_EQ(ask(R"({"sequence_length": 513})").status, ASSAY_E_INVALID);
  const Outcome wide = ask(R"({"stride": 400})");
  EXPECT_EQ(wide.argument, "sequence_length");
  EXPECT_EQ(wide.actual, "384");
  EXPECT_EQ(wide.expected,
            "at least 467: max_question (64), stride (400) and 3 for [CLS] and [SEP]");
  EXPECT_EQ(question_, nullptr);
}

TEST_F(TextTest, Scores) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "assay_text_scores").string();
  std::filesystem::create_directories(folder);
  const auto put = [&](const char* name, const std::string& contents) {
    std::ofstream(folder + "/" + name, std::ios::binary) << contents;
    return folder + "/" + name;
  };
  const std::string file = put("dev.json", R"({"data": [{"paragraphs": [{"context": "a b", "qas": [
    {"id": "1", "question": "q", "answers": [{"text": "b", "answer_start": 2}]},
    {"id": "2", "question": "q", "answers": [{"text": "a", "answer_start": 0}]}]}]}]})");
  assay_report* report = nullptr;
  const auto score = [&](const std::string& predictions) {
    return call(assay_text_score, text(file), text(predictions), &report);
  };
  ASSERT_EQ(score(put("good.json", R"({"1": "the B.", "3": "x"})")).status, ASSAY_OK);
  const std::string json(assay_report_text(report).data, assay_report_text(report).size);
  assay_report_free(report);
  EXPECT_THAT(json, HasSubstr(R"("exact":50)"));
  EXPECT_THAT(json, HasSubstr(R"("missing":"1","foreign":"1")"));
  const Outcome cut = score(put("cut.json", "{\"1\": \n\"the"));
  EXPECT_EQ(cut.status, ASSAY_E_FORMAT);
  EXPECT_THAT(cut.message, HasSubstr("line 2"));
  EXPECT_EQ(score(folder + "/none").status, ASSAY_E_NOT_FOUND);
  std::filesystem::remove_all(folder);
}

// From a file's questions to its predictions and their score.
TEST_F(TextTest, AnswersOfAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.at("dev.json"), predictions = folder.at("predictions.json");
  std::ofstream(file) << R"({"version": "v2.0", "data": [
    {"paragraphs": [{"context": "a b", "qas": [
      {"id": "1", "question": "q r", "is_impossible": false,
       "answers": [{"text": "b", "answer_start": 2}]},
      {"id": "\u00e92", "question": "q", "is_impossible": true, "answers": []}]}]},
    {"paragraphs": [{"context": "c d", "qas": [
      {"id": "3", "question": "s", "is_impossible": false,
       "answers": [{"text": "d", "answer_start": 2}]}]}]}]})";
  assay_text_squad* squad = nullptr;
  ok(assay_text_squad_open, text(file), &squad);
  int64_t questions = 0;
  int32_t version = 0;
  ok(assay_text_squad_size, squad, &questions, &version);
  EXPECT_EQ(questions, 3);
  EXPECT_EQ(version, 2);
  assay_text_question* third = nullptr;
  ok(assay_text_squad_question, squad, int64_t{2}, text_,
     text(R"({"sequence_length": 8, "stride": 2, "max_question": 2})"), &third);
  int32_t ids[8], types[8], length = 0;
  ok(assay_text_question_read, third, int64_t{0}, +ids, +types, &length);
  EXPECT_THAT(ids, testing::ElementsAre(2, id_of('s'), 3, id_of('c'), id_of('d'), 3, 0, 0));
  assay_text_question_free(third);
  ok(assay_text_squad_answer, squad, int64_t{0}, text("a"));
  ok(assay_text_squad_answer, squad, int64_t{1}, text(""));
  ok(assay_text_squad_answer, squad, int64_t{0}, text("\"b\""));
  ok(assay_text_squad_save, squad, text(predictions));
  std::ifstream saved(predictions);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(saved), {}),
            "{\"1\":\"\\\"b\\\"\",\"\u00e92\":\"\"}");
  const auto score = report(assay_text_score, text(file), text(predictions));
  EXPECT_EQ(number(at(score, "all").struct_value(), "exact"), 100);
  EXPECT_EQ(at(score, "missing").string_value(), "1");

  for (const int64_t index : {-1, 3}) {
    EXPECT_EQ(call(assay_text_squad_answer, squad, index, text("a")).argument, "index");
    EXPECT_EQ(call(assay_text_squad_question, squad, index, text_, text(""), &third).argument,
              "index");
  }
  EXPECT_EQ(call(assay_text_squad_answer, squad, int64_t{0}, text("\xff")).argument, "answer");
  EXPECT_EQ(call(assay_text_squad_save, squad, text(folder.at("no/p.json"))).status,
            ASSAY_E_NOT_FOUND);
  assay_text_squad_free(squad);
  EXPECT_EQ(call(assay_text_squad_open, text(folder.at("none")), &squad).status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(squad, nullptr);
}

TEST_F(TextTest, NullArguments) {
  assay_text* no_text = nullptr;
  assay_text_question* no_question = nullptr;
  assay_report* report = nullptr;
  int64_t n = 0;
  int32_t ids[1], used = 0;
  size_t count = 0;
  assay_str value{};
  const auto empty = text("");
  EXPECT_EQ(call(assay_text_vocabulary, no_text, &value).argument, "t");
  EXPECT_EQ(call(assay_text_tokenize, no_text, empty, +ids, &n, &n, size_t{1}, &count).argument,
            "t");
  EXPECT_EQ(call(assay_text_question_create, no_text, empty, empty, empty, &no_question).argument,
            "t");
  EXPECT_EQ(call(assay_text_question_size, no_question, &n, &n).argument, "q");
  EXPECT_EQ(call(assay_text_question_read, no_question, n, +ids, +ids, &used).argument, "q");
  const float* no_scores = nullptr;
  EXPECT_EQ(
      call(assay_text_question_answer, no_question, no_scores, no_scores, count, empty, &report)
          .argument,
      "q");
  const assay_text_spans* no_spans = nullptr;
  EXPECT_EQ(call(assay_text_question_answer_spans, no_question, no_spans, empty, &report).argument,
            "q");
  assay_trainer* no_trainer = nullptr;
  EXPECT_EQ(call(assay_text_attach, no_text, no_trainer).argument, "t");
  EXPECT_EQ(call(assay_text_attach, text_, no_trainer).argument, "trainer");
  assay_text_squad* no_squad = nullptr;
  EXPECT_EQ(call(assay_text_squad_open, empty, &no_squad).argument, "path");
  EXPECT_EQ(call(assay_text_squad_size, no_squad, &n, &used).argument, "s");
  EXPECT_EQ(call(assay_text_squad_question, no_squad, n, text_, empty, &no_question).argument, "s");
  EXPECT_EQ(call(assay_text_squad_answer, no_squad, n, empty).argument, "s");
  EXPECT_EQ(call(assay_text_squad_save, no_squad, empty).argument, "s");
  EXPECT_EQ(call(assay_text_score, empty, empty, &report).argument, "file");
  EXPECT_EQ(call(assay_text_create, empty, empty, &no_text).argument, "path");
  assay_text_free(nullptr);
  assay_text_question_free(nullptr);
  assay_text_squad_free(nullptr);
}

}  // namespace
}  // namespace assay::test
