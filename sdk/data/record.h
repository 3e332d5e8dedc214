// Record files in the TFRecord format: opaque payloads, each framed by its length and two masked
// CRC-32C. The bytes on disk are described in sdk/data/FORMAT.md.
//
// Whatever a damaged, truncated or hostile file holds, reading it either returns the payload that
// was written or fails with kFormat, naming file, record and byte offset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/file.h"
#include "sdk/base/sha256.h"

namespace assay::data {

// Larger lengths are taken for corruption before memory is asked for. The largest records in use,
// images of a few megabytes, stay far below.
inline constexpr uint64_t kMaxRecordBytes = uint64_t{256} << 20;

// Bytes of framing around each payload: length, CRC of the length, CRC of the payload.
inline constexpr uint64_t kRecordHeaderBytes = 12, kRecordFooterBytes = 4;

// Rotated and offset, because a CRC over data that itself contains CRCs is weak.
uint32_t mask_crc(uint32_t crc);

// Appends the framed payload to `out`.
void append_record(std::string_view payload, std::string& out);

// What a finished file holds.
struct RecordFileInfo {
  int64_t records = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;  // of the whole file
};

// Writes one file, which appears under its name only with finish(). For one thread.
class RecordWriter {
 public:
  explicit RecordWriter(const std::string& path) : file_(path) {}

  // kInvalid above kMaxRecordBytes.
  void write(std::string_view payload);
  // Makes the file durable. Nothing can be written afterwards.
  RecordFileInfo finish();
  const std::string& path() const { return file_.path(); }

 private:
  void flush();

  AtomicFile file_;
  std::string buffer_;
  RecordFileInfo info_;
};

// Random access to one file. Immutable after opening: any number of threads may read at once.
class RecordFile {
 public:
  // Reads the offsets of all records from `path` + ".idx" when that exists, else from the headers
  // in the file itself (each checked by its CRC). kFormat for a file that is not a whole number of
  // records, or for an index of another file.
  explicit RecordFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Replaces `payload`, whose capacity is reused. kFormat when the bytes fail their checks.
  void read(int64_t index, std::string& payload) const;

 private:
  void scan();
  void load_index(const std::string& index_path);
  // Where the header of the record starts, in bytes.
  uint64_t offset(int64_t index) const { return offsets_[static_cast<size_t>(index)]; }

  File file_;
  std::vector<uint64_t> offsets_;  // of each record's header, and the end of the file
};

}  // namespace assay::data
