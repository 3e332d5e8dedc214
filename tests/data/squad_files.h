// The files of SQuAD (CC BY-SA 4.0), BERT's uncased vocabulary and a corpus, in ../shared/data or
// in the folder ASSAY_TEST_DATA, where they lie there.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace assay::test {

// Where data sets lie that are too large for the repository.
inline std::string sample_data() {
  const char* folder = std::getenv("ASSAY_TEST_DATA");
  return folder != nullptr ? folder : ASSAY_SOURCE_DIR "/../shared/data";
}
inline const std::string kSquad = sample_data() + "/squad/";
inline const std::string kVocabulary = sample_data() + "/bert-vocab/bert-base-uncased-vocab.txt";

inline bool has_squad() {
  return std::filesystem::exists(kSquad) && std::filesystem::exists(kVocabulary);
}

// What a command prints; it must succeed.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::vector<char> block(1 << 20);
  for (size_t n; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    text.append(block.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

// "dev-v1.1": the JSON text.
inline std::string unpacked_squad(const std::string& name) {
  return output_of("gzip -dc '" + kSquad + name + ".json.gz'");
}

}  // namespace assay::test
