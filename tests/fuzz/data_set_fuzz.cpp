// Any bytes as dataset.json beside files that could be its own: each is refused with an Error when
// it is opened, or every record that it names can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

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
  std::vector<std::shared_ptr<const RecordSource>> splits;
  try {
    const DatasetManifest manifest = read_manifest(folder.path());
    for (const DatasetSplit& split : manifest.splits())
      splits.push_back(open_split(folder.path(), manifest, split.name()));
    verify_dataset(folder.path(), {});
  } catch (const assay::Error&) {
  }
  std::string payload;  // an Error here is a failure
  for (const auto& split : splits)
    for (int64_t i = 0; i < split->size(); ++i) split->read(i, payload);
  return 0;
}
