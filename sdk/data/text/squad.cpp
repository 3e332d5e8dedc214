// A SQuAD file from its tree of JSON. Every answer is looked up in its paragraph, for an offset
// that counts something else (bytes, UTF-16) would train on other words without a sign of it.
#include "sdk/data/text/squad.h"

#include <charconv>
#include <unordered_set>

#include "sdk/base/error.h"
#include "sdk/base/json_text.h"
#include "sdk/base/utf8.h"

namespace assay::data {
namespace {

using Kind = JsonValue::Kind;

class SquadReader {
 public:
  SquadReader(std::string_view json, std::string_view what) : json_(json), what_(what) {}

  SquadFile read(const JsonValue& root) {
    for (const JsonValue& article : list(root, "data"))
      for (const JsonValue& paragraph : list(article, "paragraphs")) read_paragraph(paragraph);
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail_at(const JsonValue& value, std::string_view problem) const {
    fail(Code::kFormat, cat(what_, ", ", json_place(json_, value.offset), ": ", problem));
  }

  static const JsonValue* find(const JsonValue& object, std::string_view key) {
    for (const JsonMember& member : object.members)
      if (member.key == key) return &member.value;
    return nullptr;
  }

  const JsonValue& member(const JsonValue& object, std::string_view key, Kind kind) const {
    const JsonValue* value = find(object, key);
    if (value == nullptr) fail_at(object, cat("a member \"", key, "\" is missing here"));
    if (value->kind != kind) fail_at(*value, cat("\"", key, "\" is of another type than in SQuAD"));
    return *value;
  }
  const std::vector<JsonValue>& list(const JsonValue& object, std::string_view key) const {
    return member(object, key, Kind::kList).items;
  }
  const std::string& text(const JsonValue& object, std::string_view key) const {
    return member(object, key, Kind::kText).text;
  }

  void read_paragraph(const JsonValue& value) {
    SquadParagraph paragraph{text(value, "context"), {}};
    for (const JsonValue& question : list(value, "qas"))
      paragraph.questions.push_back(read_question(question, paragraph.context));
    file_.paragraphs.push_back(std::move(paragraph));
  }

  SquadQuestion read_question(const JsonValue& value, const std::string& context) {
    SquadQuestion question{text(value, "id"), text(value, "question"), {}, false};
    if (!ids_.insert(question.id).second)
      fail_at(value, cat("the id ", excerpt(question.id), " was given to a question before"));
    if (const JsonValue* impossible = find(value, "is_impossible")) {
      if (impossible->kind != Kind::kBool)
        fail_at(*impossible, "\"is_impossible\" is true or false");
      file_.version_2 = true;
      question.impossible = impossible->text == "true";
    }
    if (find(value, "answers") != nullptr) {
      for (const JsonValue& answer : list(value, "answers"))
        question.answers.push_back(read_answer(answer, context));
    }
    if (question.impossible && !question.answers.empty())
      fail_at(value, cat("the question ", excerpt(question.id), " is impossible and has answers"));
    return question;
  }

  SquadAnswer read_answer(const JsonValue& value, const std::string& context) const {
    const JsonValue& start = member(value, "answer_start", Kind::kNumber);
    SquadAnswer answer{text(value, "text"), 0};
    size_t characters = 0;
    const char* const end = start.text.data() + start.text.size();
    if (std::from_chars(start.text.data(), end, characters).ptr != end)
      fail_at(start, "\"answer_start\" counts characters, so it is a whole number from 0 on");
    for (; characters > 0 && answer.begin < context.size(); --characters)
      answer.begin += utf8_length(std::string_view(context).substr(answer.begin));
    if (characters > 0 || context.compare(answer.begin, answer.text.size(), answer.text) != 0) {
      fail_at(value, cat("the answer ", excerpt(answer.text), " does not stand at character ",
                         start.text, " of its context; offsets count code points"));
    }
    return answer;
  }

  std::string_view json_, what_;
  SquadFile file_;
  std::unordered_set<std::string> ids_;
};

}  // namespace

SquadFile parse_squad(std::string_view json, std::string_view what) {
  try {
    return SquadReader(json, what).read(parse_json_text({json, what}));
  } catch (const Error& error) {
    if (error.code() != Code::kInvalid) throw;
    throw Error(Code::kFormat, error.message(), error.detail());
  }
}

}  // namespace assay::data
