// Events are records as in TFRecord files: length, its checksum, a message, its checksum.
#include "tools/recipe_run/record/tensorboard.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <chrono>
#include <string_view>
#include <vector>

namespace reciperun {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class T>
std::string little_endian(T number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

// CRC-32C, rotated and offset, as TFRecord files have it.
std::string masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const auto sum = static_cast<uint32_t>(crc.checksum());
  return little_endian(((sum >> 15) | (sum << 17)) + 0xA282EAD8u);
}

fs::path new_file(const fs::path& folder, uint32_t part) {
  create_folders(folder);
  return folder / fmt::format("events.out.tfevents.{:010.0f}.recipe-run.{}", now(), part);
}

// A number of a PNG file's header, which begins with signature, length and name of its first chunk.
int32_t png_size(std::string_view png, size_t at) {
  int32_t size = 0;
  for (size_t i = at; i < at + 4; ++i) size = size << 8 | static_cast<uint8_t>(png[i]);
  return size;
}

}  // namespace

TensorBoardLog::TensorBoardLog(const fs::path& folder, int64_t step, uint32_t part)
    : file_(new_file(folder, part)) {
  tensorboard::Event version;
  version.set_file_version("brain.Event:2");
  append(std::move(version));
  tensorboard::Event start;
  start.set_step(step + 1);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  append(std::move(start));
}

void TensorBoardLog::write(int64_t step, const std::map<std::string, double>& values) {
  tensorboard::Event event;
  event.set_step(step);
  for (const auto& [tag, value] : values) {
    tensorboard::Summary::Value& row = *event.mutable_summary()->add_value();
    row.set_tag(tag);
    row.set_simple_value(static_cast<float>(value));
  }
  append(std::move(event));
}

void TensorBoardLog::write_pictures(int64_t step, const fs::path& folder) {
  if (!is_there(folder)) return;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".png") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::string png = read_file(file);
    constexpr size_t kWidth = 16, kHeight = 20, kHeader = 24;
    if (png.size() < kHeader) continue;
    tensorboard::Event event;
    event.set_step(step);
    tensorboard::Summary::Value& row = *event.mutable_summary()->add_value();
    row.set_tag("pictures/" + file.stem().string());
    tensorboard::Image& image = *row.mutable_image();
    image.set_height(png_size(png, kHeight));
    image.set_width(png_size(png, kWidth));
    image.set_colorspace(3);
    image.set_encoded_image_string(std::move(png));
    append(std::move(event));
  }
}

void TensorBoardLog::append(tensorboard::Event event) {
  event.set_wall_time(now());
  const std::string payload = event.SerializeAsString();
  const std::string length = little_endian(uint64_t{payload.size()});
  file_.append(length + masked_crc(length) + payload + masked_crc(payload));
}

}  // namespace reciperun
