// What an op of the CPU backend sees while it is planned, and how it runs in parallel.
#pragma once

#include <omp.h>

#include "sdk/backend/backend.h"

namespace assay::cpu {

class Planner : public NodeView {
 public:
  Planner(const Graph& graph, NodeId node, int threads)
      : NodeView(graph, node), threads_(threads) {}
  int threads() const { return threads_; }

 private:
  int threads_;
};

// Of ops that passes make on GPUs alone.
[[noreturn]] inline void fail_gpu_only(const Planner& c, std::string_view op) {
  fail(Code::kUnsupported, cat(op, " at ", c.scope(), ": is for GPUs only"));
}

// Calls body(i) for i in [0, n), split evenly over `threads` in a fixed way. The work of one i must
// not depend on the number of threads, so results have the same bits on any number of them. body
// must not throw.
template <class Body>
void parallel_for(int threads, int64_t n, const Body& body) {
  if (threads == 1 || n == 1) {
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n; ++i) body(i);
}

// Declared for every op here, defined in sdk/backend/cpu/ops/.
#define ASSAY_DECLARE(Name) NodePlan plan(const Name&, const Planner& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay::cpu
