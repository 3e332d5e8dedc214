// The one exception type of the engine, and the ways to raise it.
//
// Inside the library every failure is an `assay::Error`; the guard of the C layer
// (capi/src/guard.h) turns it into a status code and an owned error object. Anything that a caller,
// a file or a machine can cause is an Error; only mistakes of our own code are assertions.
//
// Messages are one line: what was being done, what was found, what was expected, what to do about
// it. They do not repeat the code, and a caller who adds context prepends to the deeper message
// instead of replacing it.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

namespace assay {

// Values equal the ASSAY_E_* constants of assay.h and are frozen: never renumber.
enum class Code : int32_t {
  kOk = 0,
  kInvalid = -1,      // an argument, a configuration value or a call in the wrong state
  kUnsupported = -2,  // a correct request that this build or device cannot serve
  kOutOfHostMemory = -3,
  kOutOfDeviceMemory = -4,
  kDevice = -5,    // the device or its driver failed
  kIo = -6,        // the operating system, or the host's functions, refused a file operation
  kFormat = -7,    // a file or text is malformed, truncated or corrupt
  kVersion = -8,   // a file, struct or library of an unknown version
  kNotFound = -9,  // no such file, model, variable, key
  kBusy = -10,     // the handle is in use by another thread
  kCancelled = -11,
  kTimeout = -12,
  kComm = -13,              // a peer process failed or disagreed
  kCallback = -14,          // a function of the host gave what cannot be used
  kNondeterministic = -15,  // no deterministic kernel exists for what was asked
  kPoisoned = -16,          // an earlier failure left this handle unusable
  kInternal = -17,          // a bug of this library
  kNonFinite = -18,         // the loss or a gradient is NaN or infinite
  kEndOfData = -19,         // a loader has no further batch
};

// "invalid", "format", ...: the name without its ASSAY_E_ prefix, in lower case.
std::string_view code_name(Code code);

// Who reported `native_code`. Frozen values, as Code.
enum class Domain : int32_t {
  kNone = 0,
  kErrno = 1,
  kOneDnn = 2,
  kCuda = 3,
  kCudnn = 4,
  kCublas = 5,
  kNccl = 6,
  kMpi = 7,
  kHost = 8,
  kZip = 9
};

// Optional structured parts of an error; empty strings are "not given".
struct ErrorDetail {
  Domain domain = Domain::kNone;
  int64_t native_code = 0;
  std::string op_path;   // scope of the graph node, "layer2.0.conv1"
  std::string argument;  // name of the argument or configuration key at fault
  std::string expected;
  std::string actual;
  std::string hint;  // what to do
};

class Error : public std::exception {
 public:
  Error(Code code, std::string message, ErrorDetail detail = {});
  const char* what() const noexcept override { return message_.c_str(); }
  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const ErrorDetail& detail() const noexcept { return detail_; }

  // A copy whose message reads "context: message".
  Error with_context(std::string_view context) const;
  // A copy that names this layer.
  Error at(std::string op_path) const;

 private:
  Code code_;
  std::string message_;
  ErrorDetail detail_;
};

namespace detail {
inline void append(std::string& out, std::string_view text) { out += text; }
template <std::same_as<bool> T>  // constrained, or every char* would convert to bool
void append(std::string& out, T value) {
  out += value ? "true" : "false";
}
inline void append(std::string& out, char value) { out += value; }
void append(std::string& out, int64_t value);
void append(std::string& out, uint64_t value);
void append(std::string& out, float value);
void append(std::string& out, double value);
template <std::integral T>
requires(!std::same_as<T, bool>) void append(std::string& out, T value) {
  append(out, static_cast<std::conditional_t<std::signed_integral<T>, int64_t, uint64_t>>(value));
}
// Anything with a to_text(x) found by argument-dependent lookup (DType, Dims, ...).
template <class T>
requires requires(const T& value) {
  { to_text(value) } -> std::convertible_to<std::string_view>;
}
void append(std::string& out, const T& value) { out += to_text(value); }
}  // namespace detail

// cat("x has ", 3, " rows") == "x has 3 rows". Numbers print in their shortest round-trip form.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

[[noreturn]] void fail(Code code, std::string message, ErrorDetail detail = {});

// Fails with cat(parts...) unless `ok`. The text is built only on failure.
template <class... Parts>
void require(bool ok, Code code, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(code, cat(parts...));
}

// Fails with kIo (kNotFound for ENOENT), the text of errno and the number in detail().native_code.
[[noreturn]] void fail_errno(std::string_view doing, std::string_view path, int error_number);

}  // namespace assay
