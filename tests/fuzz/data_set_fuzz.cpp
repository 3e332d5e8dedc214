// Any bytes as dataset.json beside files that could be its own: each is refused with an Error, or
// every record and every file that it names can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/manifest.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/record.h"
#include "tests/fuzz/folder.h"

namespace {

using namespace assay::data;

struct DataFolder : Folder {
  DataFolder() {
    write("v", "[UNK]\n");
    RecordWriter writer(path() + "/a");
    writer.write("one");
    writer.write("two");
    writer.finish();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const DataFolder folder;
  folder.write(kManifestName, {reinterpret_cast<const char*>(data), size});
  try {
    const DatasetManifest manifest = read_manifest(folder.path());
    for (const DatasetSplit& split : manifest.splits()) {
      const auto source = open_split(folder.path(), manifest, split.name());
      std::string payload;
      for (int64_t i = 0; i < source->size(); ++i) source->read(i, payload);
    }
    verify_dataset(folder.path(), {});
  } catch (const assay::Error&) {
  }
  return 0;
}
