// What the caller gave as a batch, against what a model takes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sdk/nn/builder.h"
#include "sdk/train/host_tensor.h"

namespace assay::train {

// The label of rows that evaluation leaves out.
inline constexpr int32_t kPaddingLabel = -1;

// kInvalid, naming the tensor or the label, unless `batch` has the tensors of `specs`, in order and
// of `batch_size` rows, and labels between `lowest_label` and the number of classes.
void check_batch(std::string_view architecture, std::span<const nn::InputSpec> specs,
                 std::span<const HostTensor> batch, int64_t batch_size, int32_t lowest_label);

// The rows of a checked batch that count: those without the padding label, or with a target that
// is not zero everywhere.
int64_t counted_rows(std::span<const nn::InputSpec> specs, std::span<const HostTensor> batch);

}  // namespace assay::train
