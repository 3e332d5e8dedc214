#include "datasets/gzip.h"

#include <zlib.h>

#include <cerrno>
#include <memory>

#include "sdk/base/error.h"
#include "sdk/base/file.h"

namespace assay::datasets {

constexpr unsigned kPieceBytes = 1u << 16;

std::string read_maybe_gzip(const std::string& path, uint64_t max_bytes) {
  File::open_read(path);  // names what is wrong with the path better than zlib can
  const std::unique_ptr<gzFile_s, decltype(&::gzclose)> file(::gzopen(path.c_str(), "rb"),
                                                             &::gzclose);
  if (!file) fail_errno("opening", path, errno);
  std::string bytes;
  while (true) {
    const size_t done = bytes.size();
    require(done <= max_bytes, Code::kFormat, path, ": larger than ", max_bytes,
            " bytes when decompressed; is this the right file?");
    bytes.resize(done + kPieceBytes);
    const int count = ::gzread(file.get(), bytes.data() + done, kPieceBytes);
    int problem = Z_OK;
    const char* text = ::gzerror(file.get(), &problem);
    if (problem == Z_ERRNO) fail_errno("reading", path, errno);
    require(count >= 0 && problem == Z_OK, Code::kFormat, path,
            ": its compression is damaged or cut off (", text, "); get a complete copy");
    bytes.resize(done + static_cast<size_t>(count));
    if (count == 0) return bytes;
  }
}

}  // namespace assay::datasets
