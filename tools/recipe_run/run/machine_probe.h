// The A/A probe: the same small piece of work, timed before and after every measurement on what is
// measured. If it takes longer one time than the other, so may everything else, and the machine is
// not fit to measure.
#pragma once

#include <functional>

namespace reciperun {

// Seconds of the fastest of as many runs as fit into a fifth of a second: what can be done now,
// short interruptions left out.
double fastest(const std::function<void()>& work);

// Of a fixed matrix product and copy on one thread of this machine.
double probe_seconds();

}  // namespace reciperun
