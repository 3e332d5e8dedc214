// coco-tiny: 80 images of COCO 2017 with their instances (CC BY 4.0), in ../shared/data or in the
// folder ASSAY_TEST_DATA, where it lies there.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/data/archive.h"
#include "tests/data/squad_files.h"

namespace assay::test {

inline std::string coco_folder() { return sample_data() + "/coco-tiny"; }
inline std::string coco_archive() { return coco_folder() + "/coco_tiny.zip"; }
inline bool has_coco() { return std::filesystem::exists(coco_archive()); }

// By their names: "train2017/000000000009.jpg", "annotations/instances_val2017.json".
inline const std::map<std::string, std::string>& coco_files() {
  static const std::map<std::string, std::string> kFiles = read_archive(coco_archive());
  return kFiles;
}
inline const std::string& coco_annotations(const std::string& split) {
  return coco_files().at("annotations/instances_" + split + "2017.json");
}

}  // namespace assay::test
