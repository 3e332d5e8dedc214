// The activation functions in f64, for the references of every op that has one as epilogue.
#pragma once

#include <vector>

#include "sdk/graph/ops.h"

namespace assay::test {

double activation_reference(ActivationKind kind, double x);

// f' from y, of the kinds that read y; 1 for kNone.
double derivative_reference(ActivationKind kind, double y);

// kNone and every function.
std::vector<ActivationKind> all_activations();

// Error of a backend's f32 approximation, in round-offs of the size of its argument or result.
double activation_ulps(ActivationKind kind);

}  // namespace assay::test
