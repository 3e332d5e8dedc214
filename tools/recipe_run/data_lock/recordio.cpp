// MXNet's RecordIO, as im2rec packs images.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/data_lock/container.h"

namespace reciperun {
namespace {

constexpr uint32_t kMarker = 0xced7230a;
constexpr uint32_t kLengthBits = 29;
enum Part : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

[[noreturn]] void damaged(const std::string& where, const std::string& what) {
  throw Error(Exit::kDataMismatch, where + ": " + what, "pack the data set again");
}

class RecordIoReader {
 public:
  explicit RecordIoReader(const fs::path& path)
      : name_(path.filename().string()), in_(path, std::ios::binary) {
    if (!in_) damaged(name_, "cannot be opened");
  }

  // A payload that contains the marker is cut there, and the marker left out.
  bool next(std::string& payload) {
    payload.clear();
    for (bool more = true; more;) {
      uint32_t head[2] = {};
      if (!in_.read(reinterpret_cast<char*>(head), sizeof head)) {
        if (in_.gcount() != 0 || !payload.empty()) damaged(where(), "the file ends in a record");
        return false;
      }
      if (head[0] != kMarker) damaged(where(), "there is no record where one should begin");
      const uint32_t part = head[1] >> kLengthBits;
      const uint32_t size = head[1] & ((1u << kLengthBits) - 1);
      if (part == kMiddle || part == kLast)
        payload.append(reinterpret_cast<const char*>(&kMarker), sizeof kMarker);
      const size_t before = payload.size();
      payload.resize(before + size);
      if (!in_.read(payload.data() + before, size)) damaged(where(), "the file ends in a record");
      in_.ignore((4 - size % 4) % 4);
      more = part == kFirst || part == kMiddle;
    }
    ++record_;
    return true;
  }
  std::string where() const { return name_ + ", record " + std::to_string(record_); }

 private:
  std::string name_;
  std::ifstream in_;
  int64_t record_ = 0;
};

// Whole numbers as such, as other containers have them.
std::string label_text(float label) {
  return label == std::floor(label) ? std::to_string(static_cast<int64_t>(label)) : shortest(label);
}

// 4 bytes count of labels, 4 bytes one label, 8 bytes number, 8 bytes zeros; then the labels if
// their count is given; then the image file.
RawSample sample_of(const std::string& payload, const std::string& where) {
  constexpr size_t kHead = 24;
  uint32_t count = 0;
  float first = 0;
  if (payload.size() < kHead) damaged(where, "it has no head");
  std::memcpy(&count, payload.data(), 4);
  std::memcpy(&first, payload.data() + 4, 4);
  const size_t labels = size_t{count} * 4;
  if (payload.size() - kHead < labels) damaged(where, "its labels are cut");
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    float label = 0;
    std::memcpy(&label, payload.data() + kHead + 4 * i, 4);
    texts.push_back(label_text(label));
  }
  RawSample sample;
  sample.where = where;
  sample.label = count == 0 ? label_text(first) : join(texts, " ");
  sample.file = payload.substr(kHead + labels);
  return sample;
}

class RecordIo : public Container {
 public:
  explicit RecordIo(const std::map<std::string, fs::path>& files) : files_(files) {
    form = "RecordIO";
    for (const auto& [name, path] : files_) {
      uint64_t samples = 0;
      std::string payload;
      for (RecordIoReader reader(path); reader.next(payload);) ++samples;
      splits.push_back({name, samples, ""});
    }
  }

  void read(const std::string& split, const std::function<void(RawSample&&)>& give) const override {
    std::string payload;
    RecordIoReader reader(files_.at(split));
    for (std::string where = reader.where(); reader.next(payload); where = reader.where())
      give(sample_of(payload, where));
  }

 private:
  std::map<std::string, fs::path> files_;  // by split
};

}  // namespace

std::unique_ptr<Container> open_recordio(const fs::path& folder) {
  std::map<std::string, fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".rec") files[entry.path().stem().string()] = entry.path();
  }
  return files.empty() ? nullptr : std::make_unique<RecordIo>(files);
}

}  // namespace reciperun
