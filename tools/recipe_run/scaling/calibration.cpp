#include "tools/recipe_run/scaling/calibration.h"

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace reciperun {
namespace {

constexpr double kInputBoundStraggle = 0.008;  // too few input-bound rows to fit it
constexpr size_t kTerms = 2;                   // linear ones of every kind

using Terms = std::array<double, kTerms>;

double observed_step_ms(const ScalingObservation& o) {
  return 1000 * o.fabric.devices * o.work.batch * o.work.micro_batches / o.rate;
}

Exposure exposure_of(StackKind kind) {
  switch (kind) {
    case StackKind::kOverlapped:
    case StackKind::kInputBound:
      return Exposure::kHidden;
    case StackKind::kCluster:
      return Exposure::kPartial;
    default:
      return Exposure::kGated;
  }
}

// What a unit of each linear constant adds to the step.
Terms unit_costs(StackKind kind, const ScalingObservation& o) {
  const double doublings = std::log2(o.fabric.devices);
  const double k = o.work.micro_batches;
  const double micro = o.work.micro_batch_ms();
  switch (kind) {
    case StackKind::kOverlapped:
      return {k * micro * doublings, k * doublings};
    case StackKind::kAccumulated:
      return {k * micro, k};
    case StackKind::kGatedInput:
      return {1, k * o.work.batch};
    default:
      return {o.reduced_precision ? 0.0 : 1.0, o.reduced_precision ? 1.0 : 0.0};
  }
}

void set_terms(Calibration& c, const Terms& terms) {
  switch (c.kind) {
    case StackKind::kOverlapped:
    case StackKind::kAccumulated:
      c.constants.straggle = terms[0];
      c.constants.host_ms = terms[1];
      break;
    case StackKind::kGatedInput:
      c.constants.sync_ms = c.reduced_sync_ms = terms[0];
      c.constants.item_ms = terms[1];
      break;
    default:
      c.constants.sync_ms = terms[0];
      c.reduced_sync_ms = terms[1];
  }
}

// Two unknowns, none below zero, by the normal equations of each choice of unknowns that stay.
struct NormalEquations {
  double aa = 0, ab = 0, bb = 0, ay = 0, by = 0, yy = 0;

  void add(const Terms& row, double y) {
    aa += row[0] * row[0];
    ab += row[0] * row[1];
    bb += row[1] * row[1];
    ay += row[0] * y;
    by += row[1] * y;
    yy += y * y;
  }

  double loss(const Terms& t) const {
    return yy - 2 * (t[0] * ay + t[1] * by) + t[0] * t[0] * aa + 2 * t[0] * t[1] * ab +
           t[1] * t[1] * bb;
  }

  Terms solve() const {
    Terms best = {0, 0};
    const auto consider = [&](Terms t) {
      if (t[0] >= 0 && t[1] >= 0 && loss(t) < loss(best)) best = t;
    };
    if (aa > 0) consider({ay / aa, 0});
    if (bb > 0) consider({0, by / bb});
    const double determinant = aa * bb - ab * ab;
    if (determinant > 1e-12 * aa * bb)
      consider({(ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant});
    return best;
  }
};

// Fits the linear constants with everything else in `c` given; returns the loss. What counts is the
// relative error of the rate, T / T_predicted - 1: the weights are those of the fit before.
double fit_linear(Calibration& c, std::span<const ScalingObservation> observations) {
  constexpr int kRounds = 3;
  double loss = 0;
  for (int round = 0; round < kRounds; ++round) {
    NormalEquations equations;
    for (const ScalingObservation& o : observations) {
      const double step = observed_step_ms(o);
      const double weight = 1 / (round == 0 ? step : step * o.rate / c.predict(o));
      Fabric fabric = o.fabric;
      if (c.network_gb_per_s > 0 && fabric.nodes > 1) fabric.bus_gb_per_s = c.network_gb_per_s;
      const double base = o.work.micro_batches * o.work.micro_batch_ms() +
                          exposed_ms(o.work, fabric, c.constants.exposure, c.constants.overlap);
      Terms row = unit_costs(c.kind, o);
      for (double& x : row) x *= weight;
      equations.add(row, (step - base) * weight);
    }
    const Terms terms = equations.solve();
    set_terms(c, terms);
    loss = equations.loss(terms);
  }
  return loss;
}

// Network rate and overlap trade off against each other: what counts is the time they add. A grid
// finds the best pair; the linear constants follow.
Calibration fit_cluster(Calibration start, std::span<const ScalingObservation> observations) {
  constexpr int kRates = 80;
  constexpr double kSlowest = 0.3;   // GB/s
  constexpr double kFastest = 12.5;  // one 100 Gb/s port
  constexpr int kOverlaps = 50;
  Calibration best = start;
  double best_loss = std::numeric_limits<double>::infinity();
  for (int r = 0; r < kRates; ++r) {
    for (int w = 0; w <= kOverlaps; ++w) {
      Calibration c = start;
      c.network_gb_per_s = kSlowest * std::pow(kFastest / kSlowest, r / (kRates - 1.0));
      c.constants.overlap = static_cast<double>(w) / kOverlaps;
      const double loss = fit_linear(c, observations);
      if (loss >= best_loss) continue;
      best_loss = loss;
      best = c;
    }
  }
  return best;
}

// One unknown, the loss falls and rises once: golden section on its logarithm.
Calibration fit_host_rate(Calibration c, std::span<const ScalingObservation> observations) {
  c.constants.straggle = kInputBoundStraggle;
  const auto loss = [&](double log_rate) {
    c.constants.host_rate = std::exp(log_rate);
    double sum = 0;
    for (const ScalingObservation& o : observations) sum += std::pow(c.predict(o) / o.rate - 1, 2);
    return sum;
  };
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = 0;
  double high = std::log(1e7);
  while (high - low > 1e-9) {
    const double a = high - golden * (high - low);
    const double b = low + golden * (high - low);
    if (loss(a) < loss(b)) {
      high = b;
    } else {
      low = a;
    }
  }
  c.constants.host_rate = std::exp((low + high) / 2);
  return c;
}

}  // namespace

CostConstants Calibration::for_precision(bool reduced) const {
  CostConstants out = constants;
  if (reduced) out.sync_ms = reduced_sync_ms;
  return out;
}

double Calibration::predict(const ScalingObservation& o) const {
  Fabric fabric = o.fabric;
  if (network_gb_per_s > 0 && fabric.nodes > 1) fabric.bus_gb_per_s = network_gb_per_s;
  return predicted_rate(o.work, fabric, for_precision(o.reduced_precision));
}

Calibration calibrate(StackKind kind, std::span<const ScalingObservation> observations) {
  if (observations.empty()) throw std::domain_error("nothing to calibrate from");
  Calibration c;
  c.kind = kind;
  c.constants.exposure = exposure_of(kind);
  c.constants.per_doubling = kind != StackKind::kAccumulated;
  if (kind == StackKind::kInputBound) return fit_host_rate(c, observations);
  if (kind == StackKind::kCluster) return fit_cluster(c, observations);
  fit_linear(c, observations);
  return c;
}

}  // namespace reciperun
