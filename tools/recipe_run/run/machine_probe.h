// The A/A probe of a CPU: the same small piece of work, timed before and after every measurement.
// If it takes longer one time than the other, so may everything else, and the machine is not fit to
// measure.
#pragma once

namespace reciperun {

// Seconds of one fixed matrix product and copy on one thread, the fastest of several in a fifth of
// a second: what the machine can do now, short interruptions left out.
double probe_seconds();

}  // namespace reciperun
