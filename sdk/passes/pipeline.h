// The ordered passes over a graph.
//
// Forward passes run before differentiation, so that the gradient of a fused op is the fused
// gradient; training passes run on the finished step; inference passes on a predictor's forward;
// finishing passes on every graph, and those of GPUs last. Every pass is
// timed and can be switched off by name, and is followed by a sort, dead-code removal and verify().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sdk/graph/graph.h"
#include "sdk/graph/target.h"

namespace assay {

struct Pass {
  std::string_view name;
  bool (*run)(Graph&);  // returns whether it changed the graph
};

// The tables, in order.
std::span<const Pass> forward_passes();
std::span<const Pass> training_passes(const Target& target);
std::span<const Pass> inference_passes();
std::span<const Pass> finishing_passes();
std::span<const Pass> gpu_passes(const Target& target);

struct PassRecord {
  std::string name;
  double seconds = 0;
  bool changed = false;
  size_t nodes_after = 0;
};

// Runs the passes in order except those named in `disabled`; names that no table knows fail with
// kInvalid.
std::vector<PassRecord> run_passes(Graph& graph, std::span<const Pass> passes,
                                   std::span<const std::string> disabled = {});

}  // namespace assay
