// Batches are checked whole before anything of them is copied: types and shapes, then every integer
// that a kernel would take as an index.
#include "sdk/train/batch_check.h"

#include <algorithm>
#include <array>
#include <string>

#include "sdk/base/expect.h"

namespace assay::train {
namespace {

// [rows, sample...]; on the stack, for steps allocate nothing.
Dims batch_dims(int64_t rows, const Dims& sample) {
  std::array<int64_t, Dims::kMaxRank> sizes{rows};
  std::copy(sample.span().begin(), sample.span().end(), sizes.begin() + 1);
  return Dims(std::span<const int64_t>(sizes.data(), static_cast<size_t>(sample.rank()) + 1));
}

std::string tensor_count(size_t count) { return count == 1 ? "1 tensor" : cat(count, " tensors"); }

template <class T>
void check_numbers(const nn::InputSpec& spec, const HostTensor& tensor) {
  const auto* numbers = static_cast<const T*>(tensor.data);
  for (int64_t i = 0; i < tensor.dims.numel(); ++i) {
    const int64_t value = numbers[i];
    if (value >= spec.range->low && value < spec.range->high) continue;
    if (value != spec.padding) [[unlikely]]
      fail_mismatch(Code::kInvalid, {cat(spec.name, "[", i, "]"), spec.name, cat(value),
                                     cat(spec.is_label ? "a class" : "a number", " in [",
                                         spec.range->low, ", ", spec.range->high, ")")});
  }
}

}  // namespace

bool fits(const HostTensor& tensor, const ValueType& expected) {
  if (tensor.dims != expected.dims) return false;
  return tensor.dtype == expected.dtype ||
         (tensor.dtype == DType::kI64 && expected.dtype == DType::kI32);
}

void check_range(const nn::InputSpec& spec, const HostTensor& tensor) {
  // Numbers beyond 32 bits have no place in an i32, whatever they stand for.
  const bool is_wide = tensor.dtype == DType::kI64;
  require(!is_wide || spec.range.has_value(), Code::kInvalid, spec.name,
          " is i64; give i32, as this input says no range");
  if (!spec.range) return;
  is_wide ? check_numbers<int64_t>(spec, tensor) : check_numbers<int32_t>(spec, tensor);
}

const void* elements_of(const nn::InputSpec& spec, const HostTensor& tensor,
                        std::vector<std::byte>& made) {
  if (tensor.dtype == spec.dtype) return tensor.data;
  const auto* wide = static_cast<const int64_t*>(tensor.data);
  made.resize(static_cast<size_t>(tensor.dims.numel()) * sizeof(int32_t));
  std::transform(wide, wide + tensor.dims.numel(), reinterpret_cast<int32_t*>(made.data()),
                 [](int64_t value) { return static_cast<int32_t>(value); });
  return made.data();
}

void check_batch(std::string_view architecture, std::span<const nn::InputSpec> specs,
                 std::span<const HostTensor> batch, int64_t rows) {
  if (batch.size() != specs.size()) [[unlikely]]
    fail_mismatch(Code::kInvalid,
                  {cat("a batch of ", architecture), "n", tensor_count(batch.size()),
                   cat(tensor_count(specs.size()), ": ", nn::names_of(specs))});
  for (size_t i = 0; i < specs.size(); ++i) {
    const nn::InputSpec& spec = specs[i];
    const ValueType expected{spec.dtype, batch_dims(rows, spec.sample)};
    const bool missing = batch[i].data == nullptr && expected.bytes() > 0;
    if (missing || !fits(batch[i], expected)) [[unlikely]]
      fail_mismatch(Code::kInvalid,
                    {cat("batch tensor ", i, " (", spec.name, ")"), spec.name,
                     missing ? "without data" : to_text(ValueType{batch[i].dtype, batch[i].dims}),
                     to_text(expected)});
    check_range(spec, batch[i]);
  }
}

}  // namespace assay::train
