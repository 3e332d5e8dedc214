// Elementwise functions: the code of Pointwise as arguments of its kernel, for nodes of their own
// and behind the products of others.
#pragma once

#include <vector>

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// Of tensors that are dense and like y [n].
kernels::PointwiseArgs pointwise_args(const PointwiseCode& code,
                                      const std::vector<Element>& elements, int64_t n);

// Puts `args` on a stream, of these tensors.
void run_pointwise(Stream stream, kernels::PointwiseArgs args, Element y_element,
                   std::initializer_list<const void*> x, void* y);

// `plan`, which writes output 1, and output 0 = f of it: for products that keep what comes before
// their activation.
NodePlan with_activation_behind(NodePlan plan, ActivationKind kind, const Planner& c);

}  // namespace assay::cuda
