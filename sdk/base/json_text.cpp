// RapidJSON's parser drives a builder of our own tree, which notes where each value stands and
// refuses what the parser lets pass: keys given twice, halves of surrogate pairs, zero bytes.
#include "sdk/base/json_text.h"

#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "sdk/base/error.h"
#include "sdk/base/utf8.h"

namespace assay {
namespace {

using Kind = JsonValue::Kind;

// RapidJSON takes a null pointer of its allocator for memory. The names are its own.
// NOLINTBEGIN(readability-identifier-naming)
struct ThrowingAllocator {
  static void* Realloc(void* block, size_t, size_t bytes) {
    if (bytes == 0) {
      std::free(block);
      return nullptr;
    }
    void* const moved = std::realloc(block, bytes);
    if (moved == nullptr) throw std::bad_alloc();
    return moved;
  }
  static void* Malloc(size_t bytes) { return Realloc(nullptr, 0, bytes); }
  static void Free(void* block) { std::free(block); }
};
// NOLINTEND(readability-identifier-naming)

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

// What stands at a place, as a person would point at it.
std::string found_at(std::string_view text, size_t offset) {
  if (offset >= text.size()) return "the end of the text";
  const std::string_view rest = text.substr(offset);
  size_t length = 0;
  while (length < rest.size() && is_word(rest[length])) ++length;
  if (length == 0) length = std::max<size_t>(utf8_length(rest), 1);
  constexpr size_t kLongest = 20;
  return cat('\'', printable(rest.substr(0, std::min(length, kLongest))),
             length > kLongest ? "...'" : "'");
}

std::string_view expected_by(rapidjson::ParseErrorCode code) {
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty:
      return "an object in braces";
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return "nothing after the closing brace";
    case rapidjson::kParseErrorObjectMissName:
      return "a key in double quotes";
    case rapidjson::kParseErrorObjectMissColon:
      return "a colon after the key";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return "a comma or a closing brace";
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return "a comma or a closing bracket";
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "four hexadecimal digits after \\u";
    case rapidjson::kParseErrorStringUnicodeSurrogateInvalid:
      return "a pair of surrogates, \\ud800 to \\udbff and then \\udc00 to \\udfff";
    case rapidjson::kParseErrorStringEscapeInvalid:
      return "\\\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t or \\u0000: control characters are escaped";
    case rapidjson::kParseErrorStringMissQuotationMark:
      return "a closing quotation mark";
    case rapidjson::kParseErrorStringInvalidEncoding:
      return "UTF-8";
    case rapidjson::kParseErrorNumberTooBig:
      return "a number below 1.8e308";
    case rapidjson::kParseErrorNumberMissFraction:
      return "a digit after the decimal point";
    case rapidjson::kParseErrorNumberMissExponent:
      return "a digit in the exponent";
    default:
      return "a value: an object, a list, a text in double quotes, a number, true or false";
  }
}

// What the writer may be used to from elsewhere.
std::string_view hint_for(std::string_view text, size_t offset) {
  if (offset >= text.size()) return "";
  const char found = text[offset];
  size_t before = offset;
  while (before > 0 && is_space(text[before - 1])) --before;
  const bool after_comma = before > 0 && text[before - 1] == ',';
  if ((found == '}' || found == ']') && after_comma) return "remove the comma before it";
  if (found == '\'') return "JSON has double quotes only";
  if (found == '/' || found == '#') return "JSON has no comments";
  const std::string_view rest = text.substr(found == '-' ? offset + 1 : offset);
  if (rest.starts_with("NaN") || rest.starts_with("Infinity")) return "JSON has no such number";
  return "";
}

// Builds the tree from the events of the parser and keeps the place of each.
class TreeBuilder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TreeBuilder> {
 public:
  // `items` may be null: all is kept.
  TreeBuilder(const JsonSource& source, const rapidjson::MemoryStream& stream,
              const JsonItems* items)
      : source_(source), stream_(stream), items_(items) {}

  bool Null() { return add(Kind::kNull); }
  bool Bool(bool) { return add(Kind::kBool); }
  bool Int(int) { return add(Kind::kNumber); }
  bool Uint(unsigned) { return add(Kind::kNumber); }
  bool Int64(int64_t) { return add(Kind::kNumber); }
  bool Uint64(uint64_t) { return add(Kind::kNumber); }
  bool Double(double) { return add(Kind::kNumber); }

  bool String(const char* characters, rapidjson::SizeType size, bool) {
    JsonValue& value = place(Kind::kText);
    value.text.assign(characters, size);
    check_characters(value.text, value.offset);
    return end(value);
  }

  bool Key(const char* characters, rapidjson::SizeType size, bool) {
    JsonMember& member = open_.back().value->members.emplace_back();
    member.offset = token();
    member.key.assign(characters, size);
    check_characters(member.key, member.offset);
    return done();
  }

  bool StartObject() { return open(Kind::kObject); }
  bool StartArray() { return open(Kind::kList); }

  bool EndObject(rapidjson::SizeType) {
    check_keys(open_.back().value->members);
    return close();
  }
  bool EndArray(rapidjson::SizeType) { return close(); }

  JsonValue take() { return std::move(root_); }

  [[noreturn]] void fail_at(size_t offset, std::string_view found, std::string_view expected,
                            std::string_view hint = "") const {
    const std::string near = path();
    std::string message =
        cat(source_.what, ": ", json_place(source_.text, offset), near.empty() ? "" : ", near ",
            near, ": found ", found, ", expected ", expected);
    if (!hint.empty()) message += cat("; ", hint);
    fail(Code::kInvalid, std::move(message),
         {.argument = near,
          .expected = std::string(expected),
          .actual = std::string(found),
          .hint = std::string(hint)});
  }

  [[noreturn]] void fail_parse(rapidjson::ParseErrorCode code, size_t offset) const {
    // A broken word (tru, None) is shown from its beginning.
    if (code == rapidjson::kParseErrorValueInvalid) offset = token();
    fail_at(offset, found_at(source_.text, offset), expected_by(code),
            hint_for(source_.text, offset));
  }

 private:
  struct Container {
    JsonValue* value;
    size_t size;      // items so far, of a list
    bool keeps_last;  // a list that has an item only until the next
  };

  // Where the next token begins: behind the last one, blanks, commas and colons.
  size_t token() const {
    size_t offset = done_;
    const auto skipped = [](char c) { return is_space(c) || c == ',' || c == ':'; };
    while (offset < source_.text.size() && skipped(source_.text[offset])) ++offset;
    return offset;
  }

  // Makes the value that begins here: in the list or under the key being read, or the root.
  JsonValue& place(Kind kind) {
    JsonValue* value = &root_;
    if (!open_.empty()) {
      Container& parent = open_.back();
      value = parent.value->kind == Kind::kList ? &place_item(parent)
                                                : &parent.value->members.back().value;
    }
    value->kind = kind;
    value->offset = token();
    return *value;
  }

  static JsonValue& place_item(Container& list) {
    std::vector<JsonValue>& items = list.value->items;
    if (!list.keeps_last || items.empty()) items.emplace_back();
    if (list.keeps_last && list.size > 0) items.back() = {};
    ++list.size;
    return items.back();
  }

  // A scalar as it is written; numbers are converted where their type is known (json_number).
  bool add(Kind kind) {
    JsonValue& value = place(kind);
    value.text = source_.text.substr(value.offset, stream_.Tell() - value.offset);
    return end(value);
  }

  bool open(Kind kind) {
    JsonValue& value = place(kind);
    if (open_.size() == kMaxJsonDepth)
      fail_at(value.offset, "deeper nesting", cat("at most ", kMaxJsonDepth, " levels"));
    const bool keeps_last = items_ != nullptr && kind == Kind::kList && is_passed_over();
    open_.push_back({&value, 0, keeps_last});
    return done();
  }

  bool close() {
    const Container closed = open_.back();
    open_.pop_back();
    if (closed.keeps_last) closed.value->items = {};
    return end(*closed.value);
  }

  bool end(JsonValue& value) {
    value.size = stream_.Tell() - value.offset;
    done();
    if (items_ != nullptr) take(value);
    return true;
  }

  void take(const JsonValue& value) const {
    if (open_.size() == 1 && open_[0].value->kind == Kind::kList)
      items_->take("", open_[0].size - 1, value);
    if (open_.size() == 2 && holds_items())
      items_->take(open_[0].value->members.back().key, open_[1].size - 1, value);
  }

  // Whether the second container that is open is a list of the outermost object.
  bool holds_items() const {
    return open_[0].value->kind == Kind::kObject && open_[1].value->kind == Kind::kList;
  }

  // Whether the items of a list that begins here are gone as soon as they are read.
  bool is_passed_over() const {
    if (open_.empty()) return true;
    if (open_.size() == 1) return open_[0].value->kind == Kind::kObject;
    if (open_.size() < 3 || !holds_items() || open_[2].value->kind != Kind::kObject) return false;
    return std::ranges::count(items_->skipped, open_[2].value->members.back().key) > 0;
  }

  bool done() {
    done_ = stream_.Tell();
    return true;
  }

  // Half a pair of surrogates passes the parser.
  void check_characters(const std::string& characters, size_t offset) const {
    if (!is_utf8(characters)) {
      fail_at(offset, "half a pair of surrogates",
              expected_by(rapidjson::kParseErrorStringUnicodeSurrogateInvalid));
    }
  }

  void check_keys(const std::vector<JsonMember>& members) const {
    std::vector<const JsonMember*> sorted;
    sorted.reserve(members.size());
    for (const JsonMember& member : members) sorted.push_back(&member);
    std::ranges::stable_sort(sorted, {}, &JsonMember::key);
    const auto twice = std::ranges::adjacent_find(sorted, {}, &JsonMember::key);
    if (twice == sorted.end()) return;
    const JsonMember& second = **std::next(twice);
    fail_at(second.offset, cat("key ", excerpt(second.key), " again"), "every key once",
            cat("the first is at ", json_place(source_.text, (*twice)->offset)));
  }

  // Of the value being read, or read last: "optimizer.group[1].match".
  std::string path() const {
    std::string path;
    for (const Container& container : open_) {
      const std::vector<JsonMember>& members = container.value->members;
      if (container.value->kind == Kind::kList) {
        path += cat('[', std::max<size_t>(container.size, 1) - 1, ']');
      } else if (!members.empty()) {
        path += cat(path.empty() ? "" : ".", printable(members.back().key));
      }
    }
    return path;
  }

  const JsonSource& source_;
  const rapidjson::MemoryStream& stream_;
  const JsonItems* items_;
  JsonValue root_;
  // The containers being read, outermost first. Nothing is added to one while another in it is
  // open, so the pointers hold.
  std::vector<Container> open_;
  size_t done_ = 0;  // end of the last token
};

JsonValue parse(const JsonSource& source, const JsonItems* items) {
  rapidjson::MemoryStream stream(source.text.data(), source.text.size());
  TreeBuilder builder(source, stream, items);
  // The parser takes a zero byte for the end.
  const size_t zero = source.text.find('\0');
  if (zero != std::string_view::npos) builder.fail_at(zero, "a zero byte", "text");
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator> reader;
  const rapidjson::ParseResult result =
      reader.Parse<rapidjson::kParseValidateEncodingFlag>(stream, builder);
  if (result.IsError()) builder.fail_parse(result.Code(), result.Offset());
  return builder.take();
}

}  // namespace

JsonValue parse_json_text(const JsonSource& source) { return parse(source, nullptr); }

JsonValue parse_json_items(const JsonSource& source, const JsonItems& items) {
  return parse(source, &items);
}

std::string json_place(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto continues = [](char c) { return (c & 0xC0) == 0x80; };
  const size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  return cat("line ", 1 + std::ranges::count(before, '\n'), ", column ",
             1 + line.size() - static_cast<size_t>(std::ranges::count_if(line, continues)));
}

}  // namespace assay
