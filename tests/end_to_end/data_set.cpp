#include "tests/end_to_end/data_set.h"

#include <assay/assay_data.h>

#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "tests/harness/micrographs.h"

namespace end_to_end {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSize = 28, kClasses = 10;

std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

void write_split(const fs::path& folder, const std::string& prefix, uint32_t images) {
  std::mt19937 random(images);
  std::string pixels = big_endian({0x803, images, kSize, kSize});
  std::string labels = big_endian({0x801, images});
  for (uint32_t i = 0; i < images; ++i) {
    const uint32_t label = i % kClasses;
    labels += static_cast<char>(label);
    for (uint32_t y = 0; y < kSize; ++y) {
      for (uint32_t x = 0; x < kSize; ++x) {
        const bool bar = y / 2 == label + 2;
        pixels += static_cast<char>((bar ? 128 : 0) + random() % 128);
      }
    }
  }
  std::ofstream(folder / (prefix + "-images-idx3-ubyte"), std::ios::binary) << pixels;
  std::ofstream(folder / (prefix + "-labels-idx1-ubyte"), std::ios::binary) << labels;
}

void check(assay_status status, assay_error* error) {
  if (status == ASSAY_OK) return;
  assay_error_info info{};
  info.struct_size = sizeof info;
  std::string message = "assay call failed";
  if (assay_error_get(error, &info) == ASSAY_OK)
    message.assign(info.message.data, info.message.size);
  assay_error_free(error);
  throw std::runtime_error(message);
}

void convert(const std::string& name, const fs::path& source, const fs::path& data_root,
             decltype(assay_host::read_image) read_image) {
  assay_host host{};
  host.struct_size = sizeof host;
  host.read_image = read_image;
  assay_error* error = nullptr;
  assay_context* context = nullptr;
  check(assay_context_create(nullptr, &host, nullptr, 0, &context, &error), error);
  const std::unique_ptr<assay_context, void (*)(assay_context*)> owner(context, assay_context_free);
  const std::string from = source.string(), to = (data_root / name).string();
  check(assay_dataset_convert(context, {name.data(), name.size()}, {from.data(), from.size()},
                              {to.data(), to.size()}, {nullptr, 0}, nullptr, 0, nullptr, &error),
        error);
}

}  // namespace

void make_data_set(const fs::path& data_root, uint32_t train, uint32_t test) {
  const fs::path source = data_root / "source";
  fs::create_directories(source);
  write_split(source, "train", train);
  write_split(source, "t10k", test);
  convert("fashion_mnist", source, data_root, nullptr);
}

void make_micrographs(const fs::path& data_root) {
  const fs::path source = data_root / "source";
  fs::create_directories(source);
  std::ofstream(source / "train-volume.tif") << "images";
  std::ofstream(source / "train-labels.tif") << "masks";
  convert("isbi2012_em", source, data_root, assay::test::make_pages);
}

}  // namespace end_to_end
