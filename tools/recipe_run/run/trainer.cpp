#include "tools/recipe_run/run/trainer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace reciperun {
namespace {

constexpr int kSide = 96;                       // three matrices fit the first caches
constexpr size_t kCopyBytes = size_t{4} << 20;  // beyond them
constexpr double kShortestMeasurement = 0.2;

struct Work {
  std::vector<float> a = std::vector<float>(kSide * kSide, 1.0f);
  std::vector<float> b = std::vector<float>(kSide * kSide, 0.5f);
  std::vector<float> c = std::vector<float>(kSide * kSide, 0.0f);
  std::vector<char> from = std::vector<char>(kCopyBytes, 1);
  std::vector<char> to = std::vector<char>(kCopyBytes, 0);

  void multiply() {
    for (int i = 0; i < kSide; ++i) {
      for (int k = 0; k < kSide; ++k) {
        const float scale = a[static_cast<size_t>(i * kSide + k)];
        for (int j = 0; j < kSide; ++j)
          c[static_cast<size_t>(i * kSide + j)] += scale * b[static_cast<size_t>(k * kSide + j)];
      }
    }
  }

  void run() {
    std::fill(c.begin(), c.end(), 0.0f);
    for (int i = 0; i < 8; ++i) multiply();
    std::memcpy(to.data(), from.data(), kCopyBytes);
    from[0] = static_cast<char>(to[1] + (c[0] > 0 ? 1 : 0));  // both results are used
  }
};

}  // namespace

double fastest(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (const Stopwatch whole; whole.seconds() < kShortestMeasurement;) {
    const Stopwatch one;
    work();
    best = std::min(best, one.seconds());
  }
  return best;
}

double probe_seconds() {
  static Work work;
  return fastest([] { work.run(); });
}

double TrainerDriver::probe() { return probe_seconds(); }

}  // namespace reciperun
