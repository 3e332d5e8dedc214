// The cases of tests/fixtures/detection_scores: data sets, detections in them, and pycocotools'
// scores.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

namespace assay::test {

inline std::string detection_file(const std::string& name) {
  const std::string path =
      std::string(ASSAY_SOURCE_DIR) + "/tests/fixtures/detection_scores/" + name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The rows of scores.tsv of one case: number or digest by name.
inline std::map<std::string, std::string> expected_scores(const std::string& of) {
  std::istringstream rows(detection_file("scores.tsv"));
  std::map<std::string, std::string> scores;
  for (std::string row; std::getline(rows, row);) {
    std::istringstream columns(row);
    std::string name_of_case, name, value;
    std::getline(columns, name_of_case, '\t');
    std::getline(columns, name, '\t');
    std::getline(columns, value, '\t');
    if (name_of_case == of) scores[name] = value;
  }
  return scores;
}

}  // namespace assay::test
