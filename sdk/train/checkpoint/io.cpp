#include "sdk/train/checkpoint/io.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sdk/base/error.h"

namespace assay::checkpoint {
namespace {

[[noreturn]] void fail_callback(std::string_view which, std::string_view did, int64_t number) {
  ErrorDetail detail;
  detail.domain = Domain::kHost;
  detail.native_code = number;
  fail(Code::kCallback, cat("the host's ", which, " function ", did, " (returned ", number, ")"),
       std::move(detail));
}

}  // namespace

CallbackSink::~CallbackSink() {
  if (finished_ || !commit_) return;
  try {
    commit_(false);
  } catch (...) {  // the failure that brought us here is already on its way
  }
}

void CallbackSink::write(const void* data, size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const int64_t taken = write_(next, bytes);
    if (taken <= 0 || static_cast<uint64_t>(taken) > bytes) {
      fail_callback("write", taken < 0 ? "reported failure" : "took an impossible number of bytes",
                    taken);
    }
    next += taken;
    bytes -= static_cast<size_t>(taken);
  }
}

void CallbackSink::commit() {
  finished_ = true;
  const int32_t result = commit_ ? commit_(true) : 0;
  if (result != 0) fail_callback("commit", "reported failure", result);
}

void MemorySource::read_at(void* target, size_t bytes, uint64_t offset) const {
  require(offset <= bytes_.size() && bytes <= bytes_.size() - offset, Code::kInternal,
          "reading past the end of ", name_);
  if (bytes > 0) std::memcpy(target, bytes_.data() + offset, bytes);
}

MemorySource read_stream(const std::function<int64_t(void* target, size_t bytes)>& read,
                         std::string name) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  std::string bytes;
  while (true) {
    const size_t have = bytes.size();
    bytes.resize(have + kChunkBytes);
    const int64_t count = read(bytes.data() + have, kChunkBytes);
    if (count < 0) fail_callback("read", "reported failure", count);
    if (static_cast<uint64_t>(count) > kChunkBytes) {
      fail_callback("read", "stored an impossible number of bytes", count);
    }
    bytes.resize(have + static_cast<size_t>(count));
    if (count == 0) break;
  }
  return MemorySource(std::move(bytes), std::move(name));
}

}  // namespace assay::checkpoint
