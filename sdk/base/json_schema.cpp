// Checks a JSON tree against the keys and types that are expected, and explains what does not fit:
// where it stands, what is there, and which key may have been meant.
#include "sdk/base/json_schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"

namespace assay {
namespace {

using Kind = JsonValue::Kind;
using Type = JsonSchema::Type;

// The value as a person would point at it.
std::string describe(const JsonValue& value) {
  switch (value.kind) {
    case Kind::kText:
      return excerpt(value.text);
    case Kind::kObject:
      return "an object";
    case Kind::kList:
      return cat("a list of ", value.items.size());
    default:
      return value.text;
  }
}

template <class T>
bool is_all_of(const std::string& text, T& parsed) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), parsed);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// 64, 64.0 and 6.4e1 are whole numbers; digits alone are compared exactly.
template <class T>
bool holds_integer(const JsonValue& value) {
  const bool digits_as_text = value.kind == Kind::kText && sizeof(T) == sizeof(int64_t);
  if (value.kind != Kind::kNumber && !digits_as_text) return false;
  T exact{};
  if (is_all_of(value.text, exact)) return true;
  double number = 0;
  if (digits_as_text || value.text.find_first_of(".eE") == std::string::npos ||
      !is_all_of(value.text, number))
    return false;
  // One above the largest T is a power of two, which a double holds exactly, as it need not hold
  // the largest T.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return number == std::floor(number) &&
         number >= static_cast<double>(std::numeric_limits<T>::min()) && number < end;
}

template <class T>
bool holds_number(const JsonValue& value) {
  T parsed{};
  return value.kind == Kind::kNumber && is_all_of(value.text, parsed);
}

// What JSON must hold for one element of a field, in words; and whether `value` does.
struct Fit {
  bool fits;
  std::string expected;
};

Fit enum_fit(const JsonSchema::Key& key, const JsonValue& value) {
  const std::vector<std::string_view> names(key.choices.begin(), key.choices.end());
  const bool known = value.kind == Kind::kText && std::ranges::count(names, value.text) > 0;
  return {known, enumerate(names, true)};
}

Fit scalar_fit(const JsonSchema::Key& key, const JsonValue& value) {
  switch (key.type) {
    case Type::kBool:
      return {value.kind == Kind::kBool, "true or false"};
    case Type::kText:
      return {value.kind == Kind::kText, "text in quotation marks"};
    case Type::kInt32:
      return {holds_integer<int32_t>(value), "a whole number of 32 bits"};
    case Type::kInt64:
      return {holds_integer<int64_t>(value), "a whole number"};
    case Type::kUint32:
      return {holds_integer<uint32_t>(value), "a whole number of 32 bits, not negative"};
    case Type::kUint64:
      return {holds_integer<uint64_t>(value), "a whole number, not negative"};
    case Type::kEnum:
      return enum_fit(key, value);
    case Type::kFloat:
      return {holds_number<float>(value), "a number"};
    default:
      return {holds_number<double>(value), "a number"};
  }
}

std::vector<std::string_view> keys_of(const JsonSchema& schema) {
  std::vector<std::string_view> keys;
  for (const JsonSchema::Key& key : schema.keys) keys.push_back(key.name);
  return keys;
}

const JsonSchema::Key* find_key(const JsonSchema& schema, std::string_view name) {
  const auto found = std::ranges::find(schema.keys, name, &JsonSchema::Key::name);
  return found == schema.keys.end() ? nullptr : &*found;
}

// The paths below `schema` whose last key is `name`, or near it: "optimizer.learning_rate".
void find_deeper(const std::string& name, const JsonSchema& schema, const std::string& prefix,
                 std::vector<std::string>& found) {
  for (const JsonSchema::Key& key : schema.keys) {
    if (key.type != Type::kObject) continue;
    const std::string below = cat(prefix, key.name, key.is_list ? "[0]." : ".");
    const std::string_view meant = nearest(name, keys_of(*key.object));
    if (!meant.empty()) found.push_back(cat(below, meant));
    find_deeper(name, *key.object, below, found);
  }
}

// Throws at the first mistake, in the order of the text.
class SchemaCheck {
 public:
  SchemaCheck(const JsonSource& source, const JsonSchema& root) : source_(source), root_(root) {}

  void object(const JsonValue& object, const JsonSchema& schema, const std::string& prefix) const {
    for (const JsonMember& member : object.members) {
      const JsonSchema::Key* field = find_key(schema, member.key);
      if (field == nullptr) unknown(member, schema, prefix);
      const std::string path = prefix + member.key;
      if (field->is_list) {
        list(member.value, *field, path);
      } else {
        element(member.value, *field, path);
      }
    }
  }

  void require_fit(bool fits, const JsonValue& value, const std::string& path,
                   const std::string& expected) const {
    if (fits) return;
    const std::string subject = cat(source_.what, ": ", path, path.empty() ? "the text (" : " (",
                                    json_place(source_.text, value.offset), ")");
    fail_mismatch(Code::kInvalid,
                  {subject, path, describe(value), expected,
                   value.kind == Kind::kNull ? "leave the key out for its default" : ""});
  }

 private:
  [[noreturn]] void unknown(const JsonMember& member, const JsonSchema& schema,
                            const std::string& prefix) const {
    const std::vector<std::string_view> known = keys_of(schema);
    const std::string hint = hint_for(member.key, known);
    const std::string path = prefix + printable(member.key);
    fail(Code::kInvalid,
         cat(source_.what, ": there is no key \"", path, "\" (",
             json_place(source_.text, member.offset), "); ", hint, hint.empty() ? "" : " ",
             known.empty() ? "it takes none" : "known are " + enumerate(known, false, " and ")),
         {.argument = path,
          .expected = known.empty() ? "none" : enumerate(known),
          .actual = member.key,
          .hint = hint});
  }

  // A key misspelt, or in its right spelling at the wrong place.
  std::string hint_for(const std::string& name, std::span<const std::string_view> siblings) const {
    std::string hint = suggestion(name, siblings);
    if (!hint.empty()) return hint;
    std::vector<std::string> deeper;
    find_deeper(name, root_, "", deeper);
    if (deeper.empty()) return "";
    const std::vector<std::string_view> paths(deeper.begin(), deeper.end());
    return cat("did you mean ", enumerate(paths, true), "?");
  }

  void list(const JsonValue& value, const JsonSchema::Key& field, const std::string& path) const {
    require_fit(value.kind == Kind::kList, value, path, field.form.empty() ? "a list" : field.form);
    for (size_t i = 0; i < value.items.size(); ++i) {
      element(value.items[i], field, cat(path, "[", i, "]"));
    }
  }

  void element(const JsonValue& value, const JsonSchema::Key& field,
               const std::string& path) const {
    if (field.type == Type::kAnything) return;
    if (field.type != Type::kObject) {
      const Fit fit = scalar_fit(field, value);
      return require_fit(fit.fits, value, path, fit.expected);
    }
    require_fit(value.kind == Kind::kObject, value, path, "an object in braces");
    object(value, *field.object, path + ".");
  }

  const JsonSource& source_;
  const JsonSchema& root_;
};

}  // namespace

void check_json_schema(const JsonValue& value, const JsonSchema& schema, const JsonSource& source) {
  const SchemaCheck check(source, schema);
  check.require_fit(value.kind == Kind::kObject, value, "", "an object in braces");
  check.object(value, schema, "");
}

template <class T>
T json_number(const JsonValue& value) {
  T exact{};
  if (is_all_of(value.text, exact)) return exact;
  double number = 0;
  is_all_of(value.text, number);
  return static_cast<T>(number);
}
template int32_t json_number(const JsonValue& value);
template int64_t json_number(const JsonValue& value);
template uint32_t json_number(const JsonValue& value);
template uint64_t json_number(const JsonValue& value);
template float json_number(const JsonValue& value);
template double json_number(const JsonValue& value);

}  // namespace assay
