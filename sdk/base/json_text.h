// Strict JSON (RFC 8259) as a tree that knows where everything stands in the text.
//
// protobuf's own parser takes more than JSON (single quotes, trailing commas, keys without
// quotation marks) and cannot say where a mistake is, so texts pass here before it reads them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kText, kList, kObject };
  Kind kind = Kind::kNull;
  // kText: its characters, UTF-8. kNumber, kBool, kNull: as written.
  std::string text;
  std::vector<JsonValue> items;     // kList
  std::vector<JsonMember> members;  // kObject, in the order of the text
  size_t offset = 0;                // of its first byte in the text
  size_t size = 0;                  // bytes
};

struct JsonMember {
  std::string key;
  size_t offset = 0;  // of the key's opening quotation mark
  JsonValue value;
};

// Objects and lists may stand in each other this deep.
inline constexpr size_t kMaxJsonDepth = 64;

// A text and what it is, for messages: "trainer configuration".
struct JsonSource {
  std::string_view text;
  std::string_view what;
};

// Parses one value. Fails with kInvalid: malformed text, bytes that are not UTF-8, a key given
// twice, deeper nesting; the message tells line and column, the key nearby, what is there and what
// was expected.
JsonValue parse_json_text(const JsonSource& source);

// What becomes of the outermost list, or of the lists that are members of the outermost object, so
// that reading a text needs the memory of its largest item.
struct JsonItems {
  // Called for each of their items as soon as it is read: the key (none of an outermost list), the
  // item's number and the item, which is not kept. What it throws ends the reading.
  std::function<void(std::string_view list, size_t index, const JsonValue& item)> take;
  // Members of items of which only the kind is kept, and that what stands in them is JSON.
  std::vector<std::string_view> skipped;
};

// The object without the items of its lists, or the list without its items. Fails as
// parse_json_text, also after items were taken.
JsonValue parse_json_items(const JsonSource& source, const JsonItems& items);

// "line 2, column 14" of a byte of the text, both from 1; columns count characters.
std::string json_place(std::string_view text, size_t offset);

}  // namespace assay
