// Conversion into shards: the folder's lock, what an earlier conversion left, the shards, the
// manifest. The manifest is written last, so a folder that has one holds a whole data set.
#include "sdk/data/dataset_writer.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <unistd.h>

#include <cstdio>

#include "sdk/base/error.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/ordered_map.h"

namespace assay::data {
namespace {

// Progress may call into the host, which is slow beside writing a small record.
constexpr int64_t kRecordsPerReport = 256;
constexpr int64_t kEntriesPerReport = 16;  // whole files, each some milliseconds

File prepare_folder(const std::string& folder) {
  make_directories(folder);
  return File::lock_folder(folder, "converting a data set");
}

// The manifest as it was planned: without what only writing finds out. That includes the numbers of
// records where entries may be left out; sources and names of shards stand for them.
DatasetManifest without_results(DatasetManifest manifest, WhenStopped when_stopped) {
  for (DatasetSplit& split : *manifest.mutable_splits()) {
    split.clear_content_sha256();
    if (when_stopped == WhenStopped::kKeep) split.clear_records();
    for (Shard& shard : *split.mutable_shards()) {
      shard.clear_bytes();
      shard.clear_crc32c();
      shard.clear_findings();
      if (when_stopped == WhenStopped::kKeep) shard.clear_records();
    }
  }
  return manifest;
}

bool is_there(const std::string& folder, const std::string& name, uint64_t bytes) {
  const std::string path = join_path(folder, name);
  return path_exists(path) && File::open_read(path).size() == bytes;
}

bool files_present(const std::string& folder, const DatasetManifest& manifest) {
  for (const SourceFile& file : manifest.files())
    if (!is_there(folder, file.file(), file.bytes())) return false;
  for (const DatasetSplit& split : manifest.splits()) {
    for (const Shard& shard : split.shards()) {
      if (!is_there(folder, shard.file(), shard.bytes())) return false;
    }
  }
  return true;
}

// Those of a data set about to be replaced, which may have other names than the new ones.
void remove_files(const std::string& folder, const DatasetManifest& manifest) {
  const auto remove = [&](const std::string& name) {
    const bool here = name == file_name(name);  // never outside of the folder
    if (here && !is_directory(join_path(folder, name))) remove_file(join_path(folder, name));
  };
  for (const DatasetSplit& split : manifest.splits())
    for (const Shard& shard : split.shards()) remove(shard.file());
  for (const SourceFile& file : manifest.files()) remove(file.file());
}

std::string to_json_lines(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Where memory runs out while the text grows, libprotobuf writes to where it was.
  constexpr size_t kMostPerByte = 32, kAtLeast = 4096;
  text.reserve(kAtLeast + kMostPerByte * message.ByteSizeLong());
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
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
    // Sizes differ by one at most, and depend on nothing but the two numbers.
    shard.set_records(records * (k + 1) / shards - records * k / shards);
  }
}

void plan_shards(DatasetManifest& plan, const std::string& name, int shards) {
  plan_split(plan, name, shards, shards);
}

void plan_file(DatasetManifest& plan, const std::string& name, std::string_view contents) {
  SourceFile& file = *plan.add_files();
  file.set_file(name);
  file.set_bytes(contents.size());
  file.set_sha256(sha256_hex(contents));
}

DatasetWriter::DatasetWriter(const std::string& folder, DatasetManifest plan, bool overwrite,
                             WhenStopped when_stopped)
    : folder_(folder),
      lock_(prepare_folder(folder)),
      manifest_(std::move(plan)),
      when_stopped_(when_stopped) {
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
    const bool same = MessageDifferencer::Equals(without_results(found, when_stopped_),
                                                 without_results(manifest_, when_stopped_));
    // Where one that cannot be read may be overwritten, `found` is empty: another data set.
    require(same || overwrite, Code::kInvalid, folder_, " already holds data set ", found.dataset(),
            " made from other files or in other shards; choose another folder or ask to overwrite");
    if (same && files_present(folder_, found)) {
      manifest_ = std::move(found);
      complete_ = true;
      return;
    }
    remove_file(manifest_path);  // before its shards change under it
    remove_files(folder_, found);
  }
  // A log counts only for the same plan: the same sources, shards and way of converting.
  plan_sha256_ = sha256_hex(to_json_lines(without_results(manifest_, when_stopped_)));
  remove_leftovers();
  continue_from_log();
}

DatasetWriter::~DatasetWriter() {
  if (!complete_ && when_stopped_ == WhenStopped::kRemove) {
    for (const std::string& path : written_) ::unlink(path.c_str());
  }
  if (!complete_) ::rmdir(folder_.c_str());  // refuses where anything of others is left
}

// Temporary files of a killed conversion. The folder's lock says that nobody writes them any more.
void DatasetWriter::remove_leftovers() {
  for (const char* pattern : {".*.tfrecord.tmp-*", ".*.json.tmp-*"}) {
    for (const std::string& path : list_files(folder_, pattern)) remove_file(path);
  }
}

// Takes over what an earlier conversion by the same plan finished; removes what another left.
void DatasetWriter::continue_from_log() {
  const std::string path = join_path(folder_, kConversionLogName);
  if (!path_exists(path)) return;
  ConversionLog log;
  try {
    parse_json(read_file(path), log, path);
  } catch (const Error&) {  // not a log: what it may have stood for is written again
    log.Clear();
  }
  const bool same = log.plan_sha256() == plan_sha256_ && when_stopped_ == WhenStopped::kKeep;
  if (same) {
    for (const Shard& shard : log.finished()) finished_[shard.file()] = shard;
    return;
  }
  DatasetManifest others;
  *others.add_splits()->mutable_shards() = log.finished();
  remove_files(folder_, others);
  remove_file(path);
}

// After the shard is durable, so that what the log names is there.
void DatasetWriter::note_finished(const Shard& shard) {
  finished_[shard.file()] = shard;
  if (when_stopped_ == WhenStopped::kRemove) return;
  ConversionLog log;
  log.set_plan_sha256(plan_sha256_);
  for (const auto& [file, finished] : finished_) *log.add_finished() = finished;
  write_file_atomic(join_path(folder_, kConversionLogName), to_json_lines(log));
}

DatasetSplit& DatasetWriter::planned_split(const std::string& name) {
  for (DatasetSplit& planned : *manifest_.mutable_splits()) {
    if (planned.name() == name && !complete_) return planned;
  }
  fail(Code::kInternal, cat("split ", name, " was not planned"));
}

// Adds the records of a finished shard to the digest; false when it is no longer what the log says.
bool DatasetWriter::read_back(const Shard& shard, ContentDigest& digest) const {
  if (!is_there(folder_, shard.file(), shard.bytes())) return false;
  const std::string path = join_path(folder_, shard.file());
  // A copy: the digest must not change when the shard turns out to be damaged half way.
  ContentDigest with_shard = digest;
  try {
    const RecordFile file(path);
    std::string payload;
    for (int64_t index = 0; index < file.size(); ++index) {
      file.read(index, payload);
      with_shard.add(payload);
    }
    if (file.size() != shard.records()) return false;
  } catch (const Error& error) {
    if (error.code() != Code::kFormat) throw;
    return false;
  }
  digest = with_shard;
  return true;
}

void DatasetWriter::write_split(const std::string& name, const PayloadFunction& payload_of,
                                const ProgressFunction& progress) {
  DatasetSplit& split = planned_split(name);
  ContentDigest digest;
  std::string payload;
  int64_t index = 0;
  for (Shard& shard : *split.mutable_shards()) {
    const std::string path = join_path(folder_, shard.file());
    RecordWriter writer(path);
    for (int64_t end = index + shard.records(); index < end; ++index) {
      if (index % kRecordsPerReport == 0) report_progress(progress, {name, index, split.records()});
      payload_of(index, payload);
      writer.write(payload);
      digest.add(payload);
    }
    // Before it appears: from here on a failure has a file to remove.
    written_.push_back(path);
    const RecordFileInfo info = writer.finish();
    shard.set_bytes(info.bytes);
    shard.set_crc32c(info.crc32c);
  }
  split.set_content_sha256(digest.hex());
  report_progress(progress, {name, index, split.records()});
}

namespace {

void add_finding(Shard& shard, const std::string& kind, const std::string& example, int64_t count) {
  constexpr int kExamples = 5;
  Finding* finding = nullptr;
  for (Finding& known : *shard.mutable_findings()) {
    if (known.kind() == kind) finding = &known;
  }
  if (finding == nullptr) {
    finding = shard.add_findings();
    finding->set_kind(kind);
  }
  finding->set_count(finding->count() + count);
  if (finding->examples_size() < kExamples) finding->add_examples(example);
}

class WritingSink : public DatasetWriter::ShardSink {
 public:
  WritingSink(RecordWriter& writer, ContentDigest& digest, Shard& shard)
      : writer_(writer), digest_(digest), shard_(shard) {}
  void write(std::string_view payload) override {
    writer_.write(payload);
    digest_.add(payload);
  }
  void note(const std::string& kind, const std::string& example, int64_t count) override {
    add_finding(shard_, kind, example, count);
  }

 private:
  RecordWriter& writer_;
  ContentDigest& digest_;
  Shard& shard_;
};

void take_results(Shard& shard, const RecordFileInfo& info) {
  shard.set_records(info.records);
  shard.set_bytes(info.bytes);
  shard.set_crc32c(info.crc32c);
}

}  // namespace

void DatasetWriter::write_entries(const std::string& name, const EntryFunction& make, int threads,
                                  const ProgressFunction& progress) {
  DatasetSplit& split = planned_split(name);
  const int64_t entries = split.records();
  ContentDigest digest;
  int64_t first = 0, records = 0;
  for (Shard& shard : *split.mutable_shards()) {
    const int64_t planned = shard.records();
    report_progress(progress, {name, first, entries});
    const auto found = finished_.find(shard.file());
    if (found != finished_.end() && read_back(found->second, digest)) {
      shard = found->second;
    } else {
      write_shard(shard, {name, first, entries}, make, threads, digest, progress);
    }
    first += planned;
    records += shard.records();
  }
  require(records > 0, Code::kFormat, "split ", name, ": none of its ", entries,
          " entries is usable");
  split.set_records(records);
  split.set_content_sha256(digest.hex());
  report_progress(progress, {name, entries, entries});
}

// Entries are made by many threads and written by this one in their order: equal bytes whatever the
// number of threads.
void DatasetWriter::write_shard(Shard& shard, const Progress& begin, const EntryFunction& make,
                                int threads, ContentDigest& digest,
                                const ProgressFunction& progress) {
  RecordWriter writer(join_path(folder_, shard.file()));
  WritingSink sink(writer, digest, shard);
  const auto produce = [&](int64_t index, Entry& entry) {
    entry.payload.clear();
    entry.usable = true;
    entry.remarks.clear();
    make(begin.done + index, entry);
  };
  const auto consume = [&](int64_t index, const Entry& entry) {
    if (index % kEntriesPerReport == 0) {
      report_progress(progress, {begin.phase, begin.done + index, begin.total});
    }
    for (const Entry::Remark& remark : entry.remarks)
      sink.note(remark.kind, remark.example, remark.count);
    if (entry.usable) sink.write(entry.payload);
  };
  ordered_map<Entry>(shard.records(), threads, produce, consume);
  written_.push_back(writer.path());
  take_results(shard, writer.finish());
  note_finished(shard);
}

void DatasetWriter::write_shards(const std::string& name, const ShardFunction& make) {
  DatasetSplit& split = planned_split(name);
  ContentDigest digest;
  int64_t records = 0;
  for (int k = 0; k < split.shards_size(); ++k) {
    Shard& shard = *split.mutable_shards(k);
    const auto found = finished_.find(shard.file());
    if (found != finished_.end() && read_back(found->second, digest)) {
      shard = found->second;
    } else {
      RecordWriter writer(join_path(folder_, shard.file()));
      WritingSink sink(writer, digest, shard);
      make(k, records, sink);
      written_.push_back(writer.path());
      take_results(shard, writer.finish());
      note_finished(shard);
    }
    records += shard.records();
  }
  require(records > 0, Code::kFormat, "split ", name,
          " has no records; the source holds nothing "
          "that makes one");
  split.set_records(records);
  split.set_content_sha256(digest.hex());
}

void DatasetWriter::write_attached(const std::string& name, std::string_view contents) {
  write_file_atomic(join_path(folder_, name), contents);
}

void DatasetWriter::finish() {
  if (complete_) return;
  for (const DatasetSplit& split : manifest_.splits()) {
    require(!split.content_sha256().empty(), Code::kInternal, "split ", split.name(),
            " was planned but not written");
  }
  write_file_atomic(join_path(folder_, kManifestName), to_json_lines(manifest_));
  complete_ = true;
  // After the manifest: a crash between the two costs no finished work.
  remove_file(join_path(folder_, kConversionLogName));
}

}  // namespace assay::data
