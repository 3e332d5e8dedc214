#include "tools/recipe_run/scaling/cost_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace reciperun {
namespace {

constexpr double kBucketBytes = 64e6;
constexpr double kInputSharpness = 2.6;  // p: how sharply the input ceiling cuts in
constexpr double kBackwardShare = 2.0 / 3;

// Microseconds per operation of NCCL's tuner: a base, and a part per hop.
constexpr double kBaseUs = 8.4;
constexpr double kRingHopUs = 3.4;
constexpr double kTreeLocalHopUs = 4;
constexpr double kTreeNodeHopUs = 14;

double latency_us(const Fabric& f) {
  if (f.nodes == 1) return kBaseUs + 2 * (f.devices - 1) * kRingHopUs;
  const double per_node = static_cast<double>(f.devices) / f.nodes;
  return kBaseUs + 2 * ((per_node - 1) * kTreeLocalHopUs + std::log2(f.nodes) * kTreeNodeHopUs);
}

}  // namespace

double all_reduce_ms(double bytes, const Fabric& f) {
  if (f.devices < 2) return 0;
  if (!(f.bus_gb_per_s > 0)) throw std::domain_error("an all-reduce needs a bus rate");
  const double buckets = std::max(1.0, std::round(bytes / kBucketBytes));
  const double volume = 2.0 * (f.devices - 1) / f.devices * bytes;
  return volume / (f.bus_gb_per_s * 1e6) + buckets * latency_us(f) / 1000;
}

double exposed_ms(const DeviceWork& work, const Fabric& fabric, Exposure exposure, double overlap) {
  if (exposure == Exposure::kHidden) return 0;
  const double reduce = all_reduce_ms(work.gradient_bytes, fabric);
  if (exposure == Exposure::kGated) return reduce;
  const double buckets = std::ceil(work.gradient_bytes / kBucketBytes);
  const double last = buckets >= 2 ? reduce / buckets : 0;
  return std::max(reduce - overlap * kBackwardShare * work.micro_batch_ms(), last);
}

double step_ms(const DeviceWork& work, const Fabric& fabric, const CostConstants& c) {
  const double growth = c.per_doubling ? std::log2(fabric.devices) : 1;
  const double micro = work.micro_batch_ms() * (1 + c.straggle * growth) + c.host_ms * growth +
                       c.item_ms * work.batch;
  return work.micro_batches * micro + c.sync_ms + exposed_ms(work, fabric, c.exposure, c.overlap);
}

double predicted_rate(const DeviceWork& work, const Fabric& fabric, const CostConstants& c) {
  if (!(work.single_rate > 0) || fabric.devices < 1 || fabric.nodes < 1)
    throw std::domain_error("a prediction needs a single-device rate and at least one device");
  if (fabric.devices == 1) return work.single_rate;
  const double rate =
      1000 * fabric.devices * work.batch * work.micro_batches / step_ms(work, fabric, c);
  if (c.host_rate <= 0) return rate;
  const double p = kInputSharpness;
  return std::pow(std::pow(rate, -p) + std::pow(fabric.nodes * c.host_rate, -p), -1 / p);
}

}  // namespace reciperun
