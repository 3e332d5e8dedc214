// Records of other converters: read once for their categories, and once for the conversion, which
// looks at their images and copies them.
#include "datasets/coco_records.h"

#include <algorithm>

#include "datasets/image_records.h"
#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/sha256.h"
#include "sdk/data/detection_records.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/manifest.pb.h"

namespace assay::datasets {
namespace {

// The names of a record's categories, in the order of its boxes; none if it does not say them.
void add_names(const data::Example& example, const data::DetectionRecord& record,
               std::map<int64_t, std::string>& names) {
  const record::Feature* const text = data::find_feature(example, "image/object/class/text");
  const bool named =
      text != nullptr && text->bytes_list().value_size() == std::ssize(record.objects);
  for (size_t i = 0; i < record.objects.size(); ++i) {
    std::string& name = names[record.objects[i].category];
    if (named && name.empty()) name = text->bytes_list().value(static_cast<int>(i));
  }
}

// `example` holds what the record points into.
void read_record(const data::RecordSource& records, int64_t index, std::string& payload,
                 data::Example& example, data::DetectionRecord& record) {
  records.read(index, payload);
  try {
    data::read_detection(payload, kMaxCategory, example, record);
    const auto boxes =
        std::ranges::count_if(record.objects, [](const auto& object) { return !object.crowd; });
    require(boxes <= data::kMostBoxes, Code::kFormat, "the image has ", boxes,
            " boxes that are not crowds, expected at most ", data::kMostBoxes);
  } catch (const Error& error) {
    throw error.with_context(records.where(index));
  }
}

}  // namespace

std::vector<std::string> find_record_files(const std::string& folder, const std::string& split) {
  if (!is_directory(folder)) return {};
  std::vector<std::string> paths = list_files(folder, cat("*", split, "*record*"));
  std::erase_if(paths,
                [](const auto& path) { return is_directory(path) || path.ends_with(".idx"); });
  return paths;
}

std::map<int64_t, std::string> categories_of(const data::RecordSource& records,
                                             const std::string& split,
                                             const data::ProgressFunction& progress) {
  constexpr int64_t kRecordsPerReport = 256;
  const std::string phase = "labels of " + split;
  std::map<int64_t, std::string> names;
  std::string payload;
  data::Example example;
  data::DetectionRecord record;
  for (int64_t i = 0; i < records.size(); ++i) {
    if (i % kRecordsPerReport == 0) data::report_progress(progress, {phase, i, records.size()});
    read_record(records, i, payload, example, record);
    add_names(example, record, names);
  }
  data::report_progress(progress, {phase, records.size(), records.size()});
  return names;
}

data::SourceFile describe_records(const std::vector<std::string>& paths, const std::string& split) {
  Sha256 sum;
  uint64_t bytes = 0;
  for (const std::string& path : paths) {
    const uint64_t size = File::open_read(path).size();
    sum.update(cat(file_name(path), '\t', size, '\n'));
    bytes += size;
  }
  data::SourceFile source;
  source.set_file(cat(split, ": ", paths.size(), " record files"));
  source.set_bytes(bytes);
  source.set_sha256(sum.hex());
  return source;
}

void make_record_entry(const data::RecordSource& records, int64_t index,
                       const data::ImageReader& read_image, data::DatasetWriter::Entry& entry) {
  data::Example example;
  data::DetectionRecord record;
  read_record(records, index, entry.payload, example, record);
  UsableImage usable;
  try {
    make_usable(record.jpeg, read_image, usable);
  } catch (const Error& error) {
    if (!is_fault_of_the_file(error)) throw;
    entry.usable = false;
    entry.remarks.push_back({"left out", cat(records.where(index), ": ", error.message())});
    return;
  }
  if (!usable.remark.empty())
    entry.remarks.push_back({std::string(usable.remark), records.where(index)});
  if (usable.reencoded.empty()) return;  // the record as it is
  data::set_bytes_feature(example, "image/encoded", usable.reencoded);
  data::set_bytes_feature(example, "image/format", "jpeg");
  data::set_bytes_feature(example, "image/key/sha256", sha256_hex(usable.reencoded));
  data::serialize_example(example, entry.payload);
}

}  // namespace assay::datasets
