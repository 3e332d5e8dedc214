#include "sdk/train/mixup.h"

#include <algorithm>

#include "sdk/base/hash.h"
#include "sdk/base/philox_beta.h"

namespace assay::train {

Mixup::Mixup(const MixupConfig& config)
    : config_(config),
      weights_(static_cast<size_t>(config.batch)),
      images_(static_cast<size_t>(config.batch * config.image_size)),
      targets_(static_cast<size_t>(config.batch * config.classes)) {}

void Mixup::mix(int64_t index, const float* images, const int32_t* labels) {
  const int64_t rows = config_.batch, size = config_.image_size;
  const PhiloxKey key = philox_key(config_.seed, hash_name("mixup"));
  const auto smoothing = static_cast<float>(config_.label_smoothing);
  std::fill(targets_.begin(), targets_.end(), smoothing / static_cast<float>(config_.classes));
  for (int64_t n = 0; n < rows; ++n) {
    PhiloxStream random(key, static_cast<uint64_t>(index), static_cast<uint32_t>(n));
    const auto w = static_cast<float>(philox_beta(random, config_.alpha));
    const int64_t other = rows - 1 - n;
    weights_[static_cast<size_t>(n)] = w;
    float* target = targets_.data() + n * config_.classes;
    target[labels[n]] += w * (1 - smoothing);
    target[labels[other]] += (1 - w) * (1 - smoothing);
    const float *own = images + n * size, *partner = images + other * size;
    float* mixed = images_.data() + n * size;
    for (int64_t i = 0; i < size; ++i) mixed[i] = w * own[i] + (1 - w) * partner[i];
  }
}

}  // namespace assay::train
