#include "tools/recipe_run/scaling/forecast.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

constexpr double kOwnStraggle = 0.005;
constexpr double kClusterWaitMs = 160;  // per optimizer step on 48 nodes
constexpr double kClusterWaitNodes = 48;

CostConstants own_stack() {
  CostConstants out;
  out.exposure = Exposure::kPartial;
  out.overlap = 1;
  out.straggle = kOwnStraggle;
  return out;
}

// Beyond what the stack's own constants were fitted to: one node, or the four of the clusters.
double cluster_wait_ms(int nodes, StackKind kind) {
  const double doublings = std::log2(nodes) - (kind == StackKind::kCluster ? 2 : 0);
  return kClusterWaitMs * std::max(0.0, doublings) / std::log2(kClusterWaitNodes);
}

// The constants of a value's stack on its machine.
Calibration calibration_of(const PublishedScaling& published, const ScalingValue& value) {
  std::vector<ScalingObservation> observations;
  for (const ScalingValue& v : published.values) {
    if (v.group == value.group && v.machine == value.machine) observations.push_back(v.observation);
  }
  return calibrate(value.kind, observations);
}

// Three digits: more would be invented.
std::string rate_text(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 2);
  return significant(std::round(rate / unit) * unit, 3);
}

std::string forecast_line(double single_rate, const ScalingForecast& f) {
  const std::string times =
      rate_text(f.interval.lower / single_rate) + " … " + rate_text(f.interval.upper / single_rate);
  return pad_left(std::to_string(f.devices), 8) + pad_left(std::to_string(f.nodes), 7) +
         pad_left(rate_text(f.interval.lower), 13) + pad_left(rate_text(f.interval.upper), 13) +
         pad_left(times, 18) + "\n";
}

}  // namespace

double forecast_error(int nodes) { return nodes == 1 ? 0.03 : 0.10; }

ScalingForecast forecast(const DeviceWork& work, const ScalingMachine& machine, int devices,
                         const Calibration& stack, bool reduced_precision) {
  Fabric fabric = machine.fabric(devices);
  ScalingForecast out{devices, fabric.nodes, 0, 0, {}};
  out.fast = predicted_rate(work, fabric, own_stack());
  CostConstants slow = stack.for_precision(reduced_precision);
  slow.sync_ms += cluster_wait_ms(fabric.nodes, stack.kind);
  if (slow.exposure == Exposure::kHidden && fabric.nodes > 1) slow.exposure = Exposure::kGated;
  if (stack.network_gb_per_s > 0 && fabric.nodes > 1) fabric.bus_gb_per_s = stack.network_gb_per_s;
  out.slow = std::min(out.fast, predicted_rate(work, fabric, slow));
  const double error = forecast_error(fabric.nodes);
  out.interval = {out.slow * (1 - error),
                  std::min(out.fast * (1 + error), devices * work.single_rate)};
  return out;
}

double own_stack_rate(double single_rate, int devices) {
  return devices * single_rate / (1 + kOwnStraggle * std::log2(devices));
}

std::string forecast_text(const PublishedScaling& published, int most) {
  std::string text =
      "Images or sequences per second on N devices, and how many times one device's\n" +
      pad_left("N", 8) + pad_left("nodes", 7) + pad_left("at least", 13) + pad_left("at most", 13) +
      pad_left("× one", 18) + "\n";
  std::set<std::string> done;
  for (const ScalingValue& value : published.values) {
    if (!done.insert(value.title).second) continue;
    const ScalingObservation& o = value.observation;
    const Calibration stack = calibration_of(published, value);
    text += value.title + "\n";
    for (int devices = 8; devices <= most; devices *= 2) {
      DeviceWork work = o.work;
      work.micro_batches =
          std::max(1.0, std::round(work.micro_batches * o.fabric.devices / devices));
      text += forecast_line(work.single_rate, forecast(work, published.machine(value.machine),
                                                       devices, stack, o.reduced_precision));
    }
  }
  return text;
}

}  // namespace reciperun
