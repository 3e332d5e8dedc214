// The README shows the example program and names folders and files: all of it must be true.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace {

const std::filesystem::path kRoot = ASSAY_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Readme, ShowsTheExampleAsItIs) {
  const std::string readme = read(kRoot / "README.md");
  EXPECT_NE(readme.find("```c\n" + read(kRoot / "capi/examples/train_and_serve.c") + "```"),
            std::string::npos)
      << "copy capi/examples/train_and_serve.c into the README";
}

TEST(Readme, LinksLeadSomewhere) {
  const std::string readme = read(kRoot / "README.md");
  const std::regex link(R"(\]\(([^)#]+)\))");
  int links = 0;
  for (auto it = std::sregex_iterator(readme.begin(), readme.end(), link);
       it != std::sregex_iterator(); ++it, ++links) {
    EXPECT_TRUE(std::filesystem::exists(kRoot / (*it)[1].str())) << (*it)[1];
  }
  EXPECT_GT(links, 2);
}

}  // namespace
