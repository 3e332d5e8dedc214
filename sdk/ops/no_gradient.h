// For ops that are not differentiable, or that only appear after differentiation.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

template <class T>
[[noreturn]] void no_gradient(const T&) {
  fail(Code::kUnsupported,
       cat(T::kName, " has no gradient: it may not stand between a trained variable and the loss"));
}

}  // namespace assay
