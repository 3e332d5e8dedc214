// The README shows the example programs and names folders and files: all of it must be true.
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

TEST(Readme, ShowsTheExamplesAsTheyAre) {
  const std::string readme = read(kRoot / "README.md");
  int examples = 0;
  for (const auto& example : std::filesystem::directory_iterator(kRoot / "capi/examples")) {
    if (example.path().extension() != ".c") continue;
    EXPECT_NE(readme.find("```c\n" + read(example.path()) + "```"), std::string::npos)
        << "copy " << example.path() << " into the README";
    ++examples;
  }
  EXPECT_EQ(examples, 4);
}

TEST(Readme, ShowsPartsOfTheBindingsPrograms) {
  const std::string readme = read(kRoot / "README.md");
  const std::filesystem::path bindings = kRoot / "capi/bindings";
  for (const auto& [language, program] :
       {std::pair("go", bindings / "go/examples/train_and_serve/main.go"),
        std::pair("rust", bindings / "rust/assay/examples/train_and_serve.rs")}) {
    const std::string opening = std::string("```") + language + "\n";
    const size_t begin = readme.find(opening);
    ASSERT_NE(begin, std::string::npos) << language;
    const size_t from = begin + opening.size(), to = readme.find("```", from);
    EXPECT_NE(read(program).find(readme.substr(from, to - from)), std::string::npos) << program;
  }
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
