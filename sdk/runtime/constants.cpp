// Constants are told apart by what they compute: op, attributes and the numbers of their inputs, so
// that equal parts of different programs are one block.
#include "sdk/runtime/constants.h"

#include <algorithm>

namespace assay {

int64_t ConstantStore::Session::number_of(const std::string& expression) {
  return store_.numbers_.emplace(expression, store_.numbers_.size()).first->second;
}

std::shared_ptr<Memory> ConstantStore::Session::find(int64_t number) const {
  if (const auto made = made_.find(number); made != made_.end()) return made->second;
  const auto known = store_.blocks_.find(number);
  return known == store_.blocks_.end() ? nullptr : known->second.lock();
}

std::shared_ptr<Memory> ConstantStore::Session::make(int64_t number, Backend& backend,
                                                     size_t bytes) {
  std::shared_ptr<Memory> block = backend.allocate(bytes);
  made_[number] = block;
  return block;
}

// Only weakly held: the blocks belong to the programs.
void ConstantStore::Session::commit() {
  for (const auto& [number, block] : made_) store_.blocks_[number] = block;
  made_.clear();
  lock_.unlock();
}

uint64_t ConstantStore::bytes() {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [number, block] : blocks_) {
    if (const auto held = block.lock()) sum += held->bytes();
  }
  return sum;
}

ConstantNodes::ConstantNodes(const Graph& graph, ConstantStore::Session* session)
    : nodes_(graph.nodes().size(), false),
      numbers_(graph.values().size(), -1),
      repeated_(graph.nodes().size(), false) {
  if (session == nullptr) return;
  // A constant that lies in memory of something that is not one would be lost between runs: its
  // node runs each time, and with it what depends on it. Each round takes some out, so it ends.
  for (bool changed = true; changed;) {
    number_nodes(graph, *session);
    changed = false;
    for (size_t v = 0; v < numbers_.size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      if (!is_constant(value) || is_constant(graph.root(value))) continue;
      repeated_[static_cast<size_t>(graph.value(value).producer.index)] = changed = true;
    }
  }
}

void ConstantNodes::number_nodes(const Graph& graph, ConstantStore::Session& session) {
  std::fill(numbers_.begin(), numbers_.end(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = graph.nodes()[i];
    nodes_[i] = !repeated_[i] && !is_update(node.op) && !std::holds_alternative<Input>(node.op) &&
                !std::holds_alternative<StepScalar>(node.op) &&
                std::all_of(node.inputs.begin(), node.inputs.end(),
                            [&](ValueId input) { return is_constant(input); });
    if (!nodes_[i]) continue;
    std::string expression = cat(op_name(node.op), attributes_text(node.op));
    for (const ValueId input : node.inputs) expression += cat(" ", number(input));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      numbers_[static_cast<size_t>(node.outputs[k].index)] =
          session.number_of(cat(expression, " : ", k));
    }
  }
}

}  // namespace assay
