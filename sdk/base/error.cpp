// Errors, and how numbers and errno become text in their messages.
#include "sdk/base/error.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace assay {
namespace detail {
namespace {

// to_chars gives the shortest digits that read back as the same number, whatever the locale. 40
// characters hold every 64-bit integer and double.
template <class T>
void append_number(std::string& out, T value) {
  char digits[40];
  out.append(digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr -
                                         digits));
}

}  // namespace

void append(std::string& out, int64_t value) { append_number(out, value); }
void append(std::string& out, uint64_t value) { append_number(out, value); }
void append(std::string& out, float value) { append_number(out, value); }
void append(std::string& out, double value) { append_number(out, value); }

}  // namespace detail

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kOutOfHostMemory:
      return "oom_host";
    case Code::kOutOfDeviceMemory:
      return "oom_device";
    case Code::kDevice:
      return "device";
    case Code::kIo:
      return "io";
    case Code::kFormat:
      return "format";
    case Code::kVersion:
      return "version";
    case Code::kNotFound:
      return "not_found";
    case Code::kBusy:
      return "busy";
    case Code::kCancelled:
      return "cancelled";
    case Code::kTimeout:
      return "timeout";
    case Code::kComm:
      return "comm";
    case Code::kCallback:
      return "callback";
    case Code::kNondeterministic:
      return "nondeterministic";
    case Code::kPoisoned:
      return "poisoned";
    case Code::kInternal:
      return "internal";
    case Code::kNonFinite:
      return "nonfinite";
    case Code::kEndOfData:
      return "end_of_data";
  }
  return "unknown";
}

Error::Error(Code code, std::string message, ErrorDetail detail)
    : code_(code), message_(std::move(message)), detail_(std::move(detail)) {}

Error Error::with_context(std::string_view context) const {
  return {code_, cat(context, ": ", message_), detail_};
}

Error Error::at(std::string op_path) const {
  ErrorDetail detail = detail_;
  detail.op_path = std::move(op_path);
  return {code_, message_, std::move(detail)};
}

void fail(Code code, std::string message, ErrorDetail detail) {
  throw Error(code, std::move(message), std::move(detail));
}

void fail_errno(std::string_view doing, std::string_view path, int error_number) {
  char buffer[256];
  // GNU's version: returns the text, which need not lie in the buffer.
  const char* reason = strerror_r(error_number, buffer, sizeof buffer);
  ErrorDetail detail;
  detail.domain = Domain::kErrno;
  detail.native_code = error_number;
  detail.argument = path;
  fail(error_number == ENOENT ? Code::kNotFound : Code::kIo, cat(doing, " ", path, ": ", reason),
       std::move(detail));
}

}  // namespace assay
