// The headers are the contract: every key of a configuration is explained there.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

const std::string kRoot = ASSAY_SOURCE_DIR;

std::string read(const std::string& path) {
  std::ifstream file(kRoot + "/" + path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Message {
  std::string name;
  std::vector<std::string> keys;
};

// The messages of a proto file with the names of their fields.
std::vector<Message> messages_of(const std::string& path) {
  const std::string text = read(path);
  const std::regex pattern(R"(message (\w+) \{|\n  (?:optional |repeated )?[\w.]+ (\w+) = \d+)");
  std::vector<Message> messages;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern);
       it != std::sregex_iterator(); ++it) {
    if ((*it)[1].matched) {
      messages.push_back({(*it)[1].str(), {}});
    } else {
      messages.back().keys.push_back((*it)[2].str());
    }
  }
  return messages;
}

void expect_documented(const std::string& proto, const std::string& header) {
  const std::string text = read(header);
  size_t keys = 0;
  for (const Message& message : messages_of(proto)) {
    if (message.name.find("State") != std::string::npos) continue;  // not for callers
    for (const std::string& key : message.keys) {
      ++keys;
      EXPECT_NE(text.find('"' + key + '"'), std::string::npos)
          << header << " does not explain \"" << key << "\" of " << message.name;
    }
  }
  EXPECT_GT(keys, 1u) << proto;
}

TEST(Configuration, EveryKeyIsExplainedInTheHeaders) {
  const std::string engine = "capi/include/assay/assay.h";
  const std::string data = "capi/include/assay/assay_data.h";
  expect_documented("sdk/train/trainer.proto", engine);
  expect_documented("sdk/optim/optimizer.proto", engine);
  expect_documented("models/model_config.proto", engine);
  expect_documented("sdk/data/loader_config.proto", data);
  expect_documented("sdk/data/augment/image_transform.proto", data);
  expect_documented("sdk/data/augment/jpeg_transform.proto", data);
  expect_documented("sdk/data/augment/micrograph_transform.proto", data);
}

TEST(Configuration, EveryModelHasItsPartInTheHeader) {
  const std::string header = read("capi/include/assay/assay.h");
  const std::string list = read("models/models.cpp");
  const std::regex entry(R"re(ModelEntry\{"(\w+)")re");
  int models = 0;
  for (auto it = std::sregex_iterator(list.begin(), list.end(), entry);
       it != std::sregex_iterator(); ++it, ++models) {
    EXPECT_NE(header.find("\n * \"" + (*it)[1].str() + "\": "), std::string::npos) << (*it)[1];
  }
  EXPECT_GT(models, 1);
}

}  // namespace
