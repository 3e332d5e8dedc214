// ImageNet (ILSVRC 2012; Russakovsky et al., arXiv:1409.0575) and anything in its form: JPEG images
// in class folders, in lists, or in MXNet's RecordIO files.

#include <algorithm>
#include <cmath>
#include <memory>

#include "datasets/datasets.h"
#include "datasets/image_list.h"
#include "datasets/image_records.h"
#include "sdk/base/error.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/dataset_writer.h"
#include "sdk/data/recordio.h"

namespace assay::datasets {
namespace {

constexpr const char* kSplitNames[] = {"train", "val", "test"};
constexpr const char* kClassMapName = "classes.tsv";

// One of `images` and `records`.
struct Split {
  std::string name;
  std::vector<ImageEntry> images;
  std::shared_ptr<const data::RecordIoFile> records;

  int64_t size() const { return records ? records->size() : static_cast<int64_t>(images.size()); }
};

std::string at(const std::string& source, const std::string& name, const char* ending = "") {
  return join_path(source, name + ending);
}

// The classes where the class map or folders name them; empty where only labels are known.
ClassMap find_classes(const std::string& source) {
  if (path_exists(at(source, kClassMapName))) return read_class_map(at(source, kClassMapName));
  for (const char* name : kSplitNames) {
    const bool listed =
        path_exists(at(source, name, ".lst")) || path_exists(at(source, name, ".rec"));
    if (!listed && is_directory(at(source, name))) return classes_of_folders(at(source, name));
  }
  return {};
}

std::vector<Split> find_splits(const std::string& source, const ClassMap& classes) {
  std::vector<Split> splits;
  for (const char* name : kSplitNames) {
    if (path_exists(at(source, name, ".rec"))) {
      splits.push_back({name, {}, std::make_shared<data::RecordIoFile>(at(source, name, ".rec"))});
    } else if (path_exists(at(source, name, ".lst"))) {
      splits.push_back({name, read_image_list(source, name), nullptr});
    } else if (is_directory(at(source, name))) {
      splits.push_back({name, list_class_folders(source, name, classes), nullptr});
    }
  }
  require(!splits.empty() || is_directory(source), Code::kNotFound, "there is no folder ", source);
  require(!splits.empty(), Code::kNotFound, source,
          " holds none of train, val and test as a folder of class folders, a list (.lst) or a "
          "RecordIO file (.rec)");
  return splits;
}

// A whole number that is a label, or kFormat.
int64_t to_label(const data::RecordIoImage& image) {
  const float label = image.labels[0];
  require(image.labels.size() == 1 && label >= 0 && label < 1e6f && label == std::floor(label),
          Code::kFormat, "it has ", image.labels.size(), " labels, the first ", label,
          ", expected one whole number from 0");
  return static_cast<int64_t>(label);
}

// A record of an image, whose file lies in `payload`.
LabelledImage read_record(const data::RecordIoFile& records, int64_t index, std::string& payload) {
  records.read(index, payload);
  std::string where = cat(records.path(), ", record ", index);
  try {
    const data::RecordIoImage image = data::parse_recordio_image(payload);
    return {image.id, to_label(image), image.file, std::move(where)};
  } catch (const Error& error) {
    throw error.with_context(where);
  }
}

int64_t largest_label(const Split& split, const data::ProgressFunction& progress) {
  constexpr int64_t kRecordsPerReport = 256;
  int64_t largest = -1;
  for (const ImageEntry& image : split.images) largest = std::max(largest, image.label);
  if (!split.records) return largest;
  const std::string phase = "labels of " + split.name;
  std::string payload;
  for (int64_t i = 0; i < split.size(); ++i) {
    if (i % kRecordsPerReport == 0) report_progress(progress, {phase, i, split.size()});
    largest = std::max(largest, read_record(*split.records, i, payload).label);
  }
  report_progress(progress, {phase, split.size(), split.size()});
  return largest;
}

// Where no classes are named, the labels say how many there are.
int64_t count_classes(const ClassMap& classes, const std::vector<Split>& splits,
                      const data::ProgressFunction& progress) {
  int64_t count = classes.size();
  for (const Split& split : splits) {
    if (count > 0 && split.records) continue;  // checked record by record while converting
    const int64_t largest = largest_label(split, progress);
    require(classes.size() == 0 || largest < classes.size(), Code::kFormat, "split ", split.name,
            ": label ", largest, " is out of range, ", kClassMapName, " names ", classes.size(),
            " classes");
    count = std::max(count, largest + 1);
  }
  return count;
}

data::SourceFile describe(const Split& split) {
  data::SourceFile source;
  if (split.records) {
    // Its length and where its records lie: the file may be far too large to be read twice.
    Sha256 sum;
    for (int64_t i = 0; i <= split.records->size(); ++i)
      sum.update(cat(split.records->offset(i), "\n"));
    source.set_file(split.name + ".rec");
    source.set_bytes(split.records->offset(split.records->size()));
    source.set_sha256(sum.hex());
    return source;
  }
  uint64_t bytes = 0;
  for (const ImageEntry& image : split.images) bytes += image.bytes;
  source.set_file(split.name);
  source.set_bytes(bytes);
  source.set_sha256(entries_sha256(split.images));
  return source;
}

data::DatasetManifest make_plan(const std::vector<Split>& splits, const ClassMap& classes,
                                int64_t count, int shards) {
  constexpr int64_t kEntriesPerShard = 10000, kMaxShards = 1024;
  data::DatasetManifest plan = manifest_of(kImagenet);
  plan.set_classes(static_cast<int32_t>(count));
  for (const std::string& name : classes.names()) plan.add_class_names(name);
  for (const Split& split : splits) {
    *plan.add_sources() = describe(split);
    const int64_t chosen = std::clamp<int64_t>(split.size() / kEntriesPerShard, 1, kMaxShards);
    data::plan_split(plan, split.name, split.size(),
                     shards != 0 ? shards : static_cast<int>(chosen));
  }
  return plan;
}

void make_entry(const Split& split, int64_t index, int64_t classes, const ConvertOptions& options,
                data::DatasetWriter::Entry& entry) {
  if (!split.records) {
    const ImageEntry& image = split.images[static_cast<size_t>(index)];
    const std::string file = read_file(join_path(options.source, image.path));
    make_image_entry({image.id, image.label, file, image.path}, options.read_image, entry);
    return;
  }
  std::string payload;
  const LabelledImage image = read_record(*split.records, index, payload);
  require(image.label < classes, Code::kFormat, image.where, ": label ", image.label,
          " is out of range, there are ", classes, " classes");
  make_image_entry(image, options.read_image, entry);
}

data::DatasetManifest convert(const ConvertOptions& options) {
  const ClassMap classes = find_classes(options.source);
  const std::vector<Split> splits = find_splits(options.source, classes);
  const int64_t count = count_classes(classes, splits, options.progress);
  data::DatasetWriter writer(options.output, make_plan(splits, classes, count, options.shards),
                             options.overwrite, data::WhenStopped::kKeep);
  if (!writer.complete()) {
    for (const Split& split : splits) {
      const auto make = [&](int64_t index, data::DatasetWriter::Entry& entry) {
        make_entry(split, index, count, options, entry);
      };
      writer.write_entries(split.name, make, options.threads, options.progress);
    }
    writer.finish();
  }
  return writer.manifest();
}

data::Transform make_transform(const data::DatasetManifest& manifest,
                               std::string_view config_json) {
  data::JpegTransformConfig config;
  parse_json(config_json, config, "image transform");
  return data::make_jpeg_transform(manifest.classes(), config);
}

}  // namespace

constinit const DatasetEntry kImagenet = {
    "imagenet",
    "photographs in any number of classes, as JPEG; source: a folder with train, val or test, "
    "each as class folders, as im2rec's list (.lst) or as RecordIO file (.rec); classes.tsv may "
    "name the classes",
    "ImageNet: research use only, rights stay with the photographers; other images: their own",
    "",
    "photographs",
    convert,
    make_transform};

}  // namespace assay::datasets
