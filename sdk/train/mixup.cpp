#include "sdk/train/mixup.h"

#include "sdk/backend/feed.h"
#include "sdk/base/hash.h"
#include "sdk/base/philox_beta.h"

namespace assay::train {

Mixup::Mixup(const MixupConfig& config, Backend& backend)
    : config_(config),
      weights_(static_cast<size_t>(config.batch)),
      targets_(static_cast<size_t>(config.batch * config.classes)),
      images_(backend.allocate_host(static_cast<size_t>(config.batch * config.image_size) *
                                    sizeof(float))) {}

void Mixup::draw(int64_t index) {
  const int64_t rows = config_.batch;
  const PhiloxKey key = philox_key(config_.seed, hash_name("mixup"));
  for (int64_t n = 0; n < rows; ++n) {
    PhiloxStream random(key, static_cast<uint64_t>(index), static_cast<uint32_t>(n));
    weights_[static_cast<size_t>(n)] = static_cast<float>(philox_beta(random, config_.alpha));
  }
}

void Mixup::mix(int64_t index, const float* images, const int32_t* labels) {
  draw(index);
  mix_targets(weights_, labels, config_.classes, static_cast<float>(config_.label_smoothing),
              targets_.data());
  const int64_t rows = config_.batch, size = config_.image_size;
  for (int64_t n = 0; n < rows; ++n) {
    const float w = weights_[static_cast<size_t>(n)];
    const float *own = images + n * size, *partner = images + (rows - 1 - n) * size;
    float* mixed = static_cast<float*>(images_->data()) + n * size;
    for (int64_t i = 0; i < size; ++i) mixed[i] = w * own[i] + (1 - w) * partner[i];
  }
}

}  // namespace assay::train
