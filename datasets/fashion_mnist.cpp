// Fashion-MNIST (Xiao, Rasul, Vollgraf, arXiv:1708.07747): 60,000 and 10,000 grey images of 28 x 28
// pixels in ten classes, published as IDX files.

#include <array>
#include <memory>

#include "datasets/held_splits.h"
#include "datasets/idx.h"
#include "sdk/base/error.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"

namespace assay::datasets {
namespace {

constexpr int kHeight = 28, kWidth = 28, kClasses = 10, kDefaultShards = 4;
constexpr std::array kClassNames = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

struct SplitFiles {
  const char* split;
  const char* images;
  const char* labels;
};
constexpr SplitFiles kSplits[] = {{"train", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                  {"test", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};

// The file as published (.gz) or unpacked.
std::string find_source(const std::string& folder, const std::string& name) {
  const std::string plain = join_path(folder, name);
  for (const std::string& path : {plain + ".gz", plain}) {
    if (path_exists(path)) return path;
  }
  fail(Code::kNotFound, cat("neither ", plain, ".gz nor ", plain,
                            " exists; install Debian's dataset-fashion-mnist, or name the folder "
                            "with the four published files"));
}

struct Split {
  IdxArray images, labels;
  int64_t size() const { return images.dims[0]; }
};

Split read_split(const std::string& images_path, const std::string& labels_path) {
  Split split{read_idx(images_path, 3), read_idx(labels_path, 1)};
  const auto& dims = split.images.dims;
  require(dims[1] == kHeight && dims[2] == kWidth, Code::kFormat, images_path, ": images are ",
          dims[1], " x ", dims[2], " pixels, expected ", kHeight, " x ", kWidth);
  require(split.labels.dims[0] == dims[0], Code::kFormat, labels_path, " holds ",
          split.labels.dims[0], " labels for the ", dims[0], " images of ", images_path);
  for (int64_t i = 0; i < split.size(); ++i) {
    const int label = split.labels.data()[i];
    require(label < kClasses, Code::kFormat, labels_path, ": label ", i, " is ", label,
            ", expected 0 to ", kClasses - 1);
  }
  return split;
}

void make_record(const Split& split, int64_t index, data::Example& example, std::string& payload) {
  constexpr size_t kPixels = size_t{kHeight} * kWidth;
  const auto* image =
      reinterpret_cast<const char*>(split.images.data()) + static_cast<size_t>(index) * kPixels;
  data::set_bytes_feature(example, "image", {image, kPixels});
  data::set_int64_feature(example, "height", kHeight);
  data::set_int64_feature(example, "width", kWidth);
  data::set_int64_feature(example, "channels", 1);
  data::set_int64_feature(example, "label", split.labels.data()[index]);
  data::serialize_example(example, payload);
}

data::DatasetManifest convert(const ConvertOptions& options) {
  data::DatasetManifest plan = manifest_of(kFashionMnist);
  plan.set_classes(kClasses);
  for (const char* name : kClassNames) plan.add_class_names(name);
  data::Example example;
  std::vector<HeldSplit> held;
  for (const SplitFiles& files : kSplits) {
    const std::string images = find_source(options.source, files.images);
    const std::string labels = find_source(options.source, files.labels);
    const auto split = std::make_shared<const Split>(read_split(images, labels));
    *plan.add_sources() = data::describe_source(images);
    *plan.add_sources() = data::describe_source(labels);
    held.push_back(
        {files.split, split->size(), [&example, split](int64_t index, std::string& payload) {
           make_record(*split, index, example, payload);
         }});
  }
  return write_held(options, std::move(plan), held, kDefaultShards);
}

data::Transform make_transform(const data::DatasetManifest&, std::string_view config_json) {
  data::ImageTransformConfig config;
  parse_json(config_json, config, "fashion_mnist transform");
  return data::make_image_transform({{kHeight, kWidth, 1}, kClasses}, config);
}

}  // namespace

constinit const DatasetEntry kFashionMnist = {
    "fashion_mnist",
    "70,000 grey images of clothing, 28 x 28 pixels, 10 classes; source: folder with the four IDX "
    "files, plain or .gz",
    "MIT (Copyright 2017 Zalando SE)",
    "/usr/share/datasets/fashion-mnist",
    "images",
    convert,
    make_transform};

}  // namespace assay::datasets
