#include "sdk/backend/cuda/backend.h"
#include "tests/gpu/device_hooks.h"
#include "tests/gpu/emulation/runtime.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {

std::unique_ptr<Backend> make_backend_under_test(int, bool deterministic) {
  return cuda::make_device_backend({.deterministic = deterministic});
}

std::shared_ptr<Backend> shared_backend_under_test(int threads, bool deterministic) {
  return make_backend_under_test(threads, deterministic);
}

bool libraries_need_alignment() { return false; }

bool convolutions_are_of_one_type() { return true; }

void break_device(Backend& backend) {
  backend.wait();
  cuda::emulation::fail_next_work(cudaErrorIllegalAddress);
  const auto memory = backend.allocate(16);  // its clearing is the work that fails
  backend.wait();
}

void under_every_schedule(const std::function<void()>& body) {
  using cuda::emulation::Schedule;
  for (const Schedule schedule : {Schedule::kLate, Schedule::kAtOnce, Schedule::kTransfersAtOnce}) {
    cuda::emulation::machine().schedule = schedule;
    body();
  }
  cuda::emulation::machine().schedule = Schedule::kLate;
}

}  // namespace assay::test
