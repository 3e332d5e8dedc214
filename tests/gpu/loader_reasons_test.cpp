// What is said of plug-ins that are missing or cannot be used. The loader looks once in a process,
// beside the program: so copies of this program, each beside another plug-in, print their reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "sdk/backend/cuda/loader.h"
#include "sdk/base/error.h"

namespace assay::cuda {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kPrintReason = "--print-reason";

// A copy of this program in a folder of its own, and beside it `plugin` if there is one.
class Copy {
 public:
  explicit Copy(const char* plugin) {
    std::string name = (fs::temp_directory_path() / "assay-loader-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::copy_file("/proc/self/exe", program());
    if (plugin != nullptr) fs::copy_file(plugin, folder_ / kPluginFile);
  }
  ~Copy() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  std::string reason() const {
    FILE* output = popen(cat(program().string(), " ", kPrintReason).c_str(), "r");
    std::array<char, 4096> text{};
    const size_t size = std::fread(text.data(), 1, text.size(), output);
    EXPECT_EQ(pclose(output), 0);
    return {text.data(), size};
  }

 private:
  fs::path program() const { return folder_ / "program"; }
  fs::path folder_;
};

TEST(LoaderReasons, NoPlugin) {
  EXPECT_THAT(Copy(nullptr).reason(), AllOf(HasSubstr("there is no libassay_cuda.so.1 beside"),
                                            HasSubstr("built or installed without CUDA")));
}

TEST(LoaderReasons, ALibraryThatThePluginNeedsIsMissing) {
  EXPECT_THAT(Copy(PLUGIN_WITH_A_MISSING_LIBRARY).reason(),
              AllOf(HasSubstr("the CUDA plug-in cannot be loaded: libplugin_dependency.so"),
                    HasSubstr("install that library or put its folder into LD_LIBRARY_PATH")));
}

TEST(LoaderReasons, NoPluginOfOurs) {
  EXPECT_THAT(Copy(PLUGIN_WITHOUT_ENTRY).reason(), HasSubstr("is no plug-in of this library"));
}

TEST(LoaderReasons, APluginOfAnotherBuild) {
  EXPECT_THAT(Copy(PLUGIN_OF_ANOTHER_BUILD).reason(),
              AllOf(HasSubstr("is of another build (0.0.1 of another compiler)"),
                    HasSubstr("install both from one build")));
}

}  // namespace
}  // namespace assay::cuda

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == assay::cuda::kPrintReason) {
    std::puts(assay::cuda::devices()[0].unavailable_reason.c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
