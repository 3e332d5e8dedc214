// TFRecord: uint64 length, masked CRC of the length, payload, masked CRC of the payload, all little
// endian. The offsets of all records are found when a file is opened; reading is then one pread.
#include "sdk/data/record.h"

#include <algorithm>
#include <charconv>

#include "sdk/base/crc32c.h"
#include "sdk/base/error.h"
#include "sdk/base/little_endian.h"

namespace assay::data {
namespace {

// One system call per this many bytes, on both sides.
constexpr size_t kBufferBytes = size_t{1} << 18;

[[noreturn]] void fail_record(const std::string& path, int64_t index, uint64_t offset,
                              std::string_view problem) {
  fail(Code::kFormat, cat(path, ", record ", index, " at byte ", offset, ": ", problem,
                          "; the file is damaged, convert or copy it again"));
}

// The payload length a header states, after its checksum and the space left in the file.
uint64_t checked_length(const char* header, const std::string& path, int64_t index, uint64_t offset,
                        uint64_t space) {
  const auto length = load_little_endian<uint64_t>(header);
  if (load_little_endian<uint32_t>(header + 8) != mask_crc(crc32c(header, 8))) {
    fail_record(path, index, offset, "the checksum of its length does not match");
  }
  if (length > kMaxRecordBytes) {
    fail_record(path, index, offset,
                cat("it states ", length, " bytes, more than the limit of ", kMaxRecordBytes));
  }
  if (length + kRecordHeaderBytes + kRecordFooterBytes > space) {
    fail_record(path, index, offset,
                cat("it states ", length, " bytes, but the file ends ",
                    length + kRecordHeaderBytes + kRecordFooterBytes - space, " bytes too early"));
  }
  return length;
}

}  // namespace

uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

void append_record(std::string_view payload, std::string& out) {
  const uint64_t length = payload.size();
  append_little_endian(out, length);
  append_little_endian(out, mask_crc(crc32c(&length, sizeof length)));
  out += payload;
  append_little_endian(out, mask_crc(crc32c(payload)));
}

void RecordWriter::write(std::string_view payload) {
  require(payload.size() <= kMaxRecordBytes, Code::kInvalid, "writing ", file_.path(), ": record ",
          info_.records, " has ", payload.size(), " bytes, more than the limit of ",
          kMaxRecordBytes, "; split it");
  append_record(payload, buffer_);
  ++info_.records;
  if (buffer_.size() >= kBufferBytes) flush();
}

void RecordWriter::flush() {
  file_.write(buffer_);
  info_.bytes += buffer_.size();
  info_.crc32c = crc32c_extend(info_.crc32c, buffer_.data(), buffer_.size());
  buffer_.clear();
}

RecordFileInfo RecordWriter::finish() {
  flush();
  file_.commit();
  return info_;
}

RecordFile::RecordFile(const std::string& path) : file_(File::open_read(path)) {
  const std::string index_path = path + ".idx";
  if (path_exists(index_path)) {
    load_index(index_path);
  } else {
    scan();
  }
}

// Reads the headers only, through a window that is as large as pays for the last record's size.
void RecordFile::scan() {
  const uint64_t end = file_.size();
  std::string window;
  uint64_t window_begin = 0, window_end = 0, offset = 0;
  uint64_t wanted = kBufferBytes;
  while (offset < end) {
    const auto index = static_cast<int64_t>(offsets_.size());
    if (end - offset < kRecordHeaderBytes) {
      fail_record(path(), index, offset, cat("only ", end - offset, " bytes are left"));
    }
    if (offset + kRecordHeaderBytes > window_end) {
      window.resize(static_cast<size_t>(std::min(wanted, end - offset)));
      file_.read_exact_at(window.data(), window.size(), offset);
      window_begin = offset;
      window_end = offset + window.size();
    }
    const char* header = window.data() + (offset - window_begin);
    const uint64_t length = checked_length(header, path(), index, offset, end - offset);
    offsets_.push_back(offset);
    offset += length + kRecordHeaderBytes + kRecordFooterBytes;
    // Small records are cheaper to read over than to skip; of large ones only the header is read.
    wanted = length < kBufferBytes / 16 ? kBufferBytes : kRecordHeaderBytes;
  }
  offsets_.push_back(end);
}

// Lines "offset length" in bytes, framing included, as DALI's tfrecord2idx writes them. They must
// cover the file without a gap, so an index of another file is found out at once.
void RecordFile::load_index(const std::string& index_path) {
  const std::string text = read_file(index_path);
  const uint64_t end = file_.size();
  const char *p = text.data(), *text_end = p + text.size();
  uint64_t expected = 0;
  while (p < text_end) {
    uint64_t offset = 0, length = 0;
    auto [after_offset, offset_error] = std::from_chars(p, text_end, offset);
    bool ok = offset_error == std::errc{} && after_offset < text_end && *after_offset == ' ';
    if (ok) {
      auto [after, error] = std::from_chars(after_offset + 1, text_end, length);
      ok = error == std::errc{} && after < text_end && *after == '\n';
      p = after + 1;
    }
    require(ok, Code::kFormat, index_path, " line ", offsets_.size() + 1,
            ": expected \"offset length\"; remove this index, the file is read without it");
    require(offset == expected && length >= kRecordHeaderBytes + kRecordFooterBytes &&
                length <= end - offset,
            Code::kFormat, index_path, " line ", offsets_.size() + 1, " does not describe ", path(),
            "; remove this index, the file is read without it");
    offsets_.push_back(offset);
    expected = offset + length;
  }
  require(expected == end, Code::kFormat, index_path, " covers ", expected, " bytes, but ", path(),
          " has ", end, "; remove this index, the file is read without it");
  offsets_.push_back(end);
}

void RecordFile::read(int64_t index, std::string& payload) const {
  require(index >= 0 && index < size(), Code::kInvalid, path(), " has ", size(),
          " records, asked for record ", index);
  const uint64_t begin = offset(index);
  const uint64_t framed = offset(index + 1) - begin;
  payload.resize(static_cast<size_t>(framed));
  file_.read_exact_at(payload.data(), payload.size(), begin);
  const uint64_t length = checked_length(payload.data(), path(), index, begin, framed);
  if (length + kRecordHeaderBytes + kRecordFooterBytes != framed) {
    fail_record(path(), index, begin, "its length does not lead to the next record");
  }
  const auto stated = load_little_endian<uint32_t>(payload.data() + kRecordHeaderBytes + length);
  if (stated != mask_crc(crc32c(payload.data() + kRecordHeaderBytes, length))) {
    fail_record(path(), index, begin, "the checksum of its data does not match");
  }
  // The framing was read into the payload's own memory, to take one read and no second buffer.
  payload.erase(0, kRecordHeaderBytes);
  payload.resize(static_cast<size_t>(length));
}

}  // namespace assay::data
