// Labelled image files as records of JPEG images (sdk/data/FORMAT.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/data/dataset_writer.h"
#include "sdk/data/image_reader.h"

namespace assay::datasets {

struct LabelledImage {
  uint64_t id = 0;
  int64_t label = 0;
  std::string_view file;  // the content
  std::string where;      // for messages
};

// Makes the record of an image file of any format and quality. JPEG files go in as they are, once
// they have been decoded as a check; others are decoded by `read_image` and become JPEG of quality
// 100. What cannot be decoded is left out. The entry's finding says what was done.
void make_image_entry(const LabelledImage& image, const data::ImageReader& read_image,
                      data::DatasetWriter::Entry& entry);

}  // namespace assay::datasets
