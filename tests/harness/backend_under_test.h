// The backend that a test program examines: which one is decided when it is linked. The same tests
// run on every backend.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"

namespace assay::test {

// `threads` where the backend has any. One that is not deterministic may use kernels that do not
// give the same bits on every run.
std::unique_ptr<Backend> make_backend_under_test(int threads, bool deterministic = true);

// One that other tests may have used before, as making one takes long on a GPU. It works.
std::shared_ptr<Backend> shared_backend_under_test(int threads, bool deterministic = true);

// Whether results may depend on alignment because a vendor's library wants its operands on the
// 64-byte boundaries that the runtime gives them.
bool libraries_need_alignment();

// Whether all operands of a library's convolution are of the data type: biases are rounded to it,
// and so are results before what is not joined to them, and before they become f32.
bool convolutions_are_of_one_type();

}  // namespace assay::test
