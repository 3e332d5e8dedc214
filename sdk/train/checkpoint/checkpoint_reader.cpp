// Opening checks the seal, the manifest that it points at, then the bytes around the tensors.
// Elements are summed when they are read.
#include <algorithm>
#include <string>
#include <utility>

#include "sdk/base/crc32c.h"
#include "sdk/base/error.h"
#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/checkpoint/manifest.h"
#include "sdk/train/checkpoint/safetensors.h"
#include "sdk/train/checkpoint/seal.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::checkpoint {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// Extends `crc` by [begin, end) of the source.
uint32_t sum_range(const ByteSource& source, uint64_t begin, uint64_t end, uint32_t crc) {
  std::string chunk;
  while (begin < end) {
    chunk.resize(static_cast<size_t>(std::min<uint64_t>(kChunkBytes, end - begin)));
    source.read_at(chunk.data(), chunk.size(), begin);
    crc = crc32c_extend(crc, chunk.data(), chunk.size());
    begin += chunk.size();
  }
  return crc;
}

// A safetensors file given by mistake is told apart from damage.
Seal read_seal(const ByteSource& source) {
  const std::string& file = source.name();
  require(!safetensors::looks_like(source), Code::kFormat, file,
          ": this is a safetensors file, not a checkpoint; convert it to one, or load weights from "
          "it as \"safetensors\"");
  std::string text(static_cast<size_t>(std::min<uint64_t>(kSealBytes, source.size())), '\0');
  source.read_at(text.data(), text.size(), source.size() - text.size());
  const Seal seal = parse_seal(text, file);
  require(
      seal.format_version >= kOldestFormatVersion && seal.format_version <= kFormatVersion,
      Code::kVersion, file, ": it has checkpoint format ", seal.format_version,
      ", this library reads formats ", kOldestFormatVersion, " to ", kFormatVersion, "; ",
      seal.format_version > kFormatVersion ? "update the library" : "convert it with an older one");
  require(seal.file_bytes == source.size(), Code::kFormat, file, ": it has ", source.size(),
          " bytes, the writer counted ", seal.file_bytes, "; get a complete copy");
  require(inside(seal.manifest_offset, seal.manifest_bytes, 0, source.size() - kSealBytes),
          Code::kFormat, file, ": the manifest lies outside of the file");
  return seal;
}

std::string read_manifest(const ByteSource& source, const Seal& seal) {
  std::string bytes(static_cast<size_t>(seal.manifest_bytes), '\0');
  source.read_at(bytes.data(), bytes.size(), seal.manifest_offset);
  require(crc32c(bytes) == seal.manifest_crc32c, Code::kFormat, source.name(),
          ": the manifest is damaged (its checksum differs); use another copy or an earlier "
          "checkpoint");
  return bytes;
}

// Every byte that is neither manifest nor tensor nor seal: zip headers, padding, directory.
void check_structure(const ByteSource& source, const Seal& seal,
                     const std::vector<TensorInfo>& tensors) {
  uint32_t crc = sum_range(source, 0, seal.manifest_offset, 0);
  uint64_t end = seal.manifest_offset + seal.manifest_bytes;
  for (const TensorInfo& tensor : tensors) {
    require(tensor.offset >= end, Code::kFormat, source.name(), ": tensor ", tensor.name,
            " overlaps the manifest");
    crc = sum_range(source, end, tensor.offset, crc);
    end = tensor.offset + tensor.bytes;
  }
  crc = sum_range(source, end, source.size() - kSealBytes, crc);
  require(crc == seal.structure_crc32c, Code::kFormat, source.name(),
          ": the zip headers are damaged (their checksum differs), or another program rewrote the "
          "archive; use another copy or an earlier checkpoint");
}

void check_sum(uint32_t crc, const TensorInfo& tensor, std::string_view file) {
  require(crc == tensor.crc32c, Code::kFormat, file, ": ", to_text(tensor.role), " of tensor ",
          tensor.name,
          " is damaged (its checksum differs); use another copy or an earlier checkpoint");
}

}  // namespace

CheckpointReader CheckpointReader::open(const std::string& path) {
  return open(std::make_unique<FileSource>(path));
}

CheckpointReader CheckpointReader::open(std::unique_ptr<ByteSource> source) {
  const Seal seal = read_seal(*source);
  DecodedManifest decoded = decode_manifest(read_manifest(*source, seal), seal.format_version,
                                            source->size() - kSealBytes, source->name());
  check_structure(*source, seal, decoded.tensors);
  CheckpointReader reader;
  reader.source_ = std::move(source);
  reader.format_version_ = seal.format_version;
  reader.state_ = std::move(decoded.state);
  reader.tensors_ = std::move(decoded.tensors);
  return reader;
}

const TensorInfo* CheckpointReader::find(std::string_view tensor, Role role) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& info) {
    return info.role == role && info.name == tensor;
  });
  return found == tensors_.end() ? nullptr : &*found;
}

void CheckpointReader::read(const TensorInfo& tensor, std::span<std::byte> target) const {
  require(target.size() == tensor.bytes, Code::kInvalid, name(), ": ", to_text(tensor.role),
          " of tensor ", tensor.name, " has ", tensor.bytes, " bytes, the place for it ",
          target.size());
  // In chunks, so that the sum is taken while they are still in the cache.
  uint32_t crc = 0;
  for (uint64_t done = 0; done < tensor.bytes;) {
    const auto part =
        target.subspan(done).first(std::min<uint64_t>(kChunkBytes, tensor.bytes - done));
    source_->read_at(part.data(), part.size(), tensor.offset + done);
    crc = crc32c_extend(crc, part.data(), part.size());
    done += part.size();
  }
  check_sum(crc, tensor, name());
}

void CheckpointReader::verify(const TensorInfo& tensor) const {
  const uint64_t end = tensor.offset + tensor.bytes;
  check_sum(sum_range(*source_, tensor.offset, end, 0), tensor, name());
}

void CheckpointReader::verify_all() const {
  for (const TensorInfo& tensor : tensors_) verify(tensor);
}

}  // namespace assay::checkpoint
