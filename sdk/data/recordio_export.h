// A data set of JPEG images as MXNet's RecordIO files.
#pragma once

#include <string>

#include "sdk/data/manifest.h"

namespace assay::data {

// Writes <target>/<split>.rec and .idx for every split of the data set in `folder`: the same images
// in the same order, with their labels and ids, as im2rec packs them. Creates `target`; what was
// written before a failure stays, the file it failed in does not appear.
// kUnsupported for data sets that do not hold JPEG images; kInvalid when a file is there already
// and `overwrite` is not set; kCancelled; and as reading the data set.
void export_recordio(const std::string& folder, const std::string& target, bool overwrite,
                     const ProgressFunction& progress);

}  // namespace assay::data
