// CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): 50,000 and
// 10,000 colour images of 32 x 32 pixels in ten classes, published as binary batches. Copies as
// folders of JPEG files are read too; those are lossy.

#include <algorithm>
#include <array>

#include "datasets/held_splits.h"
#include "sdk/base/error.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"

namespace assay::datasets {
namespace {

constexpr int kSide = 32, kClasses = 10, kDefaultShards = 4;
constexpr size_t kPixels = size_t{kSide} * kSide, kRecordBytes = 1 + 3 * kPixels;
constexpr std::array kClassNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                    "dog",      "frog",       "horse", "ship", "truck"};

// The records of a split as the binary batches hold them: label, then all red, all green, all blue.
struct Split {
  std::string name;
  std::string bytes;
  std::vector<data::SourceFile> sources;

  int64_t size() const { return static_cast<int64_t>(bytes.size() / kRecordBytes); }
};

void add_batch(const std::string& path, Split& split) {
  const std::string bytes = read_file(path);
  require(!bytes.empty() && bytes.size() % kRecordBytes == 0, Code::kFormat, path, " has ",
          bytes.size(), " bytes, expected a multiple of ", kRecordBytes,
          " (a label and 32 x 32 x 3 values each)");
  for (size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    const int label = static_cast<uint8_t>(bytes[at]);
    require(label < kClasses, Code::kFormat, path, ": label ", at / kRecordBytes, " is ", label,
            ", expected 0 to ", kClasses - 1);
  }
  split.bytes += bytes;
  split.sources.push_back(data::describe_source(path));
}

std::vector<Split> read_batches(const std::string& folder) {
  std::vector<Split> splits = {{"train", {}, {}}, {"test", {}, {}}};
  for (int k = 1; k <= 5; ++k)
    add_batch(join_path(folder, cat("data_batch_", k, ".bin")), splits[0]);
  add_batch(join_path(folder, "test_batch.bin"), splits[1]);
  return splits;
}

// The folder of a class, named by number or by name.
std::string class_folder(const std::string& split_folder, int label) {
  for (const std::string& name :
       {cat(label), std::string(kClassNames[static_cast<size_t>(label)])}) {
    if (is_directory(join_path(split_folder, name))) return join_path(split_folder, name);
  }
  fail(Code::kFormat, cat(split_folder, " has no folder ", label, " or ",
                          kClassNames[static_cast<size_t>(label)]));
}

// Appends one record, red, green and blue apart.
void append_planes(int label, const std::string& file, data::JpegDecoder& decoder,
                   std::string& bytes) {
  const data::JpegInfo info = decoder.open(file);
  require(info.height == kSide && info.width == kSide, Code::kFormat, "the image has ", info.width,
          " x ", info.height, " pixels, expected 32 x 32");
  bytes += static_cast<char>(label);
  const size_t begin = bytes.size();
  bytes.resize(begin + 3 * kPixels);
  decoder.start({0, 0, kSide, kSide});
  for (size_t y = 0; y < kSide; ++y) {
    const uint8_t* row = decoder.next_row();
    for (size_t x = 0; x < kSide; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        bytes[begin + c * kPixels + y * kSide + x] = static_cast<char>(row[4 * x + c]);
      }
    }
  }
}

// Folders train and test of ten class folders. The classes take turns, so that record k has label
// k mod 10 where all have the same number of images.
Split read_folders(const std::string& source, const std::string& name) {
  const std::string folder = join_path(source, name);
  std::vector<std::vector<std::string>> files;
  size_t most = 0;
  for (int label = 0; label < kClasses; ++label) {
    files.push_back(list_files(class_folder(folder, label), "*.jpg"));
    most = std::max(most, files.back().size());
  }
  Split split{name, {}, {}};
  data::JpegDecoder decoder;
  Sha256 sum;
  uint64_t total = 0;
  for (size_t image = 0; image < most; ++image) {
    for (int label = 0; label < kClasses; ++label) {
      const auto& of_class = files[static_cast<size_t>(label)];
      if (image >= of_class.size()) continue;
      const std::string file = read_file(of_class[image]);
      try {
        append_planes(label, file, decoder, split.bytes);
      } catch (const Error& error) {
        throw error.with_context(of_class[image]);
      }
      sum.update(cat(label, "\t", file.size(), "\n"));
      sum.update(file);
      total += file.size();
    }
  }
  data::SourceFile& described = split.sources.emplace_back();
  described.set_file(name);
  described.set_bytes(total);
  described.set_sha256(sum.hex());
  return split;
}

std::vector<Split> read_source(const std::string& source) {
  for (const std::string& folder : {source, join_path(source, "cifar-10-batches-bin")}) {
    if (path_exists(join_path(folder, "data_batch_1.bin"))) return read_batches(folder);
  }
  require(is_directory(join_path(source, "train")) && is_directory(join_path(source, "test")),
          Code::kNotFound, source,
          " holds neither data_batch_1.bin to data_batch_5.bin and test_batch.bin, nor the folders "
          "train and test of JPEG files");
  return {read_folders(source, "train"), read_folders(source, "test")};
}

void make_record(const Split& split, int64_t index, data::Example& example, std::string& payload) {
  const char* record = split.bytes.data() + static_cast<size_t>(index) * kRecordBytes;
  std::string pixels(3 * kPixels, '\0');
  for (size_t i = 0; i < kPixels; ++i) {
    for (size_t c = 0; c < 3; ++c) pixels[3 * i + c] = record[1 + c * kPixels + i];
  }
  data::set_bytes_feature(example, "image", pixels);
  data::set_int64_feature(example, "height", kSide);
  data::set_int64_feature(example, "width", kSide);
  data::set_int64_feature(example, "channels", 3);
  data::set_int64_feature(example, "label", static_cast<uint8_t>(record[0]));
  data::serialize_example(example, payload);
}

data::DatasetManifest convert(const ConvertOptions& options) {
  const std::vector<Split> splits = read_source(options.source);
  data::DatasetManifest plan = manifest_of(kCifar10);
  plan.set_classes(kClasses);
  for (const char* name : kClassNames) plan.add_class_names(name);
  data::Example example;
  std::vector<HeldSplit> held;
  for (const Split& split : splits) {
    for (const data::SourceFile& source : split.sources) *plan.add_sources() = source;
    held.push_back({split.name, split.size(), [&](int64_t index, std::string& payload) {
                      make_record(split, index, example, payload);
                    }});
  }
  return write_held(options, std::move(plan), held, kDefaultShards);
}

data::Transform make_transform(const data::DatasetManifest&, std::string_view config_json) {
  data::ImageTransformConfig config;
  parse_json(config_json, config, "cifar10 transform");
  return data::make_image_transform({{kSide, kSide, 3}, kClasses}, config);
}

}  // namespace

constinit const DatasetEntry kCifar10 = {"cifar10",
                                         "60,000 colour images of 32 x 32 pixels, 10 classes; "
                                         "source: folder with the six binary batches, "
                                         "or with train and test of ten folders of JPEG files",
                                         "none stated by its authors",
                                         "",
                                         "images",
                                         convert,
                                         make_transform};

}  // namespace assay::datasets
