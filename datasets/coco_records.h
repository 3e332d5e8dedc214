// Record files that other converters made of COCO, as a source: those of TensorFlow's object
// detection, of Google's and of NVIDIA's EfficientDet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sdk/data/dataset_writer.h"
#include "sdk/data/image_reader.h"
#include "sdk/data/manifest.h"

namespace assay::datasets {

// The largest id of a category: that of the last class of the largest head.
inline constexpr int64_t kMaxCategory = 10000;

// The record files of a split, "*train*record*", in the order of their names; none if `folder` is
// none or has none.
std::vector<std::string> find_record_files(const std::string& folder, const std::string& split);

// Categories by id, with their names where records have them. Reads every record: kFormat names one
// that is none of an image with boxes, or has too many of them.
std::map<int64_t, std::string> categories_of(const data::RecordSource& records,
                                             const std::string& split,
                                             const data::ProgressFunction& progress);

// The names and sizes of the files decide whether a conversion is repeated.
data::SourceFile describe_records(const std::vector<std::string>& paths, const std::string& split);

// The same record, after its image has been checked; images of other formats than JPEG are encoded
// again, and those that cannot be decoded left out.
void make_record_entry(const data::RecordSource& records, int64_t index,
                       const data::ImageReader& read_image, data::DatasetWriter::Entry& entry);

}  // namespace assay::datasets
