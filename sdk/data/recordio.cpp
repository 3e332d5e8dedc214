// RecordIO: parts of marker, flags and length in one word, bytes, padding to four. A payload that
// contains the marker at a multiple of four is cut there, and the marker left out.
#include "sdk/data/recordio.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "sdk/base/error.h"
#include "sdk/base/little_endian.h"

namespace assay::data {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr uint64_t kPartHeaderBytes = 8, kImageHeaderBytes = 24;
// Continuation flags: the upper three bits of a part's second word.
enum Part : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

uint64_t padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

void append_part(Part part, std::string_view bytes, std::string& out) {
  append_little_endian(out, kRecordIoMagic);
  append_little_endian(out, static_cast<uint32_t>(part << 29 | bytes.size()));
  out += bytes;
  out.append(padded(bytes.size()) - bytes.size(), '\0');
}

[[noreturn]] void fail_part(const std::string& path, int64_t index, uint64_t offset,
                            std::string_view problem) {
  fail(Code::kFormat, cat(path, ", record ", index, " at byte ", offset, ": ", problem,
                          "; the file is damaged or no RecordIO file"));
}

struct PartHeader {
  uint32_t part;
  uint64_t length;  // of the payload in this part
};

// The header of a part of which `space` bytes lie in the file, after its checks.
PartHeader checked_header(const char* header, bool first, const std::string& path, int64_t index,
                          uint64_t offset, uint64_t space) {
  if (load_little_endian<uint32_t>(header) != kRecordIoMagic)
    fail_part(path, index, offset, "no marker is there");
  const auto word = load_little_endian<uint32_t>(header + 4);
  const PartHeader part{word >> 29, word & kMaxRecordIoBytes};
  const bool in_order = first ? part.part == kWhole || part.part == kFirst
                              : part.part == kMiddle || part.part == kLast;
  if (!in_order)
    fail_part(path, index, offset, cat("a part of kind ", part.part, " is out of place"));
  const uint64_t needed = kPartHeaderBytes + padded(part.length);
  if (needed > space) {
    fail_part(path, index, offset,
              cat("it states ", part.length, " bytes, but the file ends ", needed - space,
                  " bytes too early"));
  }
  return part;
}

bool ends_record(const PartHeader& header) { return header.part == kWhole || header.part == kLast; }

std::string index_path_of(const std::string& path) {
  return path.ends_with(".rec") ? path.substr(0, path.size() - 3) + "idx" : path + ".idx";
}

}  // namespace

void append_recordio(std::string_view payload, std::string& out) {
  char magic[4];
  std::memcpy(magic, &kRecordIoMagic, sizeof magic);
  const std::string_view marker(magic, sizeof magic);
  size_t begin = 0;
  for (size_t at = payload.find(marker); at != std::string_view::npos;
       at = payload.find(marker, at % 4 == 0 ? at + 4 : at + 1)) {
    if (at % 4 != 0) continue;  // readers look for markers at aligned places only
    append_part(begin == 0 ? kFirst : kMiddle, payload.substr(begin, at - begin), out);
    begin = at + 4;
  }
  append_part(begin == 0 ? kWhole : kLast, payload.substr(begin), out);
}

RecordIoWriter::RecordIoWriter(const std::string& stem)
    : file_(stem + ".rec"), index_path_(stem + ".idx") {}

void RecordIoWriter::write(uint64_t key, std::string_view payload) {
  require(payload.size() <= kMaxRecordIoBytes, Code::kInvalid, "writing ", file_.path(),
          ": the record with key ", key, " has ", payload.size(), " bytes, more than the limit of ",
          kMaxRecordIoBytes);
  index_ += cat(key, "\t", bytes_ + buffer_.size(), "\n");
  append_recordio(payload, buffer_);
  if (buffer_.size() >= kChunkBytes) flush();
}

void RecordIoWriter::flush() {
  file_.write(buffer_);
  bytes_ += buffer_.size();
  buffer_.clear();
}

void RecordIoWriter::finish() {
  flush();
  remove_file(index_path_);  // of another file of this name
  file_.commit();
  write_file_atomic(index_path_, index_);
}

RecordIoFile::RecordIoFile(const std::string& path) : file_(File::open_read(path)) {
  const std::string index_path = index_path_of(path);
  if (path_exists(index_path)) {
    load_index(index_path);
  } else {
    scan();
  }
}

// One offset per record, that of its first part.
void RecordIoFile::scan() {
  const uint64_t end = file_.size();
  uint64_t offset = 0;
  while (offset < end) {
    const auto index = static_cast<int64_t>(offsets_.size());
    offsets_.push_back(offset);
    for (bool first = true, more = true; more; first = false) {
      char header[kPartHeaderBytes];
      if (end - offset < kPartHeaderBytes) {
        fail_part(path(), index, offset, cat("only ", end - offset, " bytes are left"));
      }
      file_.read_exact_at(header, sizeof header, offset);
      const PartHeader part = checked_header(header, first, path(), index, offset, end - offset);
      offset += kPartHeaderBytes + padded(part.length);
      more = !ends_record(part);
    }
  }
  offsets_.push_back(end);
}

void RecordIoFile::load_index(const std::string& index_path) {
  const std::string text = read_file(index_path);
  const char *p = text.data(), *end = p + text.size();
  for (int64_t line = 1; p < end; ++line) {
    uint64_t key = 0, offset = 0;
    auto [after_key, key_error] = std::from_chars(p, end, key);
    bool ok = key_error == std::errc{} && after_key < end && *after_key == '\t';
    if (ok) {
      auto [after, error] = std::from_chars(after_key + 1, end, offset);
      ok = error == std::errc{} && (after == end || *after == '\n');
      p = after + 1;
    }
    require(ok && offset < file_.size(), Code::kFormat, index_path, " line ", line,
            ": expected \"key<TAB>offset\" with an offset inside of ", path(),
            "; remove this index, it is not needed");
    offsets_.push_back(offset);
  }
  // The lines of an index may stand in another order than the records.
  std::sort(offsets_.begin(), offsets_.end());
  offsets_.erase(std::unique(offsets_.begin(), offsets_.end()), offsets_.end());
  require((offsets_.empty() && file_.size() == 0) || (!offsets_.empty() && offsets_[0] == 0),
          Code::kFormat, index_path, " does not begin at the start of ", path(),
          "; remove this index, it is not needed");
  offsets_.push_back(file_.size());
}

void RecordIoFile::read(int64_t index, std::string& payload) const {
  require(index >= 0 && index < size(), Code::kInvalid, path(), " has ", size(),
          " records, asked for record ", index);
  const uint64_t begin = offset(index), framed = offset(index + 1) - begin;
  // Framing doubles a payload that is nothing but markers, and no other; an index may claim more.
  if (framed > 2 * kMaxRecordIoBytes) fail_part(path(), index, begin, "it is too long");
  std::string bytes(framed, '\0');
  file_.read_exact_at(bytes.data(), bytes.size(), begin);
  payload.clear();
  uint64_t at = 0;
  for (bool first = true, more = true; more; first = false) {
    if (framed - at < kPartHeaderBytes) fail_part(path(), index, begin, "its last part is missing");
    const PartHeader part =
        checked_header(bytes.data() + at, first, path(), index, begin + at, framed - at);
    // A cut stands for a marker that the payload contained.
    if (!first) append_little_endian(payload, kRecordIoMagic);
    payload.append(bytes, at + kPartHeaderBytes, part.length);
    at += kPartHeaderBytes + padded(part.length);
    more = !ends_record(part);
  }
  if (at != framed) fail_part(path(), index, begin, "its length does not lead to the next record");
}

RecordIoImage parse_recordio_image(std::string_view payload) {
  require(payload.size() >= kImageHeaderBytes, Code::kFormat, "a record of ", payload.size(),
          " bytes is too short for the header of an image");
  // Header: uint32 number of labels behind the header (0: the float that follows is the only one),
  // float label, uint64 id, uint64 second id.
  const auto extra = load_little_endian<uint32_t>(payload.data());
  require(extra <= (payload.size() - kImageHeaderBytes) / sizeof(float), Code::kFormat,
          "the header of an image states ", extra, " labels, more than the record holds");
  RecordIoImage image;
  image.id = load_little_endian<uint64_t>(payload.data() + 8);
  if (extra == 0) image.labels = {load_little_endian<float>(payload.data() + 4)};
  for (uint32_t i = 0; i < extra; ++i) {
    image.labels.push_back(
        load_little_endian<float>(payload.data() + kImageHeaderBytes + i * sizeof(float)));
  }
  image.file = payload.substr(kImageHeaderBytes + extra * sizeof(float));
  return image;
}

void pack_recordio_image(uint64_t id, float label, std::string_view file, std::string& payload) {
  payload.clear();
  append_little_endian(payload, uint32_t{0});  // one label, here
  append_little_endian(payload, label);
  append_little_endian(payload, id);
  append_little_endian(payload, uint64_t{0});
  payload += file;
}

}  // namespace assay::data
