// The probe of an engine's device: it works in the context it is given, and what it says follows
// from how fast that is.
#include "tools/recipe_run/assay/bench.h"

#include <gtest/gtest.h>

namespace reciperun::engine {
namespace {

Context context_of(assay_context_options options) {
  options.struct_size = sizeof options;
  assay_context* context = nullptr;
  call(Exit::kCrashed, assay_context_create, &options, nullptr, nullptr, size_t{0}, &context);
  return Context(context);
}

uint64_t bytes_in_use(const assay_context* context) {
  assay_mem_stats stats{};
  stats.struct_size = sizeof stats;
  call(Exit::kCrashed, assay_context_mem_stats, context, assay_device_id{ASSAY_DEVICE_CPU, 0},
       &stats);
  return stats.in_use;
}

TEST(DeviceProbe, WorksInTheContextItIsGiven) {
  const Context context = context_of({});
  DeviceProbe probe(context.get());
  EXPECT_GT(bytes_in_use(context.get()), uint64_t{4} << 20);  // three layers of weights
  const double seconds = probe.seconds();
  // 17 GFLOP: beyond any CPU in a millisecond, within a minute on every one.
  EXPECT_GT(seconds, 1e-3);
  EXPECT_LT(seconds, 60);
}

TEST(DeviceProbe, FailsAsAnErrorWhereItHasNoRoom) {
  const Context context = context_of({.mem_limit = 1 << 20});
  EXPECT_THROW(DeviceProbe(context.get()), Error);
}

}  // namespace
}  // namespace reciperun::engine
