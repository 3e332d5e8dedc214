#include "sdk/runtime/program.h"

#include <algorithm>

#include "sdk/base/expect.h"
#include "sdk/graph/text.h"

namespace assay {
namespace {

const Program::Slot& find_slot(const std::vector<Program::Slot>& slots, std::string_view name,
                               std::string_view kind) {
  for (const Program::Slot& slot : slots) {
    if (slot.name == name) return slot;
  }
  std::vector<std::string_view> known;
  for (const Program::Slot& slot : slots) known.push_back(slot.name);
  fail_unknown(cat("no ", kind, " is called"), kind, name, known);
}

}  // namespace

const Program::Slot& Program::input(std::string_view name) const {
  return find_slot(inputs_, name, "input");
}
const Program::Slot& Program::output(std::string_view name) const {
  return find_slot(outputs_, name, "output");
}

const Program::Slot* Program::find_output(std::string_view name) const {
  const auto slot = std::find_if(outputs_.begin(), outputs_.end(),
                                 [&](const Slot& candidate) { return candidate.name == name; });
  return slot == outputs_.end() ? nullptr : &*slot;
}

void Program::set_learning_rate(float value) {
  if (learning_rate_ != nullptr) backend_->write(learning_rate_, &value, sizeof value);
}

void Program::set_random_step(int64_t value) {
  if (random_step_ != nullptr) backend_->write(random_step_, &value, sizeof value);
}

std::vector<ProfileRow> Program::profile(int repeats) {
  std::vector<std::vector<double>> seconds(launched_.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto times = executable_->run_timed();
    for (size_t i = 0; i < times.size(); ++i) seconds[i].push_back(times[i].seconds);
  }
  std::vector<ProfileRow> rows;
  for (size_t i = 0; i < launched_.size(); ++i) {
    const Node& node = graph_.node(launched_[i]);
    const NodePlan& plan = plans_[launched_[i].index];
    std::nth_element(seconds[i].begin(), seconds[i].begin() + repeats / 2, seconds[i].end());
    rows.push_back({launched_[i], std::string(op_name(node.op)), node.scope, plan.kernel,
                    node.outputs.empty() ? "" : to_text(graph_.type(node.outputs[0])),
                    seconds[i][repeats / 2], plan.flops, plan.bytes});
  }
  return rows;
}

std::string Program::plan_text() const {
  std::string text;
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    text += node_text(graph_, id);
    for (const ValueId output : graph_.node(id).outputs) {
      if (arena_offset_[output.index] >= 0) text += cat(" @", arena_offset_[output.index]);
    }
    text += cat("  [", plans_[i].kernel, "]\n");
  }
  return text;
}

}  // namespace assay
