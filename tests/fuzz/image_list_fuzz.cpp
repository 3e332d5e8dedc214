// Any bytes as a list of images, as a map of classes and as a packed file: each is refused with an
// Error, or names what is there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "datasets/gzip.h"
#include "datasets/image_list.h"
#include "sdk/base/error.h"
#include "tests/fuzz/folder.h"

namespace {

struct ImageFolder : Folder {
  ImageFolder() {
    write("a.jpg", "image");
    write("b.jpg", "another");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay::datasets;
  static const ImageFolder folder;
  const std::string file = folder.write("train.lst", {reinterpret_cast<const char*>(data), size});
  try {
    for (const ImageEntry& entry : read_image_list(folder.path(), "train"))
      if (entry.label < 0 || entry.bytes == 0) std::abort();
  } catch (const assay::Error&) {
  }
  try {
    const ClassMap classes = read_class_map(file);
    if (classes.size() < 1 || classes.size() != static_cast<int64_t>(classes.names().size()))
      std::abort();
  } catch (const assay::Error&) {
  }
  try {
    constexpr uint64_t kMaxBytes = 1 << 20;
    if (read_maybe_gzip(file, kMaxBytes).size() > kMaxBytes) std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
