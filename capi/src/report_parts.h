// The parts that several reports share.
#pragma once

#include <span>
#include <string_view>

#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "sdk/nn/input.h"
#include "sdk/passes/pipeline.h"
#include "sdk/runtime/program.h"

namespace assay::capi {

void set_device(DeviceReport& target, const DeviceInfo& device);
void set_shape(google::protobuf::RepeatedField<double>& target, std::span<const int64_t> sizes);
void set_inputs(google::protobuf::RepeatedPtrField<InputRow>& rows,
                std::span<const nn::InputSpec> inputs);
// `program`: which one the passes made, "step".
void add_passes(google::protobuf::RepeatedPtrField<PassRow>& rows, std::string_view program,
                std::span<const PassRecord> records);
// The part that a program takes; `total` is the sum of what was set.
void set_program_memory(MemoryPlan& target, const MemoryReport& program);
void set_memory(MemoryPlan& target, const Segments& segments, const MemoryReport& program);
// Runs the program `repeats` times; the rows of several programs follow each other.
void add_profile(ProfileReport& target, Program& program, int repeats);

}  // namespace assay::capi
