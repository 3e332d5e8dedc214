// What the host's functions answer becomes an Error; nothing is asked of them that has no bytes.
#include "capi/src/host_io.h"

#include <algorithm>
#include <limits>

#include "capi/src/guard.h"
#include "sdk/base/expect.h"

namespace assay::capi {
namespace {

template <class... Doing>
void check_answer(int32_t answer, const Doing&... doing) {
  if (answer != 0) [[unlikely]]
    fail(Code::kIo, cat(doing..., ": the host's function failed with ", answer),
         {.domain = Domain::kHost, .native_code = answer});
}

}  // namespace

IoSink::IoSink(const assay_io& io) : io_(io) {
  if (io.write == nullptr) fail_null("io->write");
}

IoSink::~IoSink() {
  if (has_begun_ && !is_over_ && io_.discard != nullptr) io_.discard(io_.user);
}

void IoSink::write(const void* data, size_t bytes) {
  if (bytes == 0) return;
  has_begun_ = true;
  check_answer(io_.write(io_.user, data, bytes), "writing ", bytes, " bytes of a checkpoint");
}

void IoSink::commit() {
  is_over_ = true;
  if (io_.commit != nullptr) check_answer(io_.commit(io_.user), "committing a checkpoint");
}

IoSource::IoSource(const assay_io& io) : io_(io) {
  if (io.read == nullptr) fail_null("io->read");
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  expect(io.size <= kMost, {"", "io->size"}, io.size, "at most ", kMost);
}

void IoSource::read_at(void* target, size_t bytes, uint64_t offset) const {
  constexpr size_t kMostAtOnce = size_t{1} << 20;  // as assay_io says
  char* to = static_cast<char*>(target);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kMostAtOnce);
    check_answer(io_.read(io_.user, to, part, offset), "reading ", part, " bytes at ", offset,
                 " of a checkpoint");
    to += part, offset += part, bytes -= part;
  }
}

}  // namespace assay::capi
