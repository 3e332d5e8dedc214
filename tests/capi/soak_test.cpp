// A host that makes, trains, saves, loads, serves and frees again and again keeps the memory of its
// first rounds. Half a minute; ASSAY_SOAK_SECONDS=3600 in the environment asks for an hour.
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

class SoakTest : public SmallModel {
 protected:
  // One round, on contexts of its own and on the long-lived one in turn.
  void round(const assay_context* on) {
    const auto model = make<assay_model>(assay_model_named, on, text("cnn"), text(kSmallCnn));
    const auto trainer = make_trainer(model.get());
    for (int i = 0; i < 5; ++i) step(trainer.get(), batch);
    ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, nullptr);
    ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
    ok(assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr);
    report(assay_trainer_report, trainer.get());
    const auto served = make<assay_model>(assay_model_open, on, text(path));
    const auto predictor = make<assay_predictor>(assay_predictor_create, served.get(), text(""));
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&] {
        const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
        for (int k = 0; k < 5; ++k) {
          assay_tensor* out = nullptr;
          ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out,
             size_t{1});
          assay_tensor_release(out);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    fails(ASSAY_E_NOT_FOUND, assay_checkpoint_load, trainer.get(), text(folder.at("none")), 0u,
          nullptr);
  }

  static double used() { return static_cast<double>(mallinfo2().uordblks); }
  static double resident() {
    std::ifstream file("/proc/self/statm");
    double size = 0, pages = 0;
    file >> size >> pages;
    return pages * 4096;
  }

  TemporaryFolder folder;
  const std::string path = folder.at("soak.ckpt");
};

TEST_F(SoakTest, MemoryStaysFlat) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmUp = 40;
  constexpr double kMiB = 1 << 20;
  const char* const asked = std::getenv("ASSAY_SOAK_SECONDS");
  const auto seconds = std::chrono::seconds(asked == nullptr ? 30 : std::atoi(asked));
  const auto end = Clock::now() + seconds;
  double used_before = 0, resident_before = 0;
  int64_t rounds = 0;
  for (; rounds < 2 * kWarmUp || Clock::now() < end; ++rounds) {
    if (rounds == kWarmUp) used_before = used(), resident_before = resident();
    if (rounds % 2 == 0)
      round(context.get());
    else
      round(make_context().get());
    if (HasFailure()) return;
  }
  std::printf("%lld rounds in %lld s: %.2f MiB in use, then %.2f; %.1f MiB resident, then %.1f\n",
              static_cast<long long>(rounds), static_cast<long long>(seconds.count()),
              used_before / kMiB, used() / kMiB, resident_before / kMiB, resident() / kMiB);
  EXPECT_LT(used(), used_before + 0.1 * kMiB);
  EXPECT_LT(resident(), resident_before + 8 * kMiB);  // what the allocator keeps comes and goes
}

}  // namespace
}  // namespace assay::test
