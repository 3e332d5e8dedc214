// Reading and checking dataset.json and the shards it lists. Names in it come from a file and are
// checked before they become paths.
#include "sdk/data/manifest.h"

#include <cerrno>
#include <charconv>

#include "sdk/base/crc32c.h"
#include "sdk/base/expect.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/manifest.pb.h"

namespace assay::data {
namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
constexpr size_t kPieceBytes = size_t{1} << 20;

// Calls use(pointer, bytes) for all of the file.
template <class Use>
uint64_t for_each_piece(const std::string& path, Use&& use) {
  const File file = File::open_read(path);
  std::string piece(kPieceBytes, 0);
  uint64_t offset = 0;
  while (const size_t count = file.read_at(piece.data(), piece.size(), offset)) {
    use(piece.data(), count);
    offset += count;
  }
  return offset;
}

// Names of splits become names of files when a data set is exported.
void check_split_name(const std::string& path, const std::string& name) {
  const bool plain = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
                     name.find('\0') == std::string::npos;
  require(plain, Code::kFormat, path, ": the name of a split, \"", name,
          "\", is not one a file could have; convert the data set again");
}

// Names come from a file: they must not lead out of its folder.
void check_file_name(const std::string& manifest_path, std::string_view what,
                     const std::string& name) {
  require(!name.empty() && name.find('/') == std::string::npos, Code::kFormat, manifest_path, ": ",
          what, " \"", name, "\" is not the name of a file in this folder");
}

void verify_split(const std::string& folder, const DatasetManifest& manifest,
                  const DatasetSplit& split, const ProgressFunction& progress) {
  const std::string summing = cat("summing ", split.name());
  for (int k = 0; k < split.shards_size(); ++k) {
    const Shard& shard = split.shards(k);
    const std::string path = join_path(folder, shard.file());
    uint32_t crc = 0;
    for_each_piece(path, [&](const char* data, size_t bytes) {
      report_progress(progress, {summing, k, split.shards_size()});
      crc = crc32c_extend(crc, data, bytes);
    });
    require(crc == shard.crc32c(), Code::kFormat, path,
            ": its CRC-32C differs from the manifest; convert the data set again");
  }
  report_progress(progress, {summing, split.shards_size(), split.shards_size()});
  const auto source = open_split(folder, manifest, split.name());
  ContentDigest digest;
  std::string payload;
  const std::string phase = cat("checking ", split.name());
  for (int64_t index = 0; index < source->size(); ++index) {
    if (index % 1024 == 0) report_progress(progress, {phase, index, source->size()});
    source->read(index, payload);
    digest.add(payload);
  }
  report_progress(progress, {phase, source->size(), source->size()});
  require(digest.hex() == split.content_sha256(), Code::kFormat, folder, ": the contents of split ",
          split.name(), " differ from the manifest; convert the data set again");
}

}  // namespace

void report_progress(const ProgressFunction& progress, const Progress& state) {
  if (progress && !progress(state)) {
    fail(Code::kCancelled,
         cat("cancelled at record ", state.done, " of ", state.total, " (", state.phase, ")"));
  }
}

DatasetManifest read_manifest(const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  if (!path_exists(path)) {
    fail(Code::kNotFound,
         cat(folder, " holds no data set: there is no ", kManifestName,
             "; convert one into it with dataset-convert"),
         {.domain = Domain::kErrno, .native_code = ENOENT, .argument = path});
  }
  DatasetManifest manifest;
  try {
    parse_json(read_file(path, kMaxManifestBytes), manifest, path);
  } catch (const Error& error) {
    // To the parser it is an argument; to the caller, a file.
    if (error.code() != Code::kInvalid) throw;
    fail(Code::kFormat, error.message());
  }
  require(manifest.format_version() == kManifestVersion, Code::kVersion, path, ": format version ",
          manifest.format_version(), ", this build reads ", kManifestVersion,
          "; convert the data set again");
  for (const DatasetSplit& split : manifest.splits()) {
    check_split_name(path, split.name());
    require(split.shards_size() > 0, Code::kFormat, path, ": split ", split.name(),
            " has no files; convert the data set again");
  }
  for (const SourceFile& file : manifest.files()) check_file_name(path, "file", file.file());
  return manifest;
}

const DatasetSplit& find_split(const DatasetManifest& manifest, const std::string& name) {
  std::vector<std::string_view> known;
  for (const DatasetSplit& split : manifest.splits()) {
    if (split.name() == name) return split;
    known.push_back(split.name());
  }
  fail_unknown(cat("data set ", manifest.dataset(), " has no split"), "split", name, known);
}

std::shared_ptr<const RecordSource> open_split(const std::string& folder,
                                               const DatasetManifest& manifest,
                                               const std::string& name) {
  const DatasetSplit& split = find_split(manifest, name);
  std::vector<std::string> paths;
  for (const Shard& shard : split.shards()) {
    check_file_name(join_path(folder, kManifestName), "shard", shard.file());
    paths.push_back(join_path(folder, shard.file()));
    const uint64_t bytes = File::open_read(paths.back()).size();
    require(bytes == shard.bytes(), Code::kFormat, paths.back(), " has ", bytes,
            " bytes, the manifest states ", shard.bytes(), "; convert the data set again");
  }
  auto source = std::make_shared<RecordSet>(paths);
  require(source->size() == split.records(), Code::kFormat, folder, ": split ", name, " holds ",
          source->size(), " records, the manifest states ", split.records(),
          "; convert the data set again");
  return source;
}

const std::string& find_setting(const DatasetManifest& manifest, const std::string& key) {
  for (const Setting& setting : manifest.settings())
    if (setting.key() == key) return setting.value();
  fail(Code::kFormat, cat("data set ", manifest.dataset(), ": its ", kManifestName,
                          " has no setting \"", key, "\"; convert the data set again"));
}

int64_t find_number(const DatasetManifest& manifest, const std::string& key) {
  const std::string& value = find_setting(manifest, key);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  require(error == std::errc() && end == value.data() + value.size(), Code::kFormat, "data set ",
          manifest.dataset(), ": setting \"", key, "\" is \"", value,
          "\", expected a number; convert the data set again");
  return number;
}

std::string read_attached(const std::string& folder, const DatasetManifest& manifest,
                          const std::string& name) {
  for (const SourceFile& file : manifest.files()) {
    if (file.file() != name) continue;
    const std::string path = join_path(folder, name);
    std::string contents = read_file(path);
    require(contents.size() == file.bytes() && sha256_hex(contents) == file.sha256(), Code::kFormat,
            path, ": it is not the file that the manifest describes; convert the data set again");
    return contents;
  }
  fail(Code::kNotFound, cat("data set ", manifest.dataset(), " in ", folder, " carries no ", name));
}

void verify_dataset(const std::string& folder, const ProgressFunction& progress) {
  const DatasetManifest manifest = read_manifest(folder);
  for (const SourceFile& file : manifest.files()) read_attached(folder, manifest, file.file());
  for (const DatasetSplit& split : manifest.splits()) {
    verify_split(folder, manifest, split, progress);
  }
}

// The length goes in as well, so that other cuts of the same bytes have another digest. How records
// are spread over shards does not matter.
void ContentDigest::add(std::string_view payload) {
  const uint64_t length = payload.size();
  sum_.update(&length, sizeof length);
  sum_.update(payload);
}

SourceFile describe_source(const std::string& path) {
  Sha256 sum;
  SourceFile source;
  source.set_file(file_name(path));
  source.set_bytes(
      for_each_piece(path, [&](const char* data, size_t bytes) { sum.update(data, bytes); }));
  source.set_sha256(sum.hex());
  return source;
}

}  // namespace assay::data
