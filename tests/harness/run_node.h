// Runs small graphs on the backend under test the way the runtime would, but with every tensor in
// memory of its own between guard bytes, and with poisoned outputs and scratch: a kernel that
// writes outside its tensors, changes an input, leaves an output unwritten or trusts its scratch is
// caught here.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay::test {

// A tensor on the host in f64, whatever its type on the device.
struct Tensor {
  Dims dims;
  std::vector<double> values;
};

using Bytes = std::vector<std::byte>;

// Conversions to and from device memory; encode rounds to nearest even.
Bytes encode(const Tensor& tensor, DType dtype);
Tensor decode(const Bytes& bytes, const ValueType& type);
// What is left of the numbers after a trip through `dtype`.
Tensor rounded(const Tensor& tensor, DType dtype);

struct RunOptions {
  int threads = 1;
  size_t misalign_elems = 0;  // tensors start this many elements past a 64-byte boundary
  int in_place = -1;          // bind this entry of NodePlan::in_place (single-node runs)
  bool prepare = false;       // let the plan prepare its input once (NodePlan::prepare)
  bool deterministic = true;  // off: kernels may be used that differ from run to run
  int repeats = 1;            // launches; inputs are written again and outputs poisoned before each
};

struct Feed {
  ValueId value;
  Bytes data;
};

struct RunResult {
  std::vector<Bytes> outputs;        // of the last repeat, in the order asked for
  bool repeats_equal = true;         // every repeat gave the same bits
  std::vector<std::string> damage;   // guard bytes or inputs that were overwritten, in words
  std::vector<std::string> kernels;  // NodePlan::kernel of each node run
  size_t n_in_place = 0;             // entries of NodePlan::in_place of the last node
  bool can_prepare = false;          // the last node's plan has something to prepare
};

// Computes `wanted` from `feeds`. Any value may be fed; only nodes between the two are planned and
// run. Values that alias share memory, so a fed value may be wanted after an update in place.
RunResult run_graph(const Graph& graph, const std::vector<Feed>& feeds,
                    const std::vector<ValueId>& wanted, const RunOptions& options = {});

// A graph of one `op` whose inputs are Input nodes of the given types.
struct OneNode {
  Graph graph;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};
OneNode make_node(const Op& op, const std::vector<ValueType>& inputs);

// make_node + run_graph: all outputs of one op on these inputs (one type per tensor).
RunResult run_node(const Op& op, const std::vector<Tensor>& inputs,
                   const std::vector<DType>& dtypes, const RunOptions& options = {});

}  // namespace assay::test
