// The parts of reports. Counts are doubles there: JSON's numbers are, for most readers.
#include "capi/src/report_parts.h"

namespace assay::capi {

void set_device(DeviceReport& target, const DeviceInfo& device) {
  target.set_kind(device.kind);
  target.set_index(device.index);
  target.set_name(device.name);
  target.set_driver(device.driver);
  // 0: not known of this device.
  if (device.threads > 0) target.set_threads(device.threads);
  if (device.memory_total > 0) target.set_mem_total(static_cast<double>(device.memory_total));
  if (device.memory_free > 0) target.set_mem_free(static_cast<double>(device.memory_free));
}

void set_shape(google::protobuf::RepeatedField<double>& target, std::span<const int64_t> sizes) {
  target.Clear();
  for (const int64_t size : sizes) target.Add(static_cast<double>(size));
}

void set_inputs(google::protobuf::RepeatedPtrField<InputRow>& rows,
                std::span<const nn::InputSpec> inputs) {
  for (const nn::InputSpec& input : inputs) {
    InputRow& row = *rows.Add();
    row.set_name(input.name);
    row.set_dtype(std::string(assay::to_text(input.dtype)));
    set_shape(*row.mutable_sample_shape(), input.sample.span());
    row.set_label(input.is_label);
    if (!input.range) continue;
    row.add_range(static_cast<double>(input.range->low));
    row.add_range(static_cast<double>(input.range->high));
    // The range ends before `high`.
    if (input.is_label && input.range->low == 0)
      row.set_classes(static_cast<double>(input.range->high));
  }
}

void add_passes(google::protobuf::RepeatedPtrField<PassRow>& rows, std::string_view program,
                std::span<const PassRecord> records) {
  for (const PassRecord& record : records) {
    PassRow& row = *rows.Add();
    row.set_program(std::string(program));
    row.set_name(record.name);
    row.set_changed(record.changed);
    row.set_seconds(record.seconds);
    row.set_nodes_after(static_cast<double>(record.nodes_after));
  }
}

void set_program_memory(MemoryPlan& target, const MemoryReport& program) {
  target.set_arena(static_cast<double>(program.arena_bytes));
  target.set_arena_unshared(static_cast<double>(program.separate_bytes));
  target.set_arena_floor(static_cast<double>(program.floor_bytes));
  target.set_inputs(static_cast<double>(program.input_bytes));
  target.set_constants(static_cast<double>(program.constant_bytes));
  target.set_total(target.weights() + target.statistics() + target.gradients() +
                   target.optimizer() + target.arena() + target.inputs() + target.constants());
}

void set_memory(MemoryPlan& target, const Segments& segments, const MemoryReport& program) {
  const auto of = [&](Role role) { return static_cast<double>(segments.bytes(role)); };
  target.set_weights(of(Role::kValue));
  target.set_statistics(of(Role::kStatistic));
  target.set_gradients(of(Role::kGradient));
  target.set_optimizer(of(Role::kMoment1) + of(Role::kMoment2) + of(Role::kEma) +
                       of(Role::kStatisticEma) + of(Role::kState));
  set_program_memory(target, program);
}

void add_profile(ProfileReport& target, Program& program, int repeats) {
  const Graph& graph = program.graph();
  target.set_repeats(repeats);
  double total = target.seconds();
  for (const assay::ProfileRow& timed : program.profile(repeats)) {
    auto& row = *target.add_rows();
    row.set_op(timed.op);
    row.set_scope(timed.scope);
    row.set_direction(std::string(assay::to_text(graph.node(timed.node).phase)));
    row.set_output(timed.output);
    row.set_kernel(timed.kernel);
    row.set_seconds(timed.seconds);
    row.set_flops(timed.flops);
    row.set_bytes(timed.bytes);
    total += timed.seconds;
  }
  target.set_seconds(total);
}

}  // namespace assay::capi
