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

TEST_F(TextTest, PiecesKnowTheirWords) {
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
  EXPECT_THAT(begin, testing::ElementsAre(0, 3, 3, 3, 7));
  EXPECT_THAT(end, testing::ElementsAre(1, 6, 6, 6, 9));
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

class QuestionTest : public TextTest {
 protected:
  QuestionTest() { paragraph_ = "a b c d E f. g h i j k l m n"; }
  ~QuestionTest() override { assay_text_question_free(question_); }
  Outcome ask(const std::string& config = R"({"max_length": 16, "stride": 8, "max_question": 2})") {
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
  EXPECT_THAT(json, HasSubstr(R"({"answers":[{"text":"E f","score":7})"));
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

TEST_F(QuestionTest, BadQuestions) {
  paragraph_ = " \n";
  EXPECT_EQ(ask().argument, "paragraph");
  paragraph_ = "a \xc3";
  EXPECT_EQ(ask().status, ASSAY_E_FORMAT);
  paragraph_ = "a";
  EXPECT_EQ(ask(R"({"max_length": 513})").status, ASSAY_E_INVALID);
  EXPECT_THAT(ask(R"({"stride": 400})").message, HasSubstr("cover"));
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
  EXPECT_EQ(call(assay_text_score, empty, empty, &report).argument, "file");
  EXPECT_EQ(call(assay_text_create, empty, empty, &no_text).argument, "path");
  assay_text_free(nullptr);
  assay_text_question_free(nullptr);
}

}  // namespace
}  // namespace assay::test
