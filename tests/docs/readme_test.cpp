// The README and the guides show programs and name folders and files: all of it must be true.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

const std::filesystem::path kRoot = ASSAY_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The README first, then docs/.
std::vector<std::filesystem::path> pages() {
  std::vector<std::filesystem::path> all{kRoot / "README.md"};
  for (const auto& guide : std::filesystem::directory_iterator(kRoot / "docs"))
    all.push_back(guide.path());
  return all;
}

TEST(Readme, ShowsItsExampleAsItIs) {
  EXPECT_NE(read(kRoot / "README.md")
                .find("```c\n" + read(kRoot / "capi/examples/train_and_serve.c") + "```"),
            std::string::npos)
      << "copy it there";
}

TEST(Readme, PagesNameEveryExampleAndGuide) {
  std::string text;
  for (const auto& page : pages()) text += read(page);
  for (const char* folder : {"capi/examples", "docs"}) {
    for (const auto& file : std::filesystem::directory_iterator(kRoot / folder)) {
      const std::string name = std::filesystem::relative(file.path(), kRoot);
      if (name.ends_with(".c") || name.ends_with(".md")) {
        EXPECT_NE(text.find(name), std::string::npos) << name;
      }
    }
  }
}

TEST(Readme, ShowsPartsOfTheBindingsPrograms) {
  const std::string guide = read(kRoot / "docs/go_and_rust.md");
  const std::filesystem::path bindings = kRoot / "capi/bindings";
  for (const auto& [language, program] :
       {std::pair("go", bindings / "go/examples/train_and_serve/main.go"),
        std::pair("rust", bindings / "rust/assay/examples/train_and_serve.rs")}) {
    const std::string opening = std::string("```") + language + "\n";
    const size_t begin = guide.find(opening);
    ASSERT_NE(begin, std::string::npos) << language;
    const size_t from = begin + opening.size(), to = guide.find("```", from);
    EXPECT_NE(read(program).find(guide.substr(from, to - from)), std::string::npos) << program;
  }
}

TEST(Readme, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  for (const auto& page : pages()) {
    const std::string text = read(page);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), link);
         it != std::sregex_iterator(); ++it) {
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / (*it)[1].str()))
          << page << ": " << (*it)[1];
    }
  }
}

}  // namespace
