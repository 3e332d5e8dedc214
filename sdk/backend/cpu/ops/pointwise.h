// Elementwise functions: the code of Pointwise on blocks that stay in the first-level cache, as
// nodes of their own and behind the products of others.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {

// A tensor on its way into a function, and where it lies: dense if nothing is said of it.
struct PointwiseSource {
  ValueType type;
  Layout layout;

  PointwiseSource(const ValueType& t) : type(t), layout(dense_layout(t.dims)) {}
  PointwiseSource(const ValueType& t, const Layout& where) : type(t), layout(where) {}
};

class PointwiseFunction {
 public:
  // Into y, dense, whose dims are those of the sources or repeat them (see Pointwise). `scope` is
  // for messages.
  PointwiseFunction(const PointwiseCode& code, const std::vector<PointwiseSource>& sources,
                    const ValueType& y, std::string_view scope);

  // All of y; it may be a dense source with elements of its size.
  void run(int threads, std::span<const void* const> x, void* y) const;
  // Elements [begin, end) of y, where no source is repeated.
  void run_part(std::span<const void* const> x, void* y, int64_t begin, int64_t end) const;

 private:
  class Interpreter;
  std::shared_ptr<const Interpreter> interpreter_;
  Chunks tasks_;
};

// `plan`, which writes output 1, and output 0 = f of it: for products that keep what comes before
// their activation.
NodePlan with_activation_behind(NodePlan plan, ActivationKind kind, const Planner& c);

}  // namespace assay::cpu
