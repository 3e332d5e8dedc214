// The noise gate: was this machine fit to measure? Works on the step times of one benchmark and its
// repeats.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace reciperun {

enum class NoiseLevel { kQuiet, kWarn, kBlock };

struct NoiseCheck {
  std::string name;  // "repeats", "drift", ...
  double value = 0;  // what was measured, as a fraction
  double warn = 0;   // limits
  double block = 0;  // infinity: never blocks
  NoiseLevel level = NoiseLevel::kQuiet;
};

// Slope of the median line through (i, x_i), in units of x per sample.
double theil_sen_slope(std::span<const double> samples);

// Whether samples rise or fall along the way rather than by chance (Mann and Kendall's test at 5
// %).
bool has_trend(std::span<const double> samples);

// Median absolute deviation times 1.4826: the standard deviation of a normal sample, blind to
// outliers.
double scaled_mad(std::span<const double> samples);

struct TwoModes {
  double gain = 0;            // share of the variance that two means explain
  double minor_fraction = 0;  // share of the samples in the smaller mode
  double low = 0;
  double high = 0;
};
TwoModes two_means(std::span<const double> samples);

// Checks on the step times (seconds, in time order) of one window.
std::vector<NoiseCheck> step_checks(std::span<const double> samples);

// Check of the repeats' results (throughputs) against one another. Needs at least two.
NoiseCheck repeat_check(std::span<const double> repeats);

// What the host lost while measuring, as fractions of the window; negative = unknown, not checked.
struct HostWindow {
  double steal = -1;        // CPU time taken by the hypervisor
  double throttled = -1;    // cgroup periods throttled
  double foreign_cpu = -1;  // other processes
  double pressure = -1;     // time in which some thread waited for a CPU, ours included
};
std::vector<NoiseCheck> host_checks(const HostWindow& window);

// What a GPU went through, as shares of the samples taken; negative = unknown, not checked.
struct GpuWindow {
  std::string unwatched;     // "" or why nothing below is known
  double clock_drop = -1;    // 1 - p5 / p95 of its clock
  double power_capped = -1;  // clock held down by the power limit
  double slowed = -1;        // by heat or by the hardware
  double foreign = -1;       // another process on it
};
std::vector<NoiseCheck> gpu_checks(const GpuWindow& window);

// Check of the A/A probes (seconds) taken before and after every repeat. Needs at least two.
NoiseCheck probe_check(std::span<const double> probes);

// Adds `more` to `checks`; of two of one name the worse stays.
void keep_worst(std::vector<NoiseCheck>& checks, const std::vector<NoiseCheck>& more);

NoiseLevel worst(std::span<const NoiseCheck> checks);

// "drift 4.1 % (limit 3 %)" of every check that is not quiet, joined by commas; "" if all are.
std::string noise_text(std::span<const NoiseCheck> checks);

}  // namespace reciperun
