#include "sdk/data/batch.h"

#include <array>
#include <cstring>

#include "sdk/base/align.h"
#include "sdk/base/expect.h"

namespace assay::data {

Batch::Batch(const std::vector<ArraySpec>& specs, int64_t rows) : rows_(rows) {
  size_t total = 0;
  std::vector<size_t> offsets;
  for (const ArraySpec& spec : specs) {
    offsets.push_back(total);
    const size_t bytes = spec.sample_bytes() * static_cast<size_t>(rows);
    total += align_up(bytes);
  }
  memory_.reset(std::aligned_alloc(kTensorAlignment, total + kTensorAlignment));
  require(memory_ != nullptr, Code::kOutOfHostMemory, "a batch of ", rows, " samples needs ", total,
          " bytes; lower the batch size or the prefetch depth");
  std::memset(memory_.get(), 0, total);
  for (size_t k = 0; k < specs.size(); ++k) {
    std::array<int64_t, Dims::kMaxRank + 1> sizes{rows};
    const auto inner = specs[k].dims.span();
    std::copy(inner.begin(), inner.end(), sizes.begin() + 1);
    arrays_.push_back({specs[k].name, specs[k].dtype,
                       Dims(std::span(sizes.data(), inner.size() + 1)),
                       specs[k].sample_bytes() * static_cast<size_t>(rows),
                       static_cast<std::byte*>(memory_.get()) + offsets[k]});
  }
}

const BatchArray& Batch::array(const std::string& name) const {
  std::vector<std::string_view> known;
  for (const BatchArray& array : arrays_) {
    if (array.name == name) return array;
    known.push_back(array.name);
  }
  fail_unknown("a batch has no array", "name", name, known);
}

}  // namespace assay::data
