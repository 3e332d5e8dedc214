// The one exception type of recipe-run. Every failure carries the exit code of the process it leads
// to, so that no caller has to guess; the engine's own errors arrive here through the trainer
// driver.
#pragma once

#include <stdexcept>
#include <string>

namespace reciperun {

// Process exit codes. Frozen: scripts and CI depend on them.
enum class Exit : int {
  kOk = 0,             // no gate row (recipe.proto) asks for another code
  kDiffers = 1,        // a gate row DIFFERS (worse)
  kUsage = 2,          // usage, schema or composition error
  kUndecided = 3,      // a gate row INCONCLUSIVE, or INVALID by noise
  kNotRun = 4,         // nothing could be run; --require: a gate row NOT RUN or NOT COMPARABLE
  kCrashed = 5,        // training or bench failed, NaN, out of memory, disk full
  kDataMismatch = 6,   // the data are not the ones the recipe names
  kTampered = 7,       // a record's digest or hash chain does not fit
  kSourceChanged = 8,  // an expectation no longer equals its source cell
  kInterrupted = 75,   // stopped by a signal; the same command continues
};

// Of two codes that both apply, the one to exit with. Order: 2, 8, 6, 7, 5, 75, 1, 3, 4, 0.
Exit more_urgent(Exit a, Exit b);

class Error : public std::runtime_error {
 public:
  // `message` is one line: what was being done, what was found, what was expected. `hint` says what
  // to do; may be empty.
  Error(Exit code, const std::string& message, std::string hint = {})
      : std::runtime_error(message), exit_(code), hint_(std::move(hint)) {}
  Exit exit_code() const noexcept { return exit_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  Exit exit_;
  std::string hint_;
};

// The training or measurement itself came to nothing (NaN loss, a model too large): doing it again
// would fail again, so the failure is recorded as its result. Every other failure leaves the run
// as it is, to be continued once its cause is gone.
class Failed : public Error {
 public:
  explicit Failed(const std::string& message, std::string hint = {})
      : Error(Exit::kCrashed, message, std::move(hint)) {}
};

}  // namespace reciperun
