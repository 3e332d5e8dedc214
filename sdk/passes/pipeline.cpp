// The tables of passes, whose order matters, and their runner.
#include "sdk/passes/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "sdk/base/expect.h"
#include "sdk/graph/verify.h"
#include "sdk/passes/fuse_bias_gradient.h"
#include "sdk/passes/fuse_epilogue.h"
#include "sdk/passes/fuse_norm.h"
#include "sdk/passes/fuse_pointwise.h"
#include "sdk/passes/fuse_squeeze.h"
#include "sdk/passes/join_casts.h"
#include "sdk/passes/lower_biases.h"
#include "sdk/passes/merge_equal_nodes.h"
#include "sdk/passes/pad_classes.h"
#include "sdk/passes/rematerialize.h"

namespace assay {
namespace {

// The sum of a residual block stands between its normalisation and its activation: it is joined
// first.
constexpr std::array kForward{
    Pass{"fuse_batch_norm_add", fuse_batch_norm_add},
    Pass{"fuse_batch_norm_activation", fuse_batch_norm_activation},
    Pass{"fuse_activation", fuse_activation},
};
// A pool's gradient takes its addend before f' multiplies both; sums are cast by their terms before
// the casts are joined. The last two are for CPUs alone: convolutions of GPUs give the type that
// they read (decisions/0015), and wait for the bytes that making again moves (decisions/0032).
constexpr std::array kTraining{
    Pass{"merge_equal_nodes", merge_equal_nodes},
    Pass{"fuse_squeeze", fuse_squeeze},
    Pass{"fuse_gradient_addition", fuse_gradient_addition},
    Pass{"fuse_batch_norm_gradient_add", fuse_batch_norm_gradient_add},
    Pass{"fuse_activation_grad", fuse_activation_grad},
    Pass{"fuse_product_sum", fuse_product_sum},
    Pass{"sum_gradients_in_f32", sum_gradients_in_f32},
    Pass{"fuse_product_cast", fuse_product_cast},
    Pass{"fuse_gradient_cast", fuse_gradient_cast},
    Pass{"rematerialize", rematerialize},
};
constexpr std::array kInference{
    Pass{"fold_batch_norm", fold_batch_norm},
    Pass{"fuse_activation", fuse_activation},
};
// fuse_pointwise comes last: its chains would take in activations that a product can join.
constexpr std::array kFinishing{
    Pass{"fuse_kept_activation", fuse_kept_activation},
    Pass{"fuse_pointwise", fuse_pointwise},
};

// Behind all others: where a launch costs as much as moving megabytes, and convolutions can sum up
// what they write. The first one is not for older devices, where cuDNN's kernels with sums of
// gradients take more passes than they save (decisions/0021), nor where every run must give the
// same bits, which those sums do not (0024). It looks for normalisations that
// fuse_batch_norm_residual joins, and leaves fewer to keep a mask for.
constexpr std::array kGpu{
    Pass{"fuse_batch_norm_gradient_sums", fuse_batch_norm_gradient_sums},
    Pass{"fuse_batch_norm_max_pool", fuse_batch_norm_max_pool},
    Pass{"fuse_batch_norm_sums", fuse_batch_norm_sums},
    Pass{"fuse_batch_norm_residual", fuse_batch_norm_residual},
    Pass{"fuse_batch_norm_mask", fuse_batch_norm_mask},
    Pass{"fuse_layer_norm_gradient_add", fuse_layer_norm_gradient_add},
    Pass{"fuse_bias_gradient", fuse_bias_gradient},
    Pass{"lower_biases", lower_biases},
    Pass{"join_casts", join_casts},
    Pass{"pad_classes", pad_classes},
};

void check_names(std::span<const std::string> names) {
  std::set<std::string_view> all;
  for (const auto passes : {forward_passes(), std::span<const Pass>(kTraining), inference_passes(),
                            finishing_passes(), std::span<const Pass>(kGpu)})
    for (const Pass& pass : passes) all.insert(pass.name);
  const std::vector<std::string_view> known(all.begin(), all.end());
  for (const std::string& name : names) {
    if (all.contains(name)) continue;
    fail_mismatch(Code::kInvalid, {"disabled_pass", "disabled_pass", cat('"', name, '"'),
                                   enumerate(known, true), suggestion(name, known)});
  }
}

}  // namespace

std::span<const Pass> forward_passes() { return kForward; }
std::span<const Pass> training_passes(const Target& target) {
  return std::span<const Pass>(kTraining).first(kTraining.size() -
                                                (target.kind == Target::Kind::kCuda ? 2 : 0));
}
std::span<const Pass> inference_passes() { return kInference; }
std::span<const Pass> finishing_passes() { return kFinishing; }
std::span<const Pass> gpu_passes(const Target& target) {
  constexpr int kHopper = 90;
  const bool sums_gradients = target.compute_capability >= kHopper && !target.deterministic;
  return std::span<const Pass>(kGpu).subspan(sums_gradients ? 0 : 1);
}

std::vector<PassRecord> run_passes(Graph& graph, std::span<const Pass> passes,
                                   std::span<const std::string> disabled) {
  check_names(disabled);
  graph.set_phase(Phase::kForward);  // what a pass emits has the phase of what it reads
  std::vector<PassRecord> records;
  for (const Pass& pass : passes) {
    if (std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end()) continue;
    const auto start = std::chrono::steady_clock::now();
    const bool changed = pass.run(graph);
    if (changed) graph.sort();
    graph.remove_dead_nodes();
    verify(graph);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    records.push_back({std::string(pass.name), seconds, changed, graph.nodes().size()});
  }
  return records;
}

}  // namespace assay
