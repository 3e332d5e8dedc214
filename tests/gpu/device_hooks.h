// What tests of the CUDA backend do to its device, on a GPU and on the emulated runtime.
#pragma once

#include <functional>

#include "sdk/backend/backend.h"

namespace assay::test {

// Breaks the device's context for good, by an access to an address that does not exist, and raises
// the error that comes of it.
void break_device(Backend& backend);

// Calls body() once for every order in which the device may take the work of several streams, as
// far as it lets itself be told.
void under_every_schedule(const std::function<void()>& body);

}  // namespace assay::test
