// The arrays of a batch as programs read them: what the host gave, converted where it must be, and
// what is drawn.
#include "sdk/train/batch_arrays.h"

#include <algorithm>

#include "sdk/train/batch_check.h"

namespace assay::train {

BatchArrays::BatchArrays(std::vector<nn::InputSpec> inputs, int64_t rows, uint64_t seed)
    : inputs_(std::move(inputs)),
      rows_(rows),
      seed_(seed),
      made_(inputs_.size()),
      elements_(inputs_.size()),
      places_(inputs_.size()) {
  require(inputs_.size() <= kMostBatchTensors, Code::kUnsupported, "a batch of ", inputs_.size(),
          " tensors");
  const auto is_drawn = [](const nn::InputSpec& input) { return input.draw != nullptr; };
  const auto first_drawn = std::ranges::find_if(inputs_, is_drawn);
  given_ = static_cast<size_t>(first_drawn - inputs_.begin());
  require(std::all_of(first_drawn, inputs_.end(), is_drawn), Code::kInternal,
          "inputs that are drawn come last");
  const std::vector<size_t> sizes = bytes();
  // What is drawn has its place from the start; what is converted gets it when a batch needs it.
  for (size_t i = given_; i < inputs_.size(); ++i) made_[i].resize(sizes[i]);
}

std::vector<size_t> BatchArrays::bytes() const {
  std::vector<size_t> bytes;
  for (const nn::InputSpec& input : inputs_)
    bytes.push_back(static_cast<size_t>(rows_ * input.sample.numel()) * dtype_size(input.dtype));
  return bytes;
}

void BatchArrays::check(std::string_view architecture, std::span<const HostTensor> batch) const {
  check_batch(architecture, given(), batch, rows_);
}

int BatchArrays::filled_sixteenths(std::span<const HostTensor> batch) const {
  const auto counted = std::ranges::find_if(inputs_, &nn::InputSpec::counts_places);
  if (counted == inputs_.end()) return 16;
  const HostTensor& counts = batch[static_cast<size_t>(counted - inputs_.begin())];
  int64_t filled = 0;
  for (int64_t row = 0; row < rows_; ++row) {
    filled += counts.dtype == DType::kI64 ? static_cast<const int64_t*>(counts.data)[row]
                                          : static_cast<const int32_t*>(counts.data)[row];
  }
  const int64_t places = rows_ * (counted->range->high - 1);
  return static_cast<int>(std::max<int64_t>(1, (filled * 16 + places - 1) / places));
}

std::span<const void* const> BatchArrays::collect(std::span<const HostTensor> batch,
                                                  int64_t index) {
  for (size_t i = 0; i < given_; ++i) elements_[i] = elements_of(inputs_[i], batch[i], made_[i]);
  for (size_t i = given_; i < inputs_.size(); ++i) {
    inputs_[i].draw(seed_, index, rows_, made_[i].data());
    elements_[i] = made_[i].data();
  }
  return elements_;
}

std::span<void* const> BatchArrays::places_in(const Program& program) {
  for (size_t i = 0; i < inputs_.size(); ++i) places_[i] = program.input(inputs_[i].name).data;
  return places_;
}

void BatchArrays::write(Program& program, std::span<const HostTensor> batch, int64_t index) {
  const auto elements = collect(batch, index);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Program::Port& input = program.input(inputs_[i].name);
    program.backend().write(input.data, elements[i], input.type.bytes());
  }
}

}  // namespace assay::train
