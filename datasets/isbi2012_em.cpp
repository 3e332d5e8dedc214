// ISBI 2012 electron microscopy segmentation challenge (Cardona et al. 2010, PLoS Biology 8(10)):
// 30 slices of 512 x 512 grey pixels with masks, 0 membrane and 255 inside of a cell, and 30 test
// slices without masks. Published as multi-page TIFF files; also passed on as folders of PNG.

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "datasets/held_splits.h"
#include "sdk/base/error.h"
#include "sdk/data/augment/micrograph_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"

namespace assay::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 512;

// Where the pages of a split come from.
struct SplitSource {
  std::string name;
  std::vector<std::string> images, masks;  // files; several pages each, or one
};

struct Slice {
  std::string image, mask;  // kSide * kSide bytes; mask empty for the test split
};

std::string stem(const std::string& path) { return fs::path(path).stem().string(); }

// The folds are places in the stack, and the order of files is that of their names: 10 comes before
// 2. Numbers behind the same letters must have the same number of digits.
void require_numbers_in_order(const std::vector<std::string>& files) {
  std::map<std::string, size_t> digits_of;
  for (const std::string& file : files) {
    const std::string name = stem(file);
    const size_t letters = name.find_last_not_of("0123456789") + 1;
    const size_t digits = name.size() - letters;
    if (digits == 0) continue;
    const auto [known, is_first] = digits_of.emplace(name.substr(0, letters), digits);
    require(known->second == digits, Code::kFormat, file,
            ": slices are taken in the order of their names, and the numbers of this folder have ",
            known->second, " and ", digits, " digits; rename them alike, 02 and 10");
  }
}

// The paths of the files in a folder, in the order of their names; none if it is not there.
std::vector<std::string> files_in(const std::string& folder) {
  if (!is_directory(folder)) return {};
  std::vector<std::string> files = list_folder(folder).files;
  for (std::string& file : files) file = join_path(folder, file);
  require_numbers_in_order(files);
  // By stem, so that a mask stands where its image does, whatever their extensions are.
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return stem(a) < stem(b); });
  return files;
}

// Masks must have the names of the images.
void require_pairs(const std::vector<std::string>& images, const std::vector<std::string>& masks,
                   const std::string& mask_folder) {
  const auto missing = [](const std::vector<std::string>& from,
                          const std::vector<std::string>& in) -> std::optional<std::string> {
    for (const std::string& path : from) {
      const bool found = std::any_of(in.begin(), in.end(), [&](const std::string& other) {
        return stem(other) == stem(path);
      });
      if (!found) return path;
    }
    return std::nullopt;
  };
  if (const auto image = missing(images, masks))
    fail(Code::kFormat, cat(*image, " has no mask of the same name in ", mask_folder));
  if (const auto mask = missing(masks, images))
    fail(Code::kFormat, cat(*mask, " is a mask without an image"));
}

std::optional<SplitSource> find_tiff(const std::string& folder, const std::string& split) {
  const std::string images = join_path(folder, split + "-volume.tif");
  if (!path_exists(images)) return std::nullopt;
  SplitSource source{split, {images}, {}};
  const std::string masks = join_path(folder, split + "-labels.tif");
  if (path_exists(masks)) source.masks = {masks};
  require(split != "train" || !source.masks.empty(), Code::kNotFound, masks,
          " is missing: the masks of ", images);
  return source;
}

std::optional<SplitSource> find_folders(const std::string& folder, const std::string& split) {
  const std::string base = join_path(folder, split);
  SplitSource source{split, files_in(join_path(base, "image")), files_in(join_path(base, "label"))};
  if (source.images.empty()) return std::nullopt;
  if (split == "train" || !source.masks.empty())
    require_pairs(source.images, source.masks, join_path(base, "label"));
  return source;
}

// Slices to be labelled: one picture file, or a folder of nothing else.
std::vector<SplitSource> find_unlabelled(const std::string& source) {
  const std::vector<std::string> files =
      is_directory(source) ? files_in(source) : std::vector<std::string>{source};
  if (files.empty()) return {};
  return {{"test", files, {}}};
}

std::vector<SplitSource> find_splits(const std::string& source) {
  require(path_exists(source), Code::kNotFound, source, " is not there");
  std::vector<SplitSource> splits;
  for (const char* split : {"train", "test"}) {
    auto found = find_tiff(source, split);
    if (!found) found = find_folders(source, split);
    if (found) splits.push_back(std::move(*found));
  }
  const bool has_masks = path_exists(join_path(source, "train-labels.tif")) ||
                         is_directory(join_path(source, "train/label"));
  if (splits.empty() && !has_masks) splits = find_unlabelled(source);
  require(!splits.empty() && (splits[0].name == "train" || !has_masks), Code::kNotFound, source,
          " holds neither train-volume.tif and train-labels.tif nor train/image and train/label "
          "with PNG files of the same names, and is no picture nor a folder of pictures to be "
          "labelled");
  return splits;
}

// One byte per pixel. Colours are taken if the picture is grey all the same.
std::string grey_pixels(data::PixelPage page, const std::string& where) {
  require(page.height == kSide && page.width == kSide, Code::kFormat, where, " is ", page.width,
          " x ", page.height, " pixels, expected ", kSide, " x ", kSide,
          ": cut or resize it first, and its mask alike");
  require(page.bits == 8, Code::kFormat, where, " has ", page.bits,
          " bits per pixel, expected 8: convert it first, the range of values decides how");
  if (page.channels == 1) return std::move(page.bytes);
  const auto channels = static_cast<size_t>(page.channels);
  std::string grey(page.bytes.size() / channels, '\0');
  for (size_t i = 0; i < grey.size(); ++i) {
    const char* pixel = page.bytes.data() + i * channels;
    require(pixel[0] == pixel[1] && pixel[1] == pixel[2], Code::kFormat, where,
            " has colours, expected shades of grey: convert it first");
    grey[i] = pixel[0];
  }
  return grey;
}

void require_mask_values(const std::string& mask, const std::string& where) {
  for (size_t i = 0; i < mask.size(); ++i) {
    const int value = static_cast<uint8_t>(mask[i]);
    require(value == 0 || value == 255, Code::kFormat, where, ": the mask is ", value, " at row ",
            i / kSide, ", column ", i % kSide,
            ", expected 0 (membrane) or 255: a mask of other levels needs a threshold first");
  }
}

struct Page {
  std::string where;   // for messages: the file, with the page if it has several
  std::string pixels;  // kSide * kSide bytes
};

std::vector<Page> read_pages(const std::string& path, const data::ImageReader& read_image) {
  std::vector<data::PixelPage> in_file;
  try {
    in_file = read_image(read_file(path));
  } catch (const Error& error) {
    throw error.with_context(path);
  }
  std::vector<Page> pages;
  for (size_t i = 0; i < in_file.size(); ++i) {
    const std::string where = in_file.size() == 1 ? path : cat(path, ", page ", i);
    pages.push_back({where, grey_pixels(std::move(in_file[i]), where)});
  }
  return pages;
}

// As many masks as images, file by file: totals alone could agree with pairs that do not.
std::vector<Page> read_masks(const std::string& path, const std::string& image_path, size_t pages,
                             const data::ImageReader& read_image) {
  std::vector<Page> masks = read_pages(path, read_image);
  require(masks.size() == pages, Code::kFormat, image_path, " has ", pages, " pages, its masks in ",
          path, " have ", masks.size());
  for (const Page& mask : masks) require_mask_values(mask.pixels, mask.where);
  return masks;
}

std::vector<Slice> read_split(const SplitSource& source, const data::ImageReader& read_image) {
  std::vector<Slice> slices;
  for (size_t file = 0; file < source.images.size(); ++file) {
    std::vector<Page> images = read_pages(source.images[file], read_image);
    std::vector<Page> masks(images.size());
    if (!source.masks.empty())
      masks = read_masks(source.masks[file], source.images[file], images.size(), read_image);
    for (size_t i = 0; i < images.size(); ++i)
      slices.push_back({std::move(images[i].pixels), std::move(masks[i].pixels)});
  }
  return slices;
}

void make_record(const Slice& slice, std::string& payload) {
  data::Example example;
  data::set_bytes_feature(example, "image", slice.image);
  if (!slice.mask.empty()) data::set_bytes_feature(example, "mask", slice.mask);
  data::set_int64_feature(example, "height", kSide);
  data::set_int64_feature(example, "width", kSide);
  data::serialize_example(example, payload);
}

data::DatasetManifest convert(const ConvertOptions& options) {
  require(options.read_image != nullptr, Code::kUnsupported,
          "this program brings no decoder for TIFF and PNG; dataset-convert does when it is built "
          "with Debian's libopencv-imgcodecs-dev");
  data::DatasetManifest plan = manifest_of(kIsbi2012Em);
  plan.set_classes(2);
  for (const char* name : {"membrane", "background"}) plan.add_class_names(name);
  std::vector<HeldSplit> held;
  for (const SplitSource& source : find_splits(options.source)) {
    const auto slices =
        std::make_shared<const std::vector<Slice>>(read_split(source, options.read_image));
    for (const auto* files : {&source.images, &source.masks}) {
      for (const std::string& path : *files) *plan.add_sources() = data::describe_source(path);
    }
    held.push_back({source.name, static_cast<int64_t>(slices->size()),
                    [slices](int64_t index, std::string& payload) {
                      make_record((*slices)[static_cast<size_t>(index)], payload);
                    }});
  }
  return write_held(options, std::move(plan), held, 1);
}

data::Transform make_transform(const data::DatasetManifest&, std::string_view config_json) {
  data::MicrographTransformConfig config;
  parse_json(config_json, config, "isbi2012_em transform");
  return data::make_micrograph_transform(config);
}

}  // namespace

constinit const DatasetEntry kIsbi2012Em = {
    "isbi2012_em",
    "30 electron micrographs of 512 x 512 pixels with membrane masks; source: folder with "
    "train-volume.tif and train-labels.tif (and test-volume.tif), or with train/image and "
    "train/label of PNG files; or slices without masks, a picture file or a folder of them, which "
    "become the split test",
    "terms of the ISBI 2012 challenge: non-commercial use, cite Cardona et al. 2010",
    "",
    "micrographs",
    convert,
    make_transform};

}  // namespace assay::datasets
