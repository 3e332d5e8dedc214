#include "tools/recipe_run/base/json_reader.h"

#include <google/protobuf/util/json_util.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

namespace reciperun {
namespace {

std::string syntax_problem(const std::string& text) {
  constexpr unsigned kStrict =
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag;
  rapidjson::MemoryStream in(text.data(), text.size());
  rapidjson::BaseReaderHandler<> nothing;
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kStrict>(in, nothing);
  if (!result.IsError()) return "";
  return "byte " + std::to_string(result.Offset()) + ": " +
         rapidjson::GetParseError_En(result.Code());
}

}  // namespace

std::string parse_json(const std::string& text, google::protobuf::Message& message) {
  if (std::string problem = syntax_problem(text); !problem.empty()) return problem;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message);
  if (status.ok()) return "";
  // protobuf adds the text around the mistake and a mark below it, on lines of their own.
  const std::string said(status.message());
  return said.empty() ? "it is not understood" : said.substr(0, said.find('\n'));
}

}  // namespace reciperun
