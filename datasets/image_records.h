// Labelled image files as records of JPEG images (sdk/data/FORMAT.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sdk/base/error.h"
#include "sdk/data/dataset_writer.h"
#include "sdk/data/image_reader.h"

namespace assay::datasets {

struct LabelledImage {
  uint64_t id = 0;
  int64_t label = 0;
  std::string_view file;  // the content
  std::string where;      // for messages
};

// An image file as JPEG that decodes. Not for copying: `bytes` may lie in `reencoded`.
struct UsableImage {
  std::string_view bytes;  // the file, or `reencoded`
  std::string reencoded;
  int height = 0, width = 0;
  std::string_view remark;  // a kind of Finding: "grey", "CMYK", "re-encoded as JPEG"; empty: none
};

// Decodes a JPEG file as a check; others are decoded by `read_image` and become JPEG of quality
// 100. Fails so that is_fault_of_the_file() holds where that is no use.
void make_usable(std::string_view file, const data::ImageReader& read_image, UsableImage& image);
bool is_fault_of_the_file(const Error& error);

// Makes the record of an image file of any format and quality. JPEG files go in as they are, once
// they have been decoded as a check; others are decoded by `read_image` and become JPEG of quality
// 100. What cannot be decoded is left out. The entry's remarks say what was done.
void make_image_entry(const LabelledImage& image, const data::ImageReader& read_image,
                      data::DatasetWriter::Entry& entry);

}  // namespace assay::datasets
