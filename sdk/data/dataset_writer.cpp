#include "sdk/data/dataset_writer.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <unistd.h>

#include <cstdio>

#include "sdk/base/error.h"

namespace assay::data {
namespace {

constexpr int64_t kRecordsPerReport = 256;

File prepare_folder(const std::string& folder) {
  make_directories(folder);
  return File::lock_folder(folder, "converting a data set");
}

// The manifest as it was planned: without what only writing finds out.
DatasetManifest without_results(DatasetManifest manifest) {
  for (DatasetSplit& split : *manifest.mutable_splits()) {
    split.clear_content_sha256();
    for (Shard& shard : *split.mutable_shards()) {
      shard.clear_bytes();
      shard.clear_crc32c();
    }
  }
  return manifest;
}

bool shards_present(const std::string& folder, const DatasetManifest& manifest) {
  for (const DatasetSplit& split : manifest.splits()) {
    for (const Shard& shard : split.shards()) {
      const std::string path = join_path(folder, shard.file());
      if (!path_exists(path) || File::open_read(path).size() != shard.bytes()) return false;
    }
  }
  return true;
}

// Those of a data set about to be replaced, which may have other names than the new ones.
void remove_shards(const std::string& folder, const DatasetManifest& manifest) {
  for (const DatasetSplit& split : manifest.splits()) {
    for (const Shard& shard : split.shards()) {
      const bool here = shard.file() == file_name(shard.file());  // never outside of the folder
      if (here && !is_directory(join_path(folder, shard.file()))) {
        remove_file(join_path(folder, shard.file()));
      }
    }
  }
}

std::string to_json_lines(const DatasetManifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(manifest, &text, options);
  require(status.ok(), Code::kInternal, "printing a manifest: ", status.ToString());
  return text;
}

}  // namespace

void plan_split(DatasetManifest& plan, const std::string& name, int64_t records, int shards) {
  require(records > 0, Code::kFormat, "split ", name, " has no records; the source is empty");
  require(shards >= 1 && shards <= records && shards <= 99999, Code::kInvalid, "split ", name,
          " of ", records, " records cannot be written as ", shards, " shards");
  DatasetSplit& split = *plan.add_splits();
  split.set_name(name);
  split.set_records(records);
  for (int k = 0; k < shards; ++k) {
    char suffix[40];
    std::snprintf(suffix, sizeof suffix, "-%05d-of-%05d.tfrecord", k, shards);
    Shard& shard = *split.add_shards();
    shard.set_file(name + suffix);
    shard.set_records(records * (k + 1) / shards - records * k / shards);
  }
}

DatasetWriter::DatasetWriter(const std::string& folder, DatasetManifest plan, bool overwrite)
    : folder_(folder), lock_(prepare_folder(folder)), manifest_(std::move(plan)) {
  manifest_.set_format_version(kManifestVersion);
  const std::string manifest_path = join_path(folder_, kManifestName);
  if (path_exists(manifest_path)) {
    using google::protobuf::util::MessageDifferencer;
    DatasetManifest found;
    try {
      found = read_manifest(folder_);
    } catch (const Error&) {
      if (!overwrite) throw;  // not ours to replace without being told
    }
    const bool same = MessageDifferencer::Equals(without_results(found), manifest_);
    require(same || overwrite, Code::kInvalid, folder_, " already holds data set ", found.dataset(),
            " made from other files or in other shards; choose another folder or ask to overwrite");
    if (same && shards_present(folder_, found)) {
      manifest_ = std::move(found);
      complete_ = true;
      return;
    }
    remove_file(manifest_path);  // before its shards change under it
    remove_shards(folder_, found);
  }
  remove_leftovers();
}

DatasetWriter::~DatasetWriter() {
  if (!complete_) {
    for (const std::string& path : written_) ::unlink(path.c_str());
  }
  if (!complete_) ::rmdir(folder_.c_str());  // refuses where anything of others is left
}

void DatasetWriter::remove_leftovers() {
  for (const std::string& path : list_files(join_path(folder_, ".*.tfrecord.tmp-*"))) {
    remove_file(path);
  }
}

void DatasetWriter::write_split(const std::string& name, const PayloadFunction& payload_of,
                                const ProgressFunction& progress) {
  DatasetSplit* split = nullptr;
  for (DatasetSplit& planned : *manifest_.mutable_splits()) {
    if (planned.name() == name) split = &planned;
  }
  require(split != nullptr && !complete_, Code::kInternal, "split ", name, " was not planned");
  ContentDigest digest;
  std::string payload;
  int64_t index = 0;
  for (Shard& shard : *split->mutable_shards()) {
    const std::string path = join_path(folder_, shard.file());
    RecordWriter writer(path);
    for (int64_t end = index + shard.records(); index < end; ++index) {
      if (index % kRecordsPerReport == 0)
        report_progress(progress, {name, index, split->records()});
      payload_of(index, payload);
      writer.write(payload);
      digest.add(payload);
    }
    written_.push_back(path);
    const RecordFileInfo info = writer.finish();
    shard.set_bytes(info.bytes);
    shard.set_crc32c(info.crc32c);
  }
  split->set_content_sha256(digest.hex());
  report_progress(progress, {name, index, split->records()});
}

void DatasetWriter::finish() {
  if (complete_) return;
  for (const DatasetSplit& split : manifest_.splits()) {
    require(!split.content_sha256().empty(), Code::kInternal, "split ", split.name(),
            " was planned but not written");
  }
  write_file_atomic(join_path(folder_, kManifestName), to_json_lines(manifest_));
  complete_ = true;
}

}  // namespace assay::data
