// Writing: describe and sum the tensors, plan where they stand, let libzip make the bytes between
// them, put the seal at the end, stream it all front to back.
#include <time.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sdk/base/crc32c.h"
#include "sdk/base/error.h"
#include "sdk/train/checkpoint/archive.h"
#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/checkpoint/manifest.h"
#include "sdk/train/checkpoint/seal.h"

namespace assay::checkpoint {
namespace {

constexpr std::string_view kManifestEntry = "manifest.pb";

// "value/0012.layer1.0.conv1.weight": the number makes it unique, the rest is for people.
std::string entry_name(const TensorRecord& record, size_t index) {
  std::string number = cat(index);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  std::string name = record.name.substr(0, 100);
  const auto is_plain = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  std::replace_if(
      name.begin(), name.end(), [&](unsigned char c) { return !is_plain(c); }, '_');
  return cat(to_text(record.role), "/", number, ".", name);
}

std::vector<TensorInfo> describe(const CheckpointState& state,
                                 std::span<const TensorRecord> records) {
  std::vector<TensorInfo> tensors;
  std::vector<std::pair<std::string_view, Role>> names;
  for (const TensorRecord& record : records) {
    TensorInfo tensor;
    tensor.name = record.name;
    tensor.role = record.role;
    tensor.dtype = record.dtype;
    tensor.dims = record.dims;
    tensor.bytes = record.data.size();
    const std::string fault = find_fault(tensor, state.parts);
    require(fault.empty(), Code::kInvalid, "saving tensor ", record.name, ": ", fault);
    tensor.entry = entry_name(record, tensors.size());
    tensor.crc32c = crc32c(record.data.data(), record.data.size());
    names.emplace_back(record.name, record.role);
    tensors.push_back(std::move(tensor));
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  require(twice == names.end(), Code::kInvalid, "saving tensor ",
          twice == names.end() ? "" : twice->first, ": it is given twice in the same role");
  return tensors;
}

// Offsets depend on the length of the manifest and the manifest names the offsets; fixed-width
// fields break the circle, once none of them is 0.
std::string place(const CheckpointState& state, std::vector<TensorInfo>& tensors) {
  for (TensorInfo& tensor : tensors) tensor.offset = kAlignment;
  std::vector<std::string> names{std::string(kManifestEntry)};
  std::vector<uint64_t> sizes{encode_manifest(state, tensors).size()};
  for (const TensorInfo& tensor : tensors) {
    names.push_back(tensor.entry);
    sizes.push_back(tensor.bytes);
  }
  const std::vector<uint64_t> offsets = plan_offsets(names, sizes);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].offset = offsets[i + 1];
  return encode_manifest(state, tensors);
}

std::vector<ArchiveEntry> list_entries(const std::string& manifest,
                                       const std::vector<TensorInfo>& tensors,
                                       std::span<const TensorRecord> records) {
  std::vector<ArchiveEntry> entries;
  entries.push_back({std::string(kManifestEntry), std::as_bytes(std::span(manifest))});
  for (size_t i = 0; i < tensors.size(); ++i)
    entries.push_back({tensors[i].entry, records[i].data});
  return entries;
}

// Puts the seal over the last bytes of the last gap.
void seal_gaps(std::span<const ArchiveEntry> entries, std::vector<std::string>& gaps) {
  std::string& last = gaps.back();
  last.resize(last.size() - kSealBytes);
  const std::span<const std::byte> manifest = entries.front().payload;
  Seal seal;
  seal.format_version = kFormatVersion;
  seal.file_bytes = kSealBytes;
  seal.manifest_offset = gaps.front().size();
  seal.manifest_bytes = manifest.size();
  seal.manifest_crc32c = crc32c(manifest.data(), manifest.size());
  for (const std::string& gap : gaps) {
    seal.file_bytes += gap.size();
    seal.structure_crc32c = crc32c_extend(seal.structure_crc32c, gap.data(), gap.size());
  }
  for (const ArchiveEntry& entry : entries) seal.file_bytes += entry.payload.size();
  last += seal_text(seal);
}

}  // namespace

void write_checkpoint(ByteSink& sink, const CheckpointState& state,
                      std::span<const TensorRecord> records) {
  CheckpointState stamped = state;
  stamped.library_version = ASSAY_VERSION;
  if (stamped.created_unix_s == 0) stamped.created_unix_s = ::time(nullptr);
  const std::string fault = find_fault(stamped);
  require(fault.empty(), Code::kInvalid, "saving a checkpoint: ", fault);

  std::vector<TensorInfo> tensors = describe(stamped, records);
  const std::string manifest = place(stamped, tensors);
  const std::vector<ArchiveEntry> entries = list_entries(manifest, tensors, records);
  std::vector<std::string> gaps = build_gaps(entries, kSealBytes);
  seal_gaps(entries, gaps);

  for (size_t i = 0; i < gaps.size(); ++i) {
    sink.write(gaps[i].data(), gaps[i].size());
    if (i < entries.size()) sink.write(entries[i].payload.data(), entries[i].payload.size());
  }
  sink.commit();
}

void write_checkpoint(const std::string& path, const CheckpointState& state,
                      std::span<const TensorRecord> records) {
  remove_stale_temporaries(path);
  FileSink sink(path);
  write_checkpoint(sink, state, records);
}

}  // namespace assay::checkpoint
