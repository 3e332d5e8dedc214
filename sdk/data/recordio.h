// MXNet's RecordIO files: opaque payloads, cut where they contain the format's own marker. The
// bytes on disk are described in sdk/data/FORMAT.md; source: dmlc-core's RecordIO and MXNet's
// im2rec.
//
// The format has no checksums: reading finds out whether a file is a sequence of whole records, not
// whether their bytes are those written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/file.h"

namespace assay::data {

inline constexpr uint32_t kRecordIoMagic = 0xced7230a;
// 29 bits of length.
inline constexpr uint64_t kMaxRecordIoBytes = (uint64_t{1} << 29) - 1;

// Appends the framed payload to `out`.
void append_recordio(std::string_view payload, std::string& out);

// Writes "<stem>.rec" and "<stem>.idx" (a line "key<TAB>offset" per record), which appear with
// finish(). For one thread.
class RecordIoWriter {
 public:
  explicit RecordIoWriter(const std::string& stem);
  // kInvalid above kMaxRecordIoBytes.
  void write(uint64_t key, std::string_view payload);
  void finish();

 private:
  void flush();

  AtomicFile file_;
  std::string index_path_, index_, buffer_;
  uint64_t bytes_ = 0;
};

// Random access to one file. Immutable after opening: any number of threads may read at once.
class RecordIoFile {
 public:
  // Takes the offsets from the .idx beside a .rec where that exists, as DALI does: sorted, keys
  // ignored. Else from the markers in the file. kFormat for a file that is not a whole number of
  // records, or for an index that does not fit.
  explicit RecordIoFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Replaces `payload`. kFormat when the bytes there are no record.
  void read(int64_t index, std::string& payload) const;
  // Where the first marker of the record stands, in bytes.
  uint64_t offset(int64_t index) const { return offsets_[static_cast<size_t>(index)]; }

 private:
  void scan();
  void load_index(const std::string& index_path);

  File file_;
  std::vector<uint64_t> offsets_;  // of each record, and the end of the file
};

// An image as im2rec packs it.
struct RecordIoImage {
  uint64_t id = 0;
  std::vector<float> labels;  // at least one
  std::string_view file;      // the encoded image, inside of the payload
};
// kFormat when the header does not fit.
RecordIoImage parse_recordio_image(std::string_view payload);
// Replaces `payload`.
void pack_recordio_image(uint64_t id, float label, std::string_view file, std::string& payload);

}  // namespace assay::data
