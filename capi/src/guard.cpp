// Exceptions to error objects, which the caller owns, and what assay_error_get tells of them.
#include "capi/src/guard.h"

#include <cerrno>
#include <new>
#include <system_error>

#include "capi/src/abi.h"
#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"

namespace assay::capi {
namespace {

// Made when the library is loaded, in memory that no destructor touches: reporting that memory ran
// out must not need any. Its texts fit into the string objects themselves.
alignas(assay_error) std::byte out_of_memory_storage[sizeof(assay_error)];
assay_error* const kOutOfMemoryError =
    new (out_of_memory_storage) assay_error{Code::kOutOfHostMemory, "out of memory", {}};

// Texts may repeat what a caller or a file holds.
ErrorDetail printable(ErrorDetail detail) {
  for (std::string* text :
       {&detail.op_path, &detail.argument, &detail.expected, &detail.actual, &detail.hint})
    *text = assay::printable(*text);
  return detail;
}

assay_status hand_out(assay_error** err, Code code, const char* message,
                      const ErrorDetail& detail) noexcept {
  if (err == nullptr) return static_cast<assay_status>(code);
  try {
    *err = new assay_error{code, assay::printable(message), printable(detail)};
  } catch (...) {  // no memory for the error: the code is right, the text is lost
    *err = kOutOfMemoryError;
  }
  return static_cast<assay_status>(code);
}

bool leads_to(std::string_view folder, std::string_view file) {
  return file.starts_with(folder) &&
         (file.size() == folder.size() || folder.ends_with('/') || file[folder.size()] == '/');
}

// Which of them leads to the file of a failing operation, the longest if there are several, or lies
// in that folder; empty: none.
std::string argument_of(std::string_view file, PathArguments paths) {
  std::string_view found, in_folder, longest;
  for (const PathArgument& argument : paths) {
    if (argument.path.data == nullptr || argument.path.size == 0) continue;
    const std::string_view path(argument.path.data, argument.path.size);
    if (leads_to(path, file) && path.size() > longest.size())
      found = argument.name, longest = path;
    else if (in_folder.empty() && !file.empty() && leads_to(file, path))
      in_folder = argument.name;
  }
  return std::string(found.empty() ? in_folder : found);
}

// Retry: the same call may succeed later. Caller: it will not before the caller changes something.
uint32_t flags_of(Code code) {
  switch (code) {
    case Code::kBusy:
    case Code::kCancelled:
    case Code::kOutOfHostMemory:
    case Code::kOutOfDeviceMemory:
      return ASSAY_ERROR_RETRY;
    case Code::kPoisoned:
      return ASSAY_ERROR_POISONED;
    case Code::kInvalid:
    case Code::kUnsupported:
    case Code::kFormat:
    case Code::kVersion:
    case Code::kNotFound:
    case Code::kNondeterministic:
      return ASSAY_ERROR_CALLER;
    default:
      return 0;
  }
}

}  // namespace

void fail_null(std::string_view argument) {
  fail(Code::kInvalid, cat(argument, " must not be NULL"),
       {.argument = std::string(argument), .expected = "a pointer", .actual = "NULL"});
}

void check_bits(uint32_t bits, uint32_t known, std::string_view argument, std::string_view names) {
  expect((bits & ~known) == 0, {"", argument}, bits, "bits of ", names, ", together at most ",
         known);
}

assay_status take_current_exception(assay_error** err, PathArguments paths) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    // fail_errno knows the file, and not by which argument it came here.
    if (detail.domain == Domain::kErrno) detail.argument = argument_of(detail.argument, paths);
    return hand_out(err, error.code(), error.what(), detail);
  } catch (const std::bad_alloc&) {
    if (err != nullptr) *err = kOutOfMemoryError;
    return ASSAY_E_OOM_HOST;
  } catch (const std::system_error& error) {  // what std::thread says where none can be started
    const int number = error.code().value();
    const bool lacks = number == EAGAIN || number == ENOMEM;
    return hand_out(err, lacks ? Code::kOutOfHostMemory : Code::kInternal, error.what(),
                    {.domain = Domain::kErrno, .native_code = number});
  } catch (const std::exception& error) {
    return hand_out(err, Code::kInternal, error.what(), {});
  } catch (...) {
    return hand_out(err, Code::kInternal, "an exception of unknown type", {});
  }
}

}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_error_get(const assay_error* e, assay_error_info* out) {
  return guard(nullptr, [&] {
    const assay_error& error = not_null(e, "e");
    const ErrorDetail& detail = error.detail;
    write_struct(out, "out",
                 assay_error_info{.code = static_cast<assay_status>(error.code),
                                  .domain = static_cast<int32_t>(detail.domain),
                                  .native_code = detail.native_code,
                                  .flags = flags_of(error.code),
                                  .message = to_str(error.message),
                                  .op_path = to_str(detail.op_path),
                                  .argument = to_str(detail.argument),
                                  .expected = to_str(detail.expected),
                                  .actual = to_str(detail.actual),
                                  .hint = to_str(detail.hint)});
  });
}

void assay_error_free(assay_error* e) {
  if (e != kOutOfMemoryError) delete e;
}
