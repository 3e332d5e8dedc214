#include "sdk/train/batch_check.h"

#include <algorithm>
#include <array>
#include <string>

#include "sdk/base/expect.h"

namespace assay::train {
namespace {

// [batch, sample...]; on the stack, for steps allocate nothing.
Dims batch_dims(int64_t batch, const Dims& sample) {
  std::array<int64_t, Dims::kMaxRank> sizes{batch};
  std::copy(sample.span().begin(), sample.span().end(), sizes.begin() + 1);
  return Dims(std::span<const int64_t>(sizes.data(), static_cast<size_t>(sample.rank()) + 1));
}

std::string tensor_count(size_t count) { return count == 1 ? "1 tensor" : cat(count, " tensors"); }

void check_labels(const HostTensor& tensor, const nn::InputSpec& spec, int32_t lowest) {
  const auto* labels = static_cast<const int32_t*>(tensor.data);
  for (int64_t i = 0; i < tensor.dims.numel(); ++i) {
    if (labels[i] < lowest || labels[i] >= spec.classes) [[unlikely]]
      fail_mismatch(Code::kInvalid, {cat(spec.name, "[", i, "]"), spec.name, cat(labels[i]),
                                     cat("a class in [0, ", spec.classes, ")")});
  }
}

int64_t labelled_rows(const HostTensor& tensor) {
  const auto* labels = static_cast<const int32_t*>(tensor.data);
  return std::count_if(labels, labels + tensor.dims.numel(),
                       [](int32_t label) { return label != kPaddingLabel; });
}

int64_t rows_with_target(const HostTensor& tensor) {
  const auto* target = static_cast<const float*>(tensor.data);
  const int64_t elems = tensor.dims.numel() / tensor.dims[0];
  int64_t rows = 0;
  for (int64_t row = 0; row < tensor.dims[0]; ++row, target += elems)
    rows += std::any_of(target, target + elems, [](float weight) { return weight != 0; });
  return rows;
}

}  // namespace

void check_batch(std::string_view architecture, std::span<const nn::InputSpec> specs,
                 std::span<const HostTensor> batch, int64_t batch_size, int32_t lowest_label) {
  if (batch.size() != specs.size()) [[unlikely]]
    fail_mismatch(Code::kInvalid,
                  {cat("a batch of ", architecture), "n", tensor_count(batch.size()),
                   cat(tensor_count(specs.size()), ": ", nn::names_of(specs))});
  for (size_t i = 0; i < specs.size(); ++i) {
    const nn::InputSpec& spec = specs[i];
    const ValueType expected{spec.dtype, batch_dims(batch_size, spec.sample)};
    const ValueType actual{batch[i].dtype, batch[i].dims};
    const bool missing = batch[i].data == nullptr && expected.bytes() > 0;
    if (actual != expected || missing) [[unlikely]]
      fail_mismatch(Code::kInvalid,
                    {cat("batch tensor ", i, " (", spec.name, ")"), spec.name,
                     missing ? "without data" : to_text(actual), to_text(expected)});
    if (spec.classes > 0) check_labels(batch[i], spec, lowest_label);
  }
}

int64_t counted_rows(std::span<const nn::InputSpec> specs, std::span<const HostTensor> batch) {
  int64_t rows = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].classes > 0) rows = labelled_rows(batch[i]);
    if (specs[i].dense_target) rows = rows_with_target(batch[i]);
  }
  return rows;
}

}  // namespace assay::train
