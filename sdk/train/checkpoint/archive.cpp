// Makes libzip write the archive into memory without its payloads. Offsets are planned first, by
// the sizes of the zip headers; while libzip writes, each byte is checked to fall where the plan
// has it.
#include "sdk/train/checkpoint/archive.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "sdk/base/align.h"
#include "sdk/base/error.h"

namespace assay::checkpoint {
namespace {

// Sizes in a local file header (zip APPNOTE 4.3.7, 4.5): fixed part, head of an extra field, and
// the zip64 extra field, which libzip writes as soon as a size does not fit into 32 bits.
constexpr uint64_t kLocalHeaderBytes = 30;
constexpr uint64_t kExtraHeadBytes = 4;
constexpr uint64_t kZip64ExtraBytes = 20;
constexpr uint64_t kZip64FromBytes = 0xFFFFFFFF;  // the mark of a size that stands elsewhere
// "Data stream alignment": two bytes that state the alignment, then zeros.
constexpr uint16_t kAlignmentExtraId = 0xA11E;
constexpr uint64_t kAlignmentExtraMinBytes = 2;

struct PayloadPlace {
  uint64_t offset;         // of the payload
  uint64_t padding_bytes;  // length of the alignment field that puts it there
};

// A payload is aligned by the length of the alignment field in the header before it.
PayloadPlace place_payload(uint64_t header_offset, size_t name_bytes, uint64_t payload_bytes) {
  const uint64_t zip64 = payload_bytes >= kZip64FromBytes ? kZip64ExtraBytes : 0;
  const uint64_t least = header_offset + kLocalHeaderBytes + name_bytes + zip64 + kExtraHeadBytes +
                         kAlignmentExtraMinBytes;
  const uint64_t offset = align_up(least, kAlignment);
  return {offset, kAlignmentExtraMinBytes + offset - least};
}

[[noreturn]] void fail_zip(std::string_view doing, zip_error_t* error) {
  // Where an allocation of its own fails, libzip does not always say so: then it says nothing.
  const int code = zip_error_code_zip(error);
  ErrorDetail detail;
  detail.domain = Domain::kZip;
  detail.native_code = code;
  fail(code == ZIP_ER_MEMORY || code == ZIP_ER_OK ? Code::kOutOfHostMemory : Code::kInternal,
       cat("writing a checkpoint: libzip, ", doing, ": ", zip_error_strerror(error)),
       std::move(detail));
}

// The file libzip believes to write. Keeps the gaps; what it writes into a payload's place must be
// that payload, or the plan is wrong for this libzip.
class GapSink {
 public:
  explicit GapSink(std::span<const ArchiveEntry> entries) : entries_(entries) {
    zip_error_init(&error_);
    uint64_t end = 0;
    for (const ArchiveEntry& entry : entries) {
      const uint64_t offset = place_payload(end, entry.name.size(), entry.payload.size()).offset;
      begins_.push_back(end);
      gaps_.emplace_back(offset - end, '\0');
      end = offset + entry.payload.size();
    }
    begins_.push_back(end);
    gaps_.emplace_back();
    size_ = end;
  }
  GapSink(const GapSink&) = delete;
  GapSink& operator=(const GapSink&) = delete;

  std::vector<std::string> take() { return std::move(gaps_); }

  // A zip_source_callback.
  static zip_int64_t handle(void* self, void* data, zip_uint64_t bytes, zip_source_cmd_t command) {
    return static_cast<GapSink*>(self)->handle(data, bytes, command);
  }

 private:
  zip_int64_t handle(void* data, zip_uint64_t bytes, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS,
            ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE,
            ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
      case ZIP_SOURCE_BEGIN_WRITE:
      case ZIP_SOURCE_COMMIT_WRITE:
      case ZIP_SOURCE_ROLLBACK_WRITE:
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_STAT:  // "there is no such file yet"
        zip_error_set(&error_, ZIP_ER_READ, ENOENT);
        return -1;
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, bytes);
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(position_);
      case ZIP_SOURCE_SEEK_WRITE:
        return seek(data, bytes);
      case ZIP_SOURCE_WRITE:
        return write(static_cast<const char*>(data), bytes);
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  zip_int64_t seek(void* data, zip_uint64_t bytes) {
    const zip_int64_t target =
        zip_source_seek_compute_offset(position_, size_, data, bytes, &error_);
    if (target < 0) return -1;
    position_ = static_cast<uint64_t>(target);
    return 0;
  }

  // No exception may cross libzip, so a failed allocation becomes its error as well.
  zip_int64_t write(const char* data, uint64_t bytes) try {
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t part = write_part(data + done, bytes - done);
      if (part == 0) {
        zip_error_set(&error_, ZIP_ER_INTERNAL, 0);
        return -1;
      }
      done += part;
      position_ += part;
    }
    size_ = std::max(size_, position_);
    return static_cast<zip_int64_t>(bytes);
  } catch (const std::bad_alloc&) {
    zip_error_set(&error_, ZIP_ER_MEMORY, 0);
    return -1;
  }

  // Takes what falls into one gap or one payload; 0 when it does not fit the plan.
  uint64_t write_part(const char* data, uint64_t bytes) {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), position_);
    const auto index = static_cast<size_t>(after - begins_.begin()) - 1;
    std::string& gap = gaps_[index];
    const uint64_t within = position_ - begins_[index];
    if (index == entries_.size() && within + bytes > gap.size()) gap.resize(within + bytes);
    if (within < gap.size()) {
      const uint64_t part = std::min(bytes, gap.size() - within);
      std::memcpy(gap.data() + within, data, part);
      return part;
    }
    const std::span<const std::byte> payload = entries_[index].payload;
    const uint64_t part = std::min(bytes, gap.size() + payload.size() - within);
    const bool same = std::memcmp(payload.data() + (within - gap.size()), data, part) == 0;
    return same ? part : 0;
  }

  std::span<const ArchiveEntry> entries_;
  std::vector<uint64_t> begins_;  // of each gap; ascending, since every header takes some bytes
  std::vector<std::string> gaps_;
  uint64_t position_ = 0;
  uint64_t size_ = 0;
  zip_error_t error_{};
};

using ZipArchive = std::unique_ptr<zip_t, decltype(&zip_discard)>;

ZipArchive open_archive(GapSink& sink) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_function_create(&GapSink::handle, &sink, &error);
  if (source == nullptr) fail_zip("creating a source", &error);
  zip_t* archive = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive == nullptr) {
    zip_source_free(source);
    fail_zip("opening the archive", &error);
  }
  return {archive, &zip_discard};
}

void add_entry(zip_t* archive, const ArchiveEntry& entry, uint64_t padding_bytes) {
  zip_source_t* source =
      zip_source_buffer(archive, entry.payload.data(), entry.payload.size(), /*freep=*/0);
  if (source == nullptr) fail_zip("adding an entry", zip_get_error(archive));
  const zip_int64_t added = zip_file_add(archive, entry.name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (added < 0) {
    zip_source_free(source);
    fail_zip("adding an entry", zip_get_error(archive));
  }
  const auto index = static_cast<zip_uint64_t>(added);
  std::array<zip_uint8_t, kAlignmentExtraMinBytes + kAlignment> padding{};
  padding[0] = kAlignment;
  // A fixed date (1 January 1980, the first zip can say): equal states give equal bytes.
  const bool ok = zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) == 0 &&
                  zip_file_set_dostime(archive, index, 0, 0x21, 0) == 0 &&
                  zip_file_extra_field_set(archive, index, kAlignmentExtraId, ZIP_EXTRA_FIELD_NEW,
                                           padding.data(), static_cast<zip_uint16_t>(padding_bytes),
                                           ZIP_FL_LOCAL) == 0;
  if (!ok) fail_zip("describing an entry", zip_get_error(archive));
}

}  // namespace

std::vector<uint64_t> plan_offsets(std::span<const std::string> names,
                                   std::span<const uint64_t> sizes) {
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    offsets.push_back(place_payload(end, names[i].size(), sizes[i]).offset);
    end = offsets.back() + sizes[i];
  }
  return offsets;
}

std::vector<std::string> build_gaps(std::span<const ArchiveEntry> entries, size_t comment_bytes) {
  GapSink sink(entries);
  ZipArchive archive = open_archive(sink);
  uint64_t end = 0;
  for (const ArchiveEntry& entry : entries) {
    const PayloadPlace place = place_payload(end, entry.name.size(), entry.payload.size());
    add_entry(archive.get(), entry, place.padding_bytes);
    end = place.offset + entry.payload.size();
  }
  const std::string comment(comment_bytes, ' ');
  if (zip_set_archive_comment(archive.get(), comment.data(),
                              static_cast<zip_uint16_t>(comment.size())) != 0 ||
      zip_close(archive.get()) != 0) {
    fail_zip("writing headers", zip_get_error(archive.get()));
  }
  static_cast<void>(archive.release());  // zip_close has freed it
  return sink.take();
}

}  // namespace assay::checkpoint
