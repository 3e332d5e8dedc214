#include "tools/recipe_run/export/croissant.h"

#include <string_view>

#include "tools/recipe_run/base/json_writer.h"

namespace reciperun {
namespace {

// The terms of the vocabulary that readers look for, as its specification lists them.
constexpr std::string_view kContext = R"({"@language": "en", "@vocab": "https://schema.org/",
  "citeAs": "cr:citeAs", "column": "cr:column", "conformsTo": "dct:conformsTo",
  "cr": "http://mlcommons.org/croissant/", "data": {"@id": "cr:data", "@type": "@json"},
  "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "dct": "http://purl.org/dc/terms/",
  "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract",
  "field": "cr:field", "fileObject": "cr:fileObject", "fileProperty": "cr:fileProperty",
  "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes",
  "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key",
  "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path",
  "rai": "http://mlcommons.org/croissant/RAI/", "recordSet": "cr:recordSet",
  "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated",
  "replace": "cr:replace", "sc": "https://schema.org/", "separator": "cr:separator",
  "source": "cr:source", "subField": "cr:subField", "transform": "cr:transform",
  "equivalentProperty": "cr:equivalentProperty", "samplingRate": "cr:samplingRate"})";

std::string media_type(std::string_view path) {
  if (path.ends_with(".json")) return "application/json";
  if (path.ends_with(".jpg") || path.ends_with(".jpeg")) return "image/jpeg";
  if (path.ends_with(".png")) return "image/png";
  return "application/octet-stream";
}

std::string description_of(const data::Entry& entry) {
  std::string text = "Files as recipe-run locked them";
  for (const data::Split& split : entry.split())
    text += "; split " + split.name() + ": " + std::to_string(split.samples()) +
            " samples, Merkle root over the decoded samples " + split.content_root();
  return text + ". Merkle root over the " + std::to_string(entry.files()) +
         " files: " + entry.root() + ".";
}

void write_file(JsonWriter& json, const data::File& file) {
  json.begin_object().field("@type", "cr:FileObject").field("@id", file.path());
  json.field("name", file.path()).field("contentUrl", file.path());
  json.field("contentSize", std::to_string(file.bytes()) + " B");
  json.field("encodingFormat", media_type(file.path())).field("sha256", file.sha256());
  json.end_object();
}

void write_all_files(JsonWriter& json, const data::Entry& entry) {
  json.begin_object().field("@type", "cr:FileSet").field("@id", "files").field("name", "files");
  json.field("description", std::to_string(entry.files()) + " files of " +
                                std::to_string(entry.bytes()) + " bytes, Merkle root " +
                                entry.root());
  json.field("encodingFormat", "application/octet-stream").field("includes", "**");
  json.end_object();
}

}  // namespace

std::string croissant_json(const data::Entry& entry) {
  JsonWriter json(1);
  json.begin_object().key("@context").raw(std::string(kContext)).field("@type", "sc:Dataset");
  json.field("conformsTo", "http://mlcommons.org/croissant/1.0").field("name", entry.id());
  json.field("description", description_of(entry));
  if (!entry.licence().empty()) json.field("license", entry.licence());
  json.field("dateModified", entry.date()).key("distribution").begin_array();
  for (const data::File& file : entry.file()) write_file(json, file);
  if (entry.file().empty()) write_all_files(json, entry);
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace reciperun
