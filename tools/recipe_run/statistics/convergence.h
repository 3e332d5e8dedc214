// MLPerf's reference convergence points: did training need suspiciously few epochs? The statistic
// is that of mlcommons/logging, mlperf_logging/rcp_checker, after its corrections #375 and #377
// (the sd over all values); its weak points (a trimmed mean beside an untrimmed, biased sd, reduced
// counts, one side only) are kept, so that the answer is the checker's. Welch's test (mean_tests.h)
// on the untrimmed lists is the better question and stands beside it in reports.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace reciperun {

// Runs per submission and how many of them are forgiven at either end; the reference needs twice
// the runs.
struct ConvergenceRules {
  int submission_runs = 5;  // 5 ResNet and detection, 10 BERT, 40 U-Net 3D
  int trimmed = 1;          // dropped at either end of a list: 1, U-Net 3D 4
};

// One batch size of the reference: mean, sd and the smallest mean a submission may have.
struct ConvergencePoint {
  double batch = 0;
  double mean = 0;
  double sd = 0;
  double least_mean = 0;
  double max_speedup() const { return mean / least_mean; }
};

// From the epochs (or samples) to quality of the reference runs at one batch size; at least
// 2 trimmed + 1 values. A run that never converged is given as 1e9.
ConvergencePoint convergence_point(double batch, std::span<const double> epochs,
                                   const ConvergenceRules& rules);

// Between two points: mean and sd linear in the batch size.
ConvergencePoint interpolated_point(double batch, const ConvergencePoint& low,
                                    const ConvergencePoint& high, const ConvergenceRules& rules);

// Drops batch sizes below the fastest point, then points slower than the line between their
// neighbours. Ordered by batch size.
std::vector<ConvergencePoint> pruned(std::vector<ConvergencePoint> points,
                                     const ConvergenceRules& rules);

struct ConvergenceCheck {
  bool passed = false;
  std::string text;                       // which reference was used, or why there is none
  std::optional<ConvergencePoint> point;  // the reference used
  double mean = 0;                        // olympic mean of the submission
  // The time score is multiplied by this: reference mean / own mean, at least 1.
  double score_factor = 1;
};
ConvergenceCheck check_convergence(const std::vector<ConvergencePoint>& reference, double batch,
                                   std::span<const double> epochs, const ConvergenceRules& rules);

}  // namespace reciperun
