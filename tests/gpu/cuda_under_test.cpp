#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "sdk/backend/cuda/loader.h"
#include "sdk/graph/elementwise.h"
#include "tests/gpu/device_hooks.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {
namespace {

// Every test of this program needs the device: without one each is skipped, with the reason.
class SkipWithoutDevice : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override {
    const std::string& reason = cuda::devices()[0].unavailable_reason;
    if (!reason.empty()) GTEST_SKIP() << "no CUDA device can be used: " << reason;
  }
};

[[maybe_unused]] const bool kListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SkipWithoutDevice);  // takes it over
  return true;
}();

}  // namespace

// ASSAY_TEST_CUDNN_DEPTHWISE in the environment: without own kernels of depthwise convolutions.
std::unique_ptr<Backend> make_backend_under_test(int, bool deterministic) {
  const bool own_depthwise = std::getenv("ASSAY_TEST_CUDNN_DEPTHWISE") == nullptr;
  return cuda::make_backend({.deterministic = deterministic, .own_depthwise = own_depthwise});
}

// Until a test breaks the device.
std::shared_ptr<Backend> shared_backend_under_test(int threads, bool deterministic) {
  static auto& both = *new std::array<std::shared_ptr<Backend>, 2>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Backend>& shared = both[deterministic];
  try {
    if (shared != nullptr) shared->wait();
  } catch (const Error&) {
    shared = nullptr;
  }
  if (shared == nullptr) shared = make_backend_under_test(threads, deterministic);
  return shared;
}

bool libraries_need_alignment() { return true; }

bool convolutions_are_of_one_type() { return true; }

// A kernel that reads an address that does not exist.
void break_device(Backend& backend) {
  Graph graph;
  const ValueId x = graph.emit1(Input{"x", DType::kF32, {1024}}, {});
  const ValueId y = activation(graph, x, ActivationKind::kRelu);
  const NodePlan plan = backend.plan(graph, graph.value(y).producer);
  const auto good = backend.allocate(4096);
  void* const inputs[] = {reinterpret_cast<void*>(uintptr_t{0x1000})};
  void* const outputs[] = {good->data()};
  backend.make_executable({plan.bind({.inputs = inputs, .outputs = outputs})}, 1)->run(nullptr);
  backend.wait();
}

void under_every_schedule(const std::function<void()>& body) { body(); }

}  // namespace assay::test
