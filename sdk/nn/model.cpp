#include "sdk/nn/model.h"

#include "sdk/base/expect.h"

namespace assay::nn {

std::shared_ptr<const Model> Model::configured(const TrainingOptions& options) const {
  if (options.label_smoothing != 0) {
    fail_mismatch(Code::kUnsupported,
                  {"trainer: label_smoothing", "label_smoothing", cat(options.label_smoothing),
                   cat("0 with ", architecture())});
  }
  for (const auto& [key, value] : {std::pair{"sequence_length", options.sequence_length},
                                   std::pair{"prediction_slots", options.prediction_slots}})
    expect(!value, {"configuration", key}, value.value_or(0), "absent: ", architecture(),
           " reads no text");
  expect(options.packed_sixteenths == 0, {"trainer", "packed"}, "true", "absent: ", architecture(),
         " reads no text");
  expect(options.image_size.empty(), {"configuration", "image_size"}, options.image_size.size(),
         "absent: the images of ", architecture(), " have the size of its configuration");
  expect(options.suppression.empty(), {"configuration", "suppression"}, options.suppression,
         "absent: ", architecture(), " finds no objects");
  expect(options.mixup_alpha == 0, {"trainer", "mixup_alpha"}, options.mixup_alpha,
         "0: ", architecture(), " is no classifier of images");
  fail(Code::kInvalid, "trainer: raw_images is for classifiers of images of 1 to 4 channels");
}

}  // namespace assay::nn
