// The leaves of a graph by variable and role. A variable has one leaf per role, however often it is
// used: autodiff then sums what its uses contribute, and a cast of it is made once. verify()
// refuses a second one.
#pragma once

#include <map>
#include <utility>

#include "sdk/graph/graph.h"

namespace assay {

// Valid as long as no pass renumbers the graph's values.
class Leaves {
 public:
  explicit Leaves(Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      if (const auto* p = std::get_if<Parameter>(&node.op))
        known_[{p->name, p->role}] = node.outputs[0];
    }
  }

  // Invalid if the graph has none.
  ValueId find(const std::string& name, Role role) const {
    const auto known = known_.find({name, role});
    return known == known_.end() ? ValueId{} : known->second;
  }
  // Emits the leaf if the graph has none: nobody read it yet, or passes removed it.
  ValueId leaf(const Variable& variable, Role role) {
    ValueId& value = known_[{variable.name, role}];
    if (!value.valid())
      value = graph_.emit1(Parameter{variable.name, role, variable.dtype, variable.dims}, {});
    return value;
  }
  // Whoever asks from now on gets `value`: the leaf's memory after an update in place.
  void advance(const Variable& variable, Role role, ValueId value) {
    known_[{variable.name, role}] = value;
  }

 private:
  Graph& graph_;
  std::map<std::pair<std::string, Role>, ValueId> known_;
};

}  // namespace assay
