// COCO (Lin et al., arXiv:1405.0312), and any photographs with annotations in its form: one record
// an image, also of those without objects, with the features that TensorFlow's object detection
// knows.

#include <algorithm>
#include <map>

#include "datasets/coco_records.h"
#include "datasets/datasets.h"
#include "datasets/image_records.h"
#include "datasets/source_files.h"
#include "datasets/text_conversion.h"
#include "sdk/base/expect.h"
#include "sdk/base/sha256.h"
#include "sdk/base/utf8.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/data/coco_instances.h"
#include "sdk/data/dataset_writer.h"
#include "sdk/data/detection_records.h"

namespace assay::datasets {
namespace {

constexpr const char* kSplitNames[] = {"train", "val"};
constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 32;
constexpr uint64_t kMaxImageBytes = uint64_t{1} << 27;

struct CocoKeys : ConversionKeys {
  std::string train, val, train_images, val_images;
  void fields(ConfigFields& f) override {
    f("train", train, "instances of the split; annotations/instances_train2017.json");
    f("val", val, "the same of val; annotations/instances_val2017.json");
    f("train_images", train_images, "folder of the split's images; train2017");
    f("val_images", val_images, "the same of val; val2017");
  }
};

// Of a file of instances, or of `records`.
struct Split {
  std::string name;
  std::string annotations;  // name of the file
  std::string images;       // name of the folder
  std::string json;
  data::CocoInstances instances;
  uint64_t bytes = 0;  // of all images
  std::vector<std::string> record_files;
  std::shared_ptr<const data::RecordSet> records;

  int64_t size() const {
    return records ? records->size() : static_cast<int64_t>(instances.images.size());
  }
};

Split read_split(const SourceFiles& files, const std::string& name, const std::string& annotations,
                 const std::string& images) {
  Split split{name, annotations, images, files.read(annotations, kMaxJsonBytes), {}, 0, {}, {}};
  split.instances = data::parse_coco_instances(split.json, annotations);
  for (const data::CocoImage& image : split.instances.images) {
    const std::string path = join_path(images, image.file_name);
    require(files.has(path), Code::kNotFound, files.path(), " holds no ", path, ", which is image ",
            image.id, " of ", annotations, "; set ", name, "_images to the folder of the images");
    split.bytes += files.size(path);
  }
  return split;
}

std::vector<Split> read_splits(const SourceFiles& files, const CocoKeys& keys) {
  std::vector<Split> splits;
  for (const std::string name : kSplitNames) {
    const bool trains = name == kSplitNames[0];
    const std::string& given = trains ? keys.train : keys.val;
    const std::string& folder = trains ? keys.train_images : keys.val_images;
    const std::string annotations =
        given.empty() ? cat("annotations/instances_", name, "2017.json") : given;
    require(given.empty() || files.has(given), Code::kNotFound, files.path(), " holds no ", given);
    const auto record_files = find_record_files(files.path(), name);
    if (files.has(annotations)) {
      splits.push_back(
          read_split(files, name, annotations, folder.empty() ? name + "2017" : folder));
    } else if (!record_files.empty()) {
      splits.push_back({.name = name,
                        .record_files = record_files,
                        .records = std::make_shared<data::RecordSet>(record_files)});
    }
  }
  require(!splits.empty(), Code::kNotFound, files.path(),
          " holds neither annotations/instances_train2017.json nor "
          "annotations/instances_val2017.json; name files of instances with train and val");
  return splits;
}

void add_category(const data::CocoCategory& category, const Split& split,
                  std::map<int64_t, std::string>& names) {
  require(category.id >= 1 && category.id <= kMaxCategory, Code::kFormat, split.annotations,
          ": the category ", excerpt(category.name), " has the id ", category.id,
          ", expected 1 to ", kMaxCategory);
  const auto [known, is_new] = names.emplace(category.id, category.name);
  require(is_new || known->second == category.name, Code::kFormat, split.annotations, ": category ",
          category.id, " is ", excerpt(category.name), " here and ", excerpt(known->second),
          " in another split");
}

// Class c of a detector is category c + 1, so that COCO's numbers keep their gaps. By id.
std::map<int64_t, std::string> category_names(const std::vector<Split>& splits,
                                              const data::ProgressFunction& progress) {
  std::map<int64_t, std::string> names;
  for (const Split& split : splits) {
    if (split.records) names.merge(categories_of(*split.records, split.name, progress));
    for (const data::CocoCategory& category : split.instances.categories)
      add_category(category, split, names);
  }
  require(!names.empty(), Code::kFormat, "split ", splits[0].name, " has no categories");
  return names;
}

// Why an object is no box of a record; empty if it is one.
std::string_view fault_of(const data::CocoObject& object, const data::CocoImage& image) {
  if (!(object.width > 0 && object.height > 0)) return "empty or inverted box";
  const bool inside = object.x >= 0 && object.y >= 0 &&
                      object.x + object.width <= static_cast<double>(image.width) &&
                      object.y + object.height <= static_cast<double>(image.height);
  return inside ? "" : "box outside of its image";
}

// Too many boxes would only be found in the middle of a training.
void require_few_boxes(const Split& split) {
  for (size_t i = 0; i < split.instances.images.size(); ++i) {
    const data::CocoImage& image = split.instances.images[i];
    const auto boxes = std::ranges::count_if(split.instances.objects_of(i), [&](const auto& o) {
      return !o.crowd && fault_of(o, image).empty();
    });
    require(boxes <= data::kMostBoxes, Code::kFormat, split.annotations, ": image ", image.id, " (",
            image.file_name, ") has ", boxes, " boxes that are not crowds, expected at most ",
            data::kMostBoxes, "; join some as a crowd, or leave them out");
  }
}

data::SourceFile describe_annotations(const Split& split) {
  data::SourceFile source;
  source.set_file(split.annotations);
  source.set_bytes(split.json.size());
  source.set_sha256(sha256_hex(split.json));
  return source;
}

data::SourceFile describe_images(const Split& split, const SourceFiles& files) {
  Sha256 sum;
  for (const data::CocoImage& image : split.instances.images) {
    const uint64_t bytes = files.size(join_path(split.images, image.file_name));
    sum.update(cat(image.id, '\t', image.file_name, '\t', bytes, '\n'));
  }
  data::SourceFile source;
  source.set_file(split.images);
  source.set_bytes(split.bytes);
  source.set_sha256(sum.hex());
  return source;
}

void plan_split(const Split& split, const SourceFiles& files, int shards,
                data::DatasetManifest& plan) {
  // 256 shards of COCO's train2017, 32 of val2017, as they are published.
  constexpr int64_t kImagesPerShard = 156, kMaxShards = 256;
  const int64_t chosen = std::clamp<int64_t>(split.size() / kImagesPerShard, 1, kMaxShards);
  data::plan_split(plan, split.name, split.size(), shards != 0 ? shards : static_cast<int>(chosen));
  if (split.records) {
    *plan.add_sources() = describe_records(split.record_files, split.name);
    return;
  }
  *plan.add_sources() = describe_annotations(split);
  *plan.add_sources() = describe_images(split, files);
  data::plan_file(plan, split.name + ".json", split.json);
}

data::DatasetManifest make_plan(const std::vector<Split>& splits, const SourceFiles& files,
                                const std::map<int64_t, std::string>& categories, int shards) {
  data::DatasetManifest plan = manifest_of(kCoco);
  const int64_t classes = categories.rbegin()->first;
  plan.set_classes(static_cast<int32_t>(classes));
  for (int64_t id = 1; id <= classes; ++id) {
    const auto name = categories.find(id);
    plan.add_class_names(name == categories.end() ? "" : name->second);
  }
  for (const Split& split : splits) plan_split(split, files, shards, plan);
  return plan;
}

// Makes records of a split's images. Any number of threads may call it.
class EntryMaker {
 public:
  EntryMaker(const Split& split, const SourceFiles& files,
             const std::map<int64_t, std::string>& categories, const data::ImageReader& read_image)
      : split_(split), files_(files), categories_(categories), read_image_(read_image) {}

  void make(size_t index, data::DatasetWriter::Entry& entry) const {
    const data::CocoImage& image = split_.instances.images[index];
    const std::string path = join_path(split_.images, image.file_name);
    const std::string file = files_.read(path, kMaxImageBytes);
    UsableImage usable;
    const std::string problem = check(file, image, usable);
    if (!problem.empty()) {
      entry.usable = false;
      entry.remarks.push_back({"left out", cat(path, ": ", problem)});
      return;
    }
    if (!usable.remark.empty()) entry.remarks.push_back({std::string(usable.remark), path});
    data::DetectionRecord record;
    record.source_id = image.id;
    record.file_name = image.file_name;
    record.jpeg = usable.bytes;
    record.height = image.height, record.width = image.width;
    for (const data::CocoObject& object : split_.instances.objects_of(index))
      add_box(object, image, record, entry);
    data::write_detection(record, entry.payload);
  }

 private:
  // Why an image cannot be a record; empty if it can.
  std::string check(const std::string& file, const data::CocoImage& image,
                    UsableImage& usable) const {
    try {
      make_usable(file, read_image_, usable);
    } catch (const Error& error) {
      if (!is_fault_of_the_file(error)) throw;
      return error.message();
    }
    if (usable.height == image.height && usable.width == image.width) return {};
    return cat("it has ", usable.width, " x ", usable.height, " pixels, by ", split_.annotations,
               " ", image.width, " x ", image.height, ": boxes would not fit");
  }

  void add_box(const data::CocoObject& object, const data::CocoImage& image,
               data::DetectionRecord& record, data::DatasetWriter::Entry& entry) const {
    if (const std::string_view fault = fault_of(object, image); !fault.empty()) {
      entry.remarks.push_back(
          {std::string(fault), cat("annotation ", object.id, " of image ", image.id, ": [",
                                   object.x, ", ", object.y, ", ", object.width, ", ",
                                   object.height, "] in ", image.width, " x ", image.height)});
      return;
    }
    const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
    record.objects.push_back({.ymin = static_cast<float>(object.y / height),
                              .xmin = static_cast<float>(object.x / width),
                              .ymax = static_cast<float>((object.y + object.height) / height),
                              .xmax = static_cast<float>((object.x + object.width) / width),
                              .category = object.category_id,
                              .crowd = object.crowd,
                              .area = static_cast<float>(object.area),
                              .name = categories_.at(object.category_id)});
  }

  const Split& split_;
  const SourceFiles& files_;
  const std::map<int64_t, std::string>& categories_;
  const data::ImageReader& read_image_;
};

void write_split(const Split& split, const SourceFiles& files,
                 const std::map<int64_t, std::string>& categories, const ConvertOptions& options,
                 data::DatasetWriter& writer) {
  const EntryMaker maker(split, files, categories, options.read_image);
  const auto make = [&](int64_t index, data::DatasetWriter::Entry& entry) {
    if (split.records) return make_record_entry(*split.records, index, options.read_image, entry);
    maker.make(static_cast<size_t>(index), entry);
  };
  if (!split.records) writer.write_attached(split.name + ".json", split.json);
  writer.write_entries(split.name, make, options.threads, options.progress);
}

data::DatasetManifest convert(const ConvertOptions& options) {
  const auto keys = checked_keys<CocoKeys>(options, kCoco.name);
  const SourceFiles files(options.source);
  const std::vector<Split> splits = read_splits(files, keys);
  const auto categories = category_names(splits, options.progress);
  for (const Split& split : splits) require_few_boxes(split);
  data::DatasetWriter writer(options.output, make_plan(splits, files, categories, options.shards),
                             options.overwrite, data::WhenStopped::kKeep);
  if (writer.complete()) return writer.manifest();
  for (const Split& split : splits) write_split(split, files, categories, options, writer);
  writer.finish();
  return writer.manifest();
}

data::Transform make_transform(const data::DatasetManifest& manifest,
                               std::string_view config_json) {
  data::DetectionTransformConfig config;
  parse_json(config_json, config, "detection transform");
  return data::make_detection_transform(manifest.classes(), config);
}

std::unique_ptr<ConversionKeys> make_keys() { return std::make_unique<CocoKeys>(); }

}  // namespace

constinit const DatasetEntry kCoco = {
    "coco",
    "photographs with boxes around objects; source: a folder, with its zip archives, or one "
    "archive, with annotations/instances_train2017.json and train2017, and the same of val2017; or "
    "the record files of TensorFlow's object detection, *train*record* and *val*record*",
    "COCO's annotations: CC BY 4.0; the photographs: each under the licence that Flickr says",
    "",
    "objects",
    convert,
    make_transform,
    make_keys};

}  // namespace assay::datasets
