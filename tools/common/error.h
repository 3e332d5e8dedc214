// The one exception of the tools, and the one table of their exit codes. Every failure carries the
// exit code of the process that it leads to, so that no caller has to guess.
#pragma once

#include <stdexcept>
#include <string>

namespace assay::tools {

// Process exit codes of all tools. Scripts depend on them.
enum class Exit : int {
  kOk = 0,         // done, and nothing below applies
  kDiffers = 1,    // the question has the answer "no": a required row DIFFERS (worse), files differ
  kUsage = 2,      // the command line, a recipe, or a value in them
  kUndecided = 3,  // a required row is INCONCLUSIVE or INVALID
  kNotRun = 4,     // nothing could be run here; --require: a required row has no verdict
  kCrashed = 5,    // the work failed: NaN, out of memory, disk full, no permission
  kDataMismatch = 6,   // files or data are missing, damaged, or not the ones that are meant
  kTampered = 7,       // the record of a run was changed
  kSourceChanged = 8,  // an expectation no longer equals its source cell
  kInterrupted = 75,   // stopped by a signal; the same command continues or begins again
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
// would fail again, so the failure is recorded as its result. Every other failure leaves the work
// as it is, to be continued once its cause is gone.
class Failed : public Error {
 public:
  explicit Failed(const std::string& message, std::string hint = {})
      : Error(Exit::kCrashed, message, std::move(hint)) {}
};
// Of these, a device that has too little memory: another one may have enough.
class TooLarge : public Failed {
 public:
  using Failed::Failed;
};

}  // namespace assay::tools
