// TFRecord files of tf.train.Example with a manifest.
#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"
#include "tools/recipe_run/data_lock/container.h"
#include "tools/recipe_run/data_lock/example.pb.h"

namespace reciperun {
namespace {

using Fields = google::protobuf::Map<std::string, google::protobuf::Value>;

constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // of a record: more is corruption

std::string text_of(const Fields& fields, const char* name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second.string_value();
}

// Whole numbers of 64 bits stand in JSON as text.
uint64_t number_of(const Fields& fields, const char* name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return 0;
  const auto& value = found->second;
  return value.has_number_value() ? static_cast<uint64_t>(value.number_value())
                                  : std::strtoull(value.string_value().c_str(), nullptr, 10);
}

[[noreturn]] void damaged(const std::string& where, const std::string& what) {
  throw Error(Exit::kDataMismatch, where + ": " + what, "convert the data set again");
}

// The payloads of one file, in order.
class RecordFileReader {
 public:
  explicit RecordFileReader(const fs::path& path)
      : name_(path.filename().string()), in_(path, std::ios::binary) {
    if (!in_) damaged(name_, "cannot be opened");
  }
  bool next(std::string& payload) {
    char head[12], tail[4];  // length and its checksum, checksum of the payload
    if (!in_.read(head, sizeof head)) {
      if (in_.gcount() != 0) damaged(where(), "the file ends inside of a record");
      return false;
    }
    uint64_t size = 0;
    std::memcpy(&size, head, sizeof size);
    if (size > kMostBytes) damaged(where(), "its length is damaged");
    payload.resize(size);
    if (!in_.read(payload.data(), static_cast<std::streamsize>(size)) || !in_.read(tail, 4))
      damaged(where(), "the file ends inside of a record");
    ++record_;
    return true;
  }
  std::string where() const { return name_ + ", record " + std::to_string(record_); }

 private:
  std::string name_;
  std::ifstream in_;
  int64_t record_ = 0;  // read so far
};

using Features = google::protobuf::Map<std::string, data::record::Feature>;

const std::string* bytes_in(const Features& features, const char* name) {
  const auto found = features.find(name);
  return found == features.end() || found->second.bytes_list().value_size() != 1
             ? nullptr
             : &found->second.bytes_list().value(0);
}

int64_t whole_in(const Features& features, const char* name, int64_t otherwise) {
  const auto found = features.find(name);
  return found == features.end() || found->second.int64_list().value_size() != 1
             ? otherwise
             : found->second.int64_list().value(0);
}

// Pixels, label and number have places of their own; everything else counts as it stands.
std::string other_features(const Features& features, bool has_picture) {
  static const std::vector<std::string> kOfPictures = {"image",    "jpeg",  "height", "width",
                                                       "channels", "label", "id"};
  std::map<std::string, std::string> others;
  for (const auto& [name, feature] : features) {
    const bool known = std::find(kOfPictures.begin(), kOfPictures.end(), name) != kOfPictures.end();
    if (!(has_picture && known)) others[name] = feature.SerializeAsString();
  }
  std::string text;
  for (const auto& [name, value] : others)
    text += name + " " + std::to_string(value.size()) + "\n" + value;
  return text;
}

RawSample sample_of(const std::string& payload, const std::string& where) {
  data::record::Example example;
  if (!example.ParseFromString(payload)) damaged(where, "it is no tf.train.Example");
  const Features& features = example.features().feature();
  RawSample sample;
  sample.where = where;
  const std::string* jpeg = bytes_in(features, "jpeg");
  const std::string* image = bytes_in(features, "image");
  const int64_t height = whole_in(features, "height", 0), width = whole_in(features, "width", 0);
  const bool pixels = image != nullptr && height > 0 && width > 0;
  if (jpeg != nullptr) sample.file = *jpeg;
  if (jpeg == nullptr && pixels) {
    sample.picture = {static_cast<int>(height), static_cast<int>(width),
                      static_cast<int>(whole_in(features, "channels", 1)), *image};
  }
  const bool has_picture = jpeg != nullptr || pixels;
  const int64_t label = whole_in(features, "label", -1);
  if (has_picture && label >= 0) sample.label = std::to_string(label);
  sample.features = other_features(features, has_picture);
  return sample;
}

class RecordFiles : public Container {
 public:
  RecordFiles(fs::path folder, const Fields& manifest) : folder_(std::move(folder)) {
    form = "record files";
    dataset = text_of(manifest, "dataset");
    licence = text_of(manifest, "licence");
    const auto found = manifest.find("splits");
    if (found == manifest.end()) damaged(folder_.string() + "/dataset.json", "it lists no splits");
    for (const auto& item : found->second.list_value().values()) {
      const Fields& split = item.struct_value().fields();
      splits.push_back(
          {text_of(split, "name"), number_of(split, "records"), text_of(split, "content_sha256")});
      for (const auto& shard : split.at("shards").list_value().values())
        shards_[splits.back().name].push_back(text_of(shard.struct_value().fields(), "file"));
    }
  }

  void read(const std::string& split, const std::function<void(RawSample&&)>& give) const override {
    std::string payload;
    for (const std::string& file : shards_.at(split)) {
      RecordFileReader reader(folder_ / file);
      for (std::string where = reader.where(); reader.next(payload); where = reader.where())
        give(sample_of(payload, where));
    }
  }

 private:
  fs::path folder_;
  std::map<std::string, std::vector<std::string>> shards_;  // by split
};

}  // namespace

std::unique_ptr<Container> open_record_files(const fs::path& folder) {
  const fs::path manifest = folder / "dataset.json";
  std::error_code ignored;
  if (!fs::exists(manifest, ignored)) return nullptr;
  google::protobuf::Struct object;
  if (const std::string problem = parse_json(read_file(manifest), object); !problem.empty())
    damaged(manifest.string(), "it is not JSON: " + problem);
  return std::make_unique<RecordFiles>(folder, object.fields());
}

}  // namespace reciperun
