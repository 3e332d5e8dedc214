#include "sdk/train/training_feed.h"

#include <algorithm>

#include "sdk/base/error.h"
#include "sdk/base/expect.h"
#include "sdk/data/augment/pixel_levels.h"

namespace assay::train {
namespace {

constexpr int64_t kMostChannels = 4;

int64_t raw_channels(const nn::InputSpec& image, const RawImages& raw) {
  return raw.channels() == 0 ? image.sample[2] : raw.channels();
}

data::PixelLevels levels(const RawImages& raw, int64_t channels) {
  return data::pixel_levels(data::normalisation_of(raw), static_cast<int>(channels), "trainer",
                            "raw_images.");
}

}  // namespace

void check_raw_images(const std::vector<nn::InputSpec>& inputs, const TrainerConfig& config) {
  if (!config.has_raw_images()) return;
  const bool classifier = inputs.size() == 2 && inputs[0].dtype == DType::kF32 &&
                          inputs[0].sample.rank() == 3 && inputs[1].classes > 0;
  require(classifier && inputs[0].sample[2] <= kMostChannels, Code::kInvalid,
          "trainer: raw_images is for classifiers of images of 1 to 4 channels");
  const int64_t channels = raw_channels(inputs[0], config.raw_images());
  expect(channels >= 1 && channels <= inputs[0].sample[2], {"trainer", "raw_images.channels"},
         channels, "1 to the image's ", inputs[0].sample[2]);
  levels(config.raw_images(), channels);
}

std::vector<nn::InputSpec> training_arrays(const std::vector<nn::InputSpec>& inputs,
                                           const TrainerConfig& config) {
  if (!config.has_raw_images()) return inputs;
  std::vector<nn::InputSpec> arrays = inputs;
  const Dims& image = inputs[0].sample;
  arrays[0].dtype = DType::kU8;
  arrays[0].sample = {image[0], image[1], raw_channels(inputs[0], config.raw_images())};
  arrays.push_back({.name = "placement", .dtype = DType::kI32, .sample = {4}});
  return arrays;
}

TrainingFeed::TrainingFeed(Backend& backend, const std::vector<nn::InputSpec>& inputs,
                           const TrainerConfig& config, Mixup* mixup)
    : inputs_(inputs), mixup_(mixup), raw_(config.has_raw_images()) {
  const int64_t rows = config.batch_size();
  for (const nn::InputSpec& array : training_arrays(inputs, config))
    spec_.array_bytes.push_back(static_cast<size_t>(rows * array.sample.numel()) *
                                dtype_size(array.dtype));
  if (mixup_ != nullptr && !raw_) spec_.array_bytes[1] = mixup_->targets().size_bytes();
  if (raw_) {
    const Dims& image = inputs[0].sample;
    const int64_t channels = raw_channels(inputs[0], config.raw_images());
    spec_.level = levels(config.raw_images(), channels);
    images_ = {.pixels = 0,
               .placements = 2,
               .rows = rows,
               .height = image[0],
               .width = image[1],
               .channels = static_cast<int>(channels),
               .target_channels = static_cast<int>(image[2])};
    if (mixup_ != nullptr) {
      spec_.array_bytes.push_back(mixup_->weights().size_bytes());
      mix_ = {.weights = 3,
              .labels = 1,
              .classes = inputs[1].classes,
              .smoothing = static_cast<float>(config.label_smoothing())};
    }
  }
  require(spec_.array_bytes.size() <= kMostArrays, Code::kUnsupported, "a batch of ",
          spec_.array_bytes.size(), " tensors");
  feed_ = backend.make_feed(spec_);
}

void TrainingFeed::stage(std::span<const HostTensor> batch, int64_t index) {
  std::array<const void*, kMostArrays> arrays{};
  for (size_t i = 0; i < batch.size(); ++i) arrays[i] = batch[i].data;
  if (mixup_ != nullptr && raw_) {
    mixup_->draw(index);
    arrays[batch.size()] = mixup_->weights().data();
  } else if (mixup_ != nullptr) {
    mixup_->mix(index, static_cast<const float*>(arrays[0]),
                static_cast<const int32_t*>(arrays[1]));
    arrays[0] = mixup_->images();
    arrays[1] = mixup_->targets().data();
  }
  feed_->stage({arrays.data(), spec_.array_bytes.size()});
}

void TrainingFeed::deliver(Program& program) {
  std::array<FeedCopy, kMostArrays> copies;
  size_t count = 0;
  for (size_t i = raw_ ? 1 : 0; i < inputs_.size(); ++i) {
    const bool mixed = mixup_ != nullptr && inputs_[i].classes > 0;
    if (mixed && raw_) continue;
    copies[count++] = {i, program.input(mixed ? "targets" : inputs_[i].name).data};
  }
  if (!raw_) return feed_->deliver({copies.data(), count}, nullptr);
  const Program::Slot& image = program.input(inputs_[0].name);
  images_.dtype = image.type.dtype;
  images_.target = image.data;
  images_.mix = nullptr;
  if (mixup_ != nullptr) {
    mix_.targets = program.input("targets").data;
    images_.mix = &mix_;
  }
  feed_->deliver({copies.data(), count}, &images_);
}

}  // namespace assay::train
