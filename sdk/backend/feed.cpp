#include "sdk/backend/feed.h"

#include <algorithm>
#include <cstring>

#include "sdk/backend/backend.h"
#include "sdk/base/bfloat16.h"
#include "sdk/base/error.h"
#include "sdk/base/float16.h"

namespace assay {
namespace {

void store(DType dtype, void* target, int64_t i, float value) {
  switch (dtype) {
    case DType::kF16:
      static_cast<Float16*>(target)[i] = Float16(value);
      return;
    case DType::kBf16:
      static_cast<Bfloat16*>(target)[i] = Bfloat16(value);
      return;
    default:
      static_cast<float*>(target)[i] = value;
  }
}

// The byte behind one channel of a target pixel.
uint8_t byte_at(const FeedImages& images, const uint8_t* image, const Placement& p, int64_t y,
                int64_t x, int channel) {
  const int64_t from_y = (p.mirror_y != 0 ? images.height - 1 - y : y) + p.dy;
  const int64_t from_x = (p.mirror_x != 0 ? images.width - 1 - x : x) + p.dx;
  const bool inside = from_y >= 0 && from_y < images.height && from_x >= 0 && from_x < images.width;
  return inside ? image[(from_y * images.width + from_x) * images.channels + channel] : 0;
}

// Keeps batches in host memory and finishes them there.
class HostFeed : public Feed {
 public:
  HostFeed(Backend& backend, const FeedSpec& spec) : backend_(backend), spec_(spec) {
    for (auto& slot : slots_) {
      for (const size_t bytes : spec_.array_bytes) slot.emplace_back(bytes);
    }
  }

  void stage(std::span<const void* const> arrays) override {
    require(staged_ < kMostStaged, Code::kInvalid, "two batches wait already");
    auto& slot = slots_[next_++ % kMostStaged];
    for (size_t i = 0; i < slot.size(); ++i) std::memcpy(slot[i].data(), arrays[i], slot[i].size());
    ++staged_;
  }
  size_t staged() const override { return staged_; }

  void deliver(std::span<const FeedCopy> copies, const FeedImages* images) override {
    require(staged_ > 0, Code::kInvalid, "no batch waits");
    const auto& slot = slots_[(next_ - staged_) % kMostStaged];
    for (const FeedCopy& copy : copies)
      backend_.write(copy.target, slot[copy.array].data(), slot[copy.array].size());
    if (images != nullptr) deliver_images(slot, *images);
    --staged_;
  }
  void clear() override { staged_ = 0; }

 private:
  using Slot = std::vector<std::vector<std::byte>>;

  void deliver_images(const Slot& slot, const FeedImages& images) {
    const int64_t values = images.rows * images.height * images.width * images.target_channels;
    finished_.resize(static_cast<size_t>(values) * dtype_size(images.dtype));
    const auto array = [&](size_t i) -> const void* { return slot[i].data(); };
    const FeedMix* mix = images.mix;
    const auto* weights = mix == nullptr ? nullptr : static_cast<const float*>(array(mix->weights));
    place_images(spec_, images,
                 {static_cast<const uint8_t*>(array(images.pixels)),
                  static_cast<const Placement*>(array(images.placements)), weights},
                 finished_.data());
    backend_.write(images.target, finished_.data(), finished_.size());
    if (mix == nullptr) return;
    targets_.resize(static_cast<size_t>(images.rows * mix->classes));
    mix_targets({weights, static_cast<size_t>(images.rows)},
                static_cast<const int32_t*>(array(mix->labels)), mix->classes, mix->smoothing,
                targets_.data());
    backend_.write(mix->targets, targets_.data(), targets_.size() * sizeof(float));
  }

  Backend& backend_;
  FeedSpec spec_;
  std::array<Slot, kMostStaged> slots_;
  uint64_t next_ = 0;
  size_t staged_ = 0;
  std::vector<std::byte> finished_;
  std::vector<float> targets_;
};

}  // namespace

void place_images(const FeedSpec& spec, const FeedImages& images, const StagedImages& staged,
                  void* target) {
  const auto byte = [&](int64_t n, int64_t y, int64_t x, int c) {
    return byte_at(images, staged.pixels + n * images.height * images.width * images.channels,
                   staged.placements[n], y, x, c);
  };
  int64_t out = 0;
  for (int64_t n = 0; n < images.rows; ++n) {
    for (int64_t y = 0; y < images.height; ++y) {
      for (int64_t x = 0; x < images.width; ++x) {
        for (int c = 0; c < images.target_channels; ++c, ++out) {
          if (c >= images.channels) {
            store(images.dtype, target, out, 0);
            continue;
          }
          const auto& level = spec.level[static_cast<size_t>(c)];
          float value = level[byte(n, y, x, c)];
          if (staged.weights != nullptr) {
            const float w = staged.weights[n];
            value = w * value + (1 - w) * level[byte(images.rows - 1 - n, y, x, c)];
          }
          store(images.dtype, target, out, value);
        }
      }
    }
  }
}

void mix_targets(std::span<const float> weights, const int32_t* labels, int64_t classes,
                 float smoothing, float* targets) {
  const size_t rows = weights.size();
  const float kept = 1 - smoothing;
  std::fill_n(targets, static_cast<int64_t>(rows) * classes,
              smoothing / static_cast<float>(classes));
  for (size_t n = 0; n < rows; ++n, targets += classes) {
    targets[labels[n]] += weights[n] * kept;
    targets[labels[rows - 1 - n]] += (1 - weights[n]) * kept;
  }
}

std::unique_ptr<Feed> Backend::make_feed(const FeedSpec& spec) {
  return std::make_unique<HostFeed>(*this, spec);
}

}  // namespace assay
