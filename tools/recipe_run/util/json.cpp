// protobuf's JSON both ways, a strict reading before it, and values written by hand.
#include "tools/recipe_run/util/json.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <cmath>
#include <memory>

#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

constexpr char kTypes[] = "type.googleapis.com";
constexpr auto kExact = int64_t{1} << 53;  // doubles hold every integer up to here

std::string printed(const pb::Message& message, bool indented) {
  pb::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  // The same message gives the same text: maps are in the order of their keys, which protobuf
  // promises only for bytes that are asked to be so.
  std::string bytes, text;
  {
    pb::io::StringOutputStream stream(&bytes);
    pb::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  const std::unique_ptr<pb::util::TypeResolver> types(
      pb::util::NewTypeResolverForDescriptorPool(kTypes, message.GetDescriptor()->file()->pool()));
  const auto status = pb::util::BinaryToJsonString(
      types.get(), fmt::format("{}/{}", kTypes, message.GetTypeName()), bytes, &text, options);
  if (!status.ok())
    throw Error(Exit::kCrashed, message.GetTypeName() + " has no JSON form: " + status.ToString());
  return text;
}

std::string syntax_problem(const std::string& text) {
  constexpr unsigned kStrict =
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag;
  rapidjson::MemoryStream in(text.data(), text.size());
  rapidjson::BaseReaderHandler<> nothing;
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kStrict>(in, nothing);
  if (!result.IsError()) return "";
  return fmt::format("byte {}: {}", result.Offset(), rapidjson::GetParseError_En(result.Code()));
}

}  // namespace

std::string json_text(const pb::Message& message) { return printed(message, true); }
std::string json_line(const pb::Message& message) { return printed(message, false); }

void write_json(const fs::path& path, const pb::Message& message) {
  write_file_atomic(path, json_text(message));
}

std::string parse_json(const std::string& text, pb::Message& message) {
  if (std::string problem = syntax_problem(text); !problem.empty()) return problem;
  const auto status = pb::util::JsonStringToMessage(text, &message);
  if (status.ok()) return "";
  // protobuf adds the text around the mistake and a mark below it, on lines of their own.
  const std::string said(status.message());
  return said.empty() ? "it is not understood" : said.substr(0, said.find('\n'));
}

void read_json(const fs::path& path, pb::Message& message) {
  const std::string problem = parse_json(read_file(path), message);
  if (problem.empty()) return;
  throw Error(Exit::kTampered, fmt::format("'{}' is damaged: {}", path.string(), problem),
              "move the run's folder away and run again");
}

std::string json_of(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_of(double number) {
  if (std::isfinite(number)) return shortest(number);
  return std::isnan(number) ? "\"nan\"" : number > 0 ? "\"inf\"" : "\"-inf\"";
}

std::string json_of(int64_t number) {
  return number <= kExact && number >= -kExact ? std::to_string(number)
                                               : json_of(std::to_string(number));
}

std::string json_of(uint64_t number) {
  return number <= uint64_t{kExact} ? std::to_string(number) : json_of(std::to_string(number));
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += json_of(name);
  fields_ += ':';
  fields_ += json;
  return *this;
}

}  // namespace reciperun
