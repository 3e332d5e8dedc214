// Errors as values.
#pragma once

#include "sdk/base/error.h"

namespace assay::test {

// The Error that `call` raises; code kOk when it raises none.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {Code::kOk, "no error"};
}

}  // namespace assay::test
