#include "sdk/graph/graph.h"

namespace assay {

void infer(const Add&, InferCtx& c) {
  c.require_inputs(2);
  c.require_data_type(0);
  c.require(c.x(0) == c.x(1), "operands are ", c.x(0), " and ", c.x(1));
  c.y(c.x(0));
}

void grad(const Add&, GradCtx& c) {
  c.dx(0, c.dy());
  c.dx(1, c.dy());
}

}  // namespace assay
