// A failure behind which nobody knows what the memory holds that outlives a run: some of the
// launches that change it were done.
#pragma once

#include "sdk/base/error.h"

namespace assay {

class InDoubt : public Error {
 public:
  explicit InDoubt(const Error& error) : Error(error) {}
};

}  // namespace assay
