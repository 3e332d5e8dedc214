// Addresses of a program's values, binding its plans to them, profiles and the text of plans.
#include "sdk/runtime/program.h"

#include <algorithm>

#include "sdk/base/expect.h"
#include "sdk/graph/text.h"

namespace assay {
namespace {

const Program::Port& find_port(const std::vector<Program::Port>& ports, std::string_view name,
                               std::string_view kind) {
  for (const Program::Port& port : ports) {
    if (port.name == name) return port;
  }
  std::vector<std::string_view> known;
  known.reserve(ports.size());
  for (const Program::Port& port : ports) known.push_back(port.name);
  fail_unknown(cat("no ", kind, " is called"), kind, name, known);
}

}  // namespace

const Program::Port& Program::input(std::string_view name) const {
  return find_port(inputs_, name, "input");
}
const Program::Port& Program::output(std::string_view name) const {
  return find_port(outputs_, name, "output");
}

const Program::Port* Program::find_output(std::string_view name) const {
  const auto port = std::find_if(outputs_.begin(), outputs_.end(),
                                 [&](const Port& candidate) { return candidate.name == name; });
  return port == outputs_.end() ? nullptr : &*port;
}

void* Program::address(ValueId value) const {
  const auto root = static_cast<size_t>(root_[static_cast<size_t>(value.index)].index);
  const Value& v = graph_.value(value);
  auto* const memory = fixed_[root] != nullptr || arena_offset_[root] < 0
                           ? static_cast<std::byte*>(fixed_[root])
                           : static_cast<std::byte*>(arena_->data()) + arena_offset_[root];
  return memory + v.layout.offset * static_cast<int64_t>(dtype_size(v.type.dtype));
}

Launch Program::bind_node(int i, const std::function<Launch(const Binding&)>& form) const {
  const Node& node = graph_.nodes()[static_cast<size_t>(i)];
  std::vector<void*> inputs, outputs;
  for (const ValueId input : node.inputs) inputs.push_back(address(input));
  for (const ValueId output : node.outputs) outputs.push_back(address(output));
  const int64_t scratch = scratch_offset_[static_cast<size_t>(i)];
  return form({inputs, outputs,
               scratch < 0 ? nullptr : static_cast<std::byte*>(arena_->data()) + scratch,
               prepared_[static_cast<size_t>(i)], channel_});
}

void Program::bind_to(void* block) {
  Schedule launches(order_);
  launched_.clear();
  // A run may be cancelled before the first launch that changes memory which outlives it.
  size_t cancellable = 0;
  for (int i = 0; i < static_cast<int>(graph_.nodes().size()); ++i) {
    const Node& node = graph_.nodes()[static_cast<size_t>(i)];
    Launch launch = at_rest_[static_cast<size_t>(i)] ? nullptr : bind_node(i, plan({i}).bind);
    if (!launch) {
      launches.pass(i, node.queue);
      continue;
    }
    // A plain store may be repeated; one that accumulates would count twice.
    const auto* store = std::get_if<Store>(&node.op);
    const bool updates = is_update(node.op) && (store == nullptr || store->accumulate);
    if (cancellable == launches.size() && !updates) ++cancellable;
    launches.add(i, node.queue, std::move(launch));
    launched_.push_back({i});
  }
  executable_ = backend_->make_executable(launches.take(), cancellable);
  for (size_t i = 0; i < outputs_.size(); ++i)
    outputs_[i].data = address(graph_.outputs()[i].value);
  bound_ = block;
}

void Program::set_learning_rate(float value) {
  if (learning_rate_ != nullptr) backend_->write(learning_rate_, &value, sizeof value);
}

void Program::set_random_step(int64_t value) {
  if (random_step_ != nullptr) backend_->write(random_step_, &value, sizeof value);
}

std::vector<ProfileRow> Program::profile(int repeats) {
  bind();
  std::vector<std::vector<double>> seconds(launched_.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto times = executable_->run_timed();
    for (size_t i = 0; i < times.size(); ++i) seconds[i].push_back(times[i].seconds);
  }
  std::vector<ProfileRow> rows;
  for (size_t i = 0; i < launched_.size(); ++i) {
    const Node& node = graph_.node(launched_[i]);
    const NodePlan& plan = plans_[launched_[i].index];
    const NodeFacts& facts = facts_[launched_[i].index];
    // The median: what else runs on the machine disturbs single runs.
    std::nth_element(seconds[i].begin(), seconds[i].begin() + repeats / 2, seconds[i].end());
    rows.push_back({launched_[i], std::string(op_name(node.op)), node.scope, plan.kernel,
                    node.outputs.empty() ? "" : to_text(graph_.type(node.outputs[0])),
                    seconds[i][repeats / 2], facts.flops, facts.bytes});
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
