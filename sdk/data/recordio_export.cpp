#include "sdk/data/recordio_export.h"

#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/recordio.h"

namespace assay::data {
namespace {

constexpr int64_t kPicturesPerReport = 64;

void export_split(const RecordSource& source, const std::string& stem, const std::string& name,
                  const ProgressFunction& progress) {
  RecordIoWriter writer(stem);
  Example example;
  std::string payload, packed;
  for (int64_t index = 0; index < source.size(); ++index) {
    if (index % kPicturesPerReport == 0) report_progress(progress, {name, index, source.size()});
    source.read(index, payload);
    parse_example(payload, example);
    require(has_feature(example, "jpeg"), Code::kUnsupported, source.where(index),
            " is no JPEG image; only data sets of such images can become RecordIO files");
    const auto id = static_cast<uint64_t>(int64_feature(example, "id"));
    const auto label = static_cast<float>(int64_feature(example, "label"));
    pack_recordio_image(id, label, bytes_feature(example, "jpeg"), packed);
    writer.write(id, packed);
  }
  writer.finish();
  report_progress(progress, {name, source.size(), source.size()});
}

}  // namespace

void export_recordio(const std::string& folder, const std::string& target, bool overwrite,
                     const ProgressFunction& progress) {
  const DatasetManifest manifest = read_manifest(folder);
  make_directories(target);
  for (const DatasetSplit& split : manifest.splits()) {
    for (const char* ending : {".rec", ".idx"}) {
      const std::string path = join_path(target, split.name() + ending);
      require(overwrite || !path_exists(path), Code::kInvalid, path,
              " is there already; choose another folder or ask to overwrite");
    }
  }
  for (const DatasetSplit& split : manifest.splits()) {
    export_split(*open_split(folder, manifest, split.name()), join_path(target, split.name()),
                 split.name(), progress);
  }
}

}  // namespace assay::data
