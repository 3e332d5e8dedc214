// What the caller gave as a batch, against what a model takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sdk/graph/graph.h"
#include "sdk/nn/input.h"
#include "sdk/train/host_tensor.h"

namespace assay::train {

// Whether a tensor can stand for an input of this type: of the same, or i64 where i32 is wanted.
bool fits(const HostTensor& tensor, const ValueType& expected);

// kInvalid, naming the first number at fault, unless integers lie in the input's range or are its
// padding.
void check_range(const nn::InputSpec& spec, const HostTensor& tensor);

// The elements of a tensor that fits and is in range, in the input's own type: the tensor's, or
// copies in `made`.
const void* elements_of(const nn::InputSpec& spec, const HostTensor& tensor,
                        std::vector<std::byte>& made);

// kInvalid, naming the tensor or the number, unless `batch` has the tensors of `specs`, in order
// and of `rows` rows, each fitting and in range.
void check_batch(std::string_view architecture, std::span<const nn::InputSpec> specs,
                 std::span<const HostTensor> batch, int64_t rows);

}  // namespace assay::train
