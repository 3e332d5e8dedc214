// Any bytes as a record file: opening and reading return payloads or raise an Error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int memory = ::memfd_create("record_fuzz", 0);
  static const std::string path = assay::cat("/proc/self/fd/", memory);
  if (memory < 0 || ::ftruncate(memory, 0) != 0 ||
      ::pwrite(memory, data, size, 0) != static_cast<ssize_t>(size)) {
    return 0;
  }
  try {
    const assay::data::RecordFile file(path);
    std::string payload;
    for (int64_t i = 0; i < file.size(); ++i) file.read(i, payload);
  } catch (const assay::Error&) {
  }
  return 0;
}
