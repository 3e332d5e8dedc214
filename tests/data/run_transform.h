// One record through a transform, as a loader's worker does it.
#pragma once

#include <string>
#include <vector>

#include "sdk/base/philox.h"
#include "sdk/data/transform.h"

namespace assay::test {

struct Sample {
  std::vector<float> image;
  int32_t label = -7;
};

inline Sample run(const data::Transform& transform, const std::string& record,
                  uint64_t sample = 0) {
  const auto maker = transform.make_worker();
  Sample result;
  result.image.resize(static_cast<size_t>(transform.arrays[0].dims.numel()));
  std::string prepared;
  maker->prepare(record, prepared);
  std::byte* rows[] = {reinterpret_cast<std::byte*>(result.image.data()),
                       reinterpret_cast<std::byte*>(&result.label)};
  PhiloxStream random(1, 2, sample);
  maker->finish(prepared, random, rows);
  return result;
}

}  // namespace assay::test
