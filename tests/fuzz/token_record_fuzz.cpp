// Any bytes as a record of text: refused with an Error, or made into numbers that index what they
// are meant for.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/text/token_records.h"

namespace {

using namespace assay::data;

constexpr TokenShape kShape{.length = 24, .slots = 5, .vocabulary = 32, .padding = 0};

// The range of an array's numbers.
struct Range {
  int32_t low, high;
};
Range range_of(const std::string& name) {
  if (name == "input_ids") return {0, 31};
  if (name == "segment_ids") return {0, 1};
  if (name == "length") return {1, 24};
  if (name == "masked_lm_ids") return {-1, 31};
  if (name == "next_sentence_labels" || name == "is_impossible") return {-1, 1};
  if (name == "masked_lm_positions") return {0, 23};
  return {-1, 23};  // of answers
}

void check(const Transform& transform, std::string_view record) {
  const auto maker = transform.make_worker();
  std::string prepared;
  std::vector<std::vector<int32_t>> arrays;
  std::vector<std::byte*> rows;
  for (const ArraySpec& array : transform.arrays) {
    auto& values = arrays.emplace_back(static_cast<size_t>(array.dims.numel()));
    rows.push_back(reinterpret_cast<std::byte*>(values.data()));
  }
  try {
    maker->prepare(record, prepared);
  } catch (const assay::Error&) {
    return;
  }
  assay::PhiloxStream random(1, 2);
  maker->finish(prepared, random, rows);
  for (size_t k = 0; k < arrays.size(); ++k) {
    const Range range = range_of(transform.arrays[k].name);
    for (const int32_t value : arrays[k])
      if (value < range.low || value > range.high) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Transform kTransforms[] = {make_token_transform(TokenRecords::kSequences, kShape),
                                          make_token_transform(TokenRecords::kMaskedPairs, kShape),
                                          make_token_transform(TokenRecords::kWindows, kShape)};
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  for (const Transform& transform : kTransforms) check(transform, record);
  return 0;
}
