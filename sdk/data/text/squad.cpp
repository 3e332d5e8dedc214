// A SQuAD file from its tree of JSON. Every answer is looked up in its paragraph, for an offset
// that counts something else (bytes, UTF-16) would train on other words without a sign of it.
#include "sdk/data/text/squad.h"

#include <charconv>
#include <unordered_set>

#include "sdk/base/error.h"
#include "sdk/base/json_reader.h"
#include "sdk/base/utf8.h"

namespace assay::data {
namespace {

using Kind = JsonValue::Kind;

class SquadReader {
 public:
  SquadReader(std::string_view json, std::string_view what) : json_({json, what}) {}

  SquadFile read() {
    const JsonValue root = json_.parse();
    for (const JsonValue& article : json_.list(root, "data"))
      for (const JsonValue& paragraph : json_.list(article, "paragraphs"))
        read_paragraph(paragraph);
    return std::move(file_);
  }

 private:
  void read_paragraph(const JsonValue& value) {
    SquadParagraph paragraph{json_.text(value, "context"), {}};
    for (const JsonValue& question : json_.list(value, "qas"))
      paragraph.questions.push_back(read_question(question, paragraph.context));
    file_.paragraphs.push_back(std::move(paragraph));
  }

  SquadQuestion read_question(const JsonValue& value, const std::string& context) {
    SquadQuestion question{json_.text(value, "id"), json_.text(value, "question"), {}, false};
    if (!ids_.insert(question.id).second)
      json_.fail_at(value, cat("the id ", excerpt(question.id), " was given to a question before"));
    if (const JsonValue* impossible = json_.find(value, "is_impossible")) {
      if (impossible->kind != Kind::kBool)
        json_.fail_at(*impossible, "\"is_impossible\" is true or false");
      file_.version_2 = true;
      question.impossible = impossible->text == "true";
    }
    if (json_.find(value, "answers") != nullptr) {
      for (const JsonValue& answer : json_.list(value, "answers"))
        question.answers.push_back(read_answer(answer, context));
    }
    if (question.impossible && !question.answers.empty())
      json_.fail_at(value,
                    cat("the question ", excerpt(question.id), " is impossible and has answers"));
    return question;
  }

  SquadAnswer read_answer(const JsonValue& value, const std::string& context) const {
    const JsonValue& start = json_.member(value, "answer_start", Kind::kNumber);
    SquadAnswer answer{json_.text(value, "text"), 0};
    size_t characters = 0;
    const char* const end = start.text.data() + start.text.size();
    if (std::from_chars(start.text.data(), end, characters).ptr != end)
      json_.fail_at(start, "\"answer_start\" counts characters, so it is a whole number from 0 on");
    for (; characters > 0 && answer.begin < context.size(); --characters)
      answer.begin += utf8_length(std::string_view(context).substr(answer.begin));
    if (characters > 0 || context.compare(answer.begin, answer.text.size(), answer.text) != 0) {
      json_.fail_at(value, cat("the answer ", excerpt(answer.text), " does not stand at character ",
                               start.text, " of its context; offsets count code points"));
    }
    return answer;
  }

  JsonReader json_;
  SquadFile file_;
  std::unordered_set<std::string> ids_;
};

}  // namespace

SquadFile parse_squad(std::string_view json, std::string_view what) {
  return SquadReader(json, what).read();
}

}  // namespace assay::data
