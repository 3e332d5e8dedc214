// How records become training samples, in two stages so that the first can be remembered:
//   prepare  record -> compact bytes; the same in every epoch, kept in memory when the set fits
//   finish   compact bytes -> arrays of one sample; draws the random augmentation
// For images of raw pixels, prepare parses and checks, and finish converts and augments. For JPEG,
// prepare keeps the compressed bytes, and finish decodes just the crop it needs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"
#include "sdk/base/philox.h"

namespace assay::data {

// One array of a sample. A batch holds it with a leading dimension for the samples.
struct ArraySpec {
  std::string name;  // "image", "label": the model's input names
  DType dtype = DType::kF32;
  Dims dims;  // of one sample: [H, W, C] for an image, [] for a label
  // Fills the rows without a sample of a padded batch. i32 arrays may take -1, the label that
  // evaluation does not count; other types take 0.
  int32_t pad = 0;

  size_t sample_bytes() const { return static_cast<size_t>(dims.numel()) * dtype_size(dtype); }
};

// The state of one worker thread: scratch memory. Fails with kFormat for a record that does not
// hold what the data set promises; the loader adds which one it was.
class SampleMaker {
 public:
  virtual ~SampleMaker() = default;
  // Replaces `prepared`, a function of the record alone.
  virtual void prepare(std::string_view record, std::string& prepared) = 0;
  // Writes array k to arrays[k], sample_bytes() each, aligned for its type. Must depend on nothing
  // but its arguments, or results would depend on the number of threads.
  virtual void finish(std::string_view prepared, PhiloxStream& random,
                      std::span<std::byte* const> arrays) = 0;
};

struct Transform {
  std::vector<ArraySpec> arrays;
  std::function<std::unique_ptr<SampleMaker>()> make_worker;
};

}  // namespace assay::data
