// Any bytes as a RecordIO file: opening and reading return payloads, which written again are read
// the same, or raise an Error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/recordio.h"

namespace {

// A file in memory that holds `bytes`; the same one every time.
std::string in_memory(int& memory, const char* name, const void* bytes, size_t size) {
  if (memory < 0) memory = ::memfd_create(name, 0);
  if (::ftruncate(memory, 0) != 0 ||
      ::pwrite(memory, bytes, size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  return assay::cat("/proc/self/fd/", memory);
}

void check_payload(const std::string& payload) {
  static int memory = -1;
  std::string framed, again;
  assay::data::append_recordio(payload, framed);
  const assay::data::RecordIoFile file(in_memory(memory, "again", framed.data(), framed.size()));
  if (file.size() != 1) std::abort();
  file.read(0, again);
  if (again != payload) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static int memory = -1;
  std::string payload;
  try {
    const assay::data::RecordIoFile file(in_memory(memory, "input", data, size));
    for (int64_t i = 0; i < file.size(); ++i) {
      file.read(i, payload);
      check_payload(payload);
      if (assay::data::parse_recordio_image(payload).labels.empty()) std::abort();
    }
  } catch (const assay::Error&) {
  }
  return 0;
}
