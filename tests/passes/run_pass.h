// Text in, text out: for the tests of single passes.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sdk/graph/verify.h"
#include "tests/harness/graph_text.h"

namespace assay::test {

// A convolution, and what a normalisation of it takes.
inline const char* const kConvNorm =
    "%0 = input() {name=\"x\", dtype=f32, dims=[2,4,4,3]} : f32[2,4,4,3]\n"
    "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[3,1,1,3]} : f32[3,1,1,3]\n"
    "%2 = conv2d(%0, %1) {stride=[1,1], pad_begin=[0,0], pad_end=[0,0], dilation=[1,1], groups=1, "
    "has_bias=false, "
    "has_residual=false, activation=none, keep_pre=false, keep_sums=false} : f32[2,4,4,3]\n"
    "%3 = parameter() {name=\"g\", role=value, dtype=f32, dims=[3]} : f32[3]\n"
    "%4 = parameter() {name=\"b\", role=value, dtype=f32, dims=[3]} : f32[3]\n";
inline const char* const kTrainNorm =
    "%5, %6, %7 = batch_norm(%2, %3, %4) {epsilon=1e-05, activation=none, has_residual=false, "
    "has_sums=false, normalizes_residual=false, keep_mask=false} : "
    "f32[2,4,4,3], f32[3], f32[3]\n";

// The graph of the text behind the pass, which is expected to change it or to leave it alone.
inline std::string run(bool (*pass)(Graph&), const std::string& text, bool expect_change = true) {
  Graph g = parse_graph(text);
  EXPECT_EQ(pass(g), expect_change);
  g.sort();
  g.remove_dead_nodes();
  verify(g);
  return graph_text(g);
}

}  // namespace assay::test
