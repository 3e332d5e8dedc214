// The border: what throws inside becomes a status and an error object outside.
//
// Every exported function that can fail runs its body in guard(): no exception leaves the library.
// What is caught deeper inside is raised again with more said, handed over to another thread, or
// answered by doing without.
#pragma once

#include <initializer_list>
#include <string_view>

#include "assay/assay.h"
#include "sdk/base/error.h"

struct assay_error {
  assay::Code code;
  std::string message;
  assay::ErrorDetail detail;
};

namespace assay::capi {

// An argument that leads to a file or a folder, which a failing file operation is then about.
struct PathArgument {
  std::string_view name;
  assay_str path;
};
using PathArguments = std::initializer_list<PathArgument>;

// Turns the exception being handled into a status, and into an error object if the caller wants
// one.
assay_status take_current_exception(assay_error** err, PathArguments paths) noexcept;

template <class Body>
assay_status guard(assay_error** err, PathArguments paths, Body&& body) noexcept {
  if (err != nullptr) *err = nullptr;
  try {
    body();
    return ASSAY_OK;
  } catch (...) {
    return take_current_exception(err, paths);
  }
}

template <class Body>
assay_status guard(assay_error** err, Body&& body) noexcept {
  return guard(err, {}, body);
}

// Fails with kInvalid: "out must not be NULL".
[[noreturn]] void fail_null(std::string_view argument);

// The referenced object, or kInvalid.
template <class T>
T& not_null(T* pointer, std::string_view argument) {
  if (pointer == nullptr) [[unlikely]]
    fail_null(argument);
  return *pointer;
}

// An array may be NULL if it has no elements.
inline void check_array(const void* data, size_t n, std::string_view argument) {
  if (data == nullptr && n > 0) [[unlikely]]
    fail_null(argument);
}

// Fails with kInvalid if bits other than `known` are set, which are the constants `names`.
void check_bits(uint32_t bits, uint32_t known, std::string_view argument, std::string_view names);

// Checks an output handle's place and clears it.
template <class T>
T*& cleared(T** out) {
  not_null(out, "out") = nullptr;
  return *out;
}

}  // namespace assay::capi
