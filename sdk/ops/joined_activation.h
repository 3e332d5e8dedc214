// The gradient of ops that end in an activation.
#pragma once

#include "sdk/graph/elementwise.h"
#include "sdk/graph/grad_ctx.h"

namespace assay {

// The gradient of what the activation is applied to, from dy and what the node keeps: y, or with
// keep_pre its second output.
inline ValueId gradient_before(GradCtx& c, ActivationKind kind, bool keep_pre = false) {
  if (kind == ActivationKind::kNone) return c.dy();
  const bool reads_output = gradient_reads_output(kind);
  require(reads_output || keep_pre, Code::kInternal, "the gradient of a joined activation reads ",
          "what it is applied to, which is not kept");
  return activation_grad(c, c.y(reads_output ? 0 : 1), c.dy(), kind);
}

}  // namespace assay
