// Double-buffered transfer of batches from host memory to program inputs: while one is computed on,
// the next is transferred. Images may be transferred as bytes and become numbers on the device.
//
// For one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sdk/base/dtype.h"

namespace assay {

// What a feed takes: the arrays of a batch, of fixed sizes.
struct FeedSpec {
  std::vector<size_t> array_bytes;
  // What a byte of each channel stands for; empty where no array holds images.
  std::vector<std::array<float, 256>> level;
};

// An array that a program reads as it is.
struct FeedCopy {
  size_t array = 0;
  void* target = nullptr;
};

// Where the pixels of one image come from: pixel (y, x) of the target is pixel (y' + dy, x' + dx)
// of the staged image, y' = height - 1 - y if mirror_y and else y, x' alike; byte 0 outside.
struct Placement {
  int32_t dy = 0, dx = 0, mirror_y = 0, mirror_x = 0;
};

// Mixup: row n becomes w[n] x[n] + (1 - w[n]) x[rows - 1 - n]. Labels become targets
// f32 [rows, classes], mixed alike from (1 - smoothing) onehot(label) + smoothing / classes.
struct FeedMix {
  size_t weights = 0, labels = 0;  // arrays: f32 [rows], i32 [rows]
  int64_t classes = 0;
  float smoothing = 0;
  void* targets = nullptr;
};

// Images u8 [rows, height, width, channels] become [rows, height, width, target_channels] of
// `dtype`: placed, looked up in FeedSpec::level, mixed, rounded to nearest even. Channels beyond
// those of the image are 0.
struct FeedImages {
  size_t pixels = 0, placements = 0;  // arrays; Placement [rows]
  int64_t rows = 0, height = 0, width = 0;
  int channels = 0, target_channels = 0;  // 1 to 4
  DType dtype = DType::kF32;              // or f16, bf16
  void* target = nullptr;
  const FeedMix* mix = nullptr;  // null: not mixed
};

class Feed {
 public:
  static constexpr size_t kMostStaged = 2;

  virtual ~Feed() = default;
  // Takes over one batch, FeedSpec::array_bytes of each array: on return the host's memory may
  // change again, and the transfer goes on beside running programs. kInvalid if kMostStaged wait.
  virtual void stage(std::span<const void* const> arrays) = 0;
  // Batches staged and not delivered.
  virtual size_t staged() const = 0;
  // Puts the oldest staged batch where programs read it, in order with them: those enqueued before
  // still see what was there, those enqueued later see the batch. `images` may be null.
  virtual void deliver(std::span<const FeedCopy> copies, const FeedImages* images) = 0;
  // Forgets what is staged.
  virtual void clear() = 0;
};

// The arithmetic of deliver, on the host: for backends whose memory the host can read, and as the
// reference for the others.
struct StagedImages {
  const uint8_t* pixels = nullptr;
  const Placement* placements = nullptr;
  const float* weights = nullptr;  // null: not mixed
};
void place_images(const FeedSpec& spec, const FeedImages& images, const StagedImages& staged,
                  void* target);
void mix_targets(std::span<const float> weights, const int32_t* labels, int64_t classes,
                 float smoothing, float* targets);

}  // namespace assay
