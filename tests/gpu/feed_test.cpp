// Batches on their way to a device: the arithmetic of images against the transforms of the CPU's
// loader, to the bit, and the order of transfers, deliveries and programs.
#include <gtest/gtest.h>

#include <cstring>

#include "sdk/base/error.h"
#include "sdk/base/float16.h"
#include "sdk/base/philox.h"
#include "sdk/data/augment/image.h"
#include "sdk/train/mixup.h"
#include "tests/gpu/device_hooks.h"
#include "tests/harness/backend_under_test.h"

namespace assay {
namespace {

using test::make_backend_under_test;

struct ImageCase {
  int rows, height, width, channels, target_channels;
  bool mixed;
};
std::ostream& operator<<(std::ostream& out, const ImageCase& c) {
  return out << c.rows << "x" << c.height << "x" << c.width << "x" << c.channels << " to "
             << c.target_channels << (c.mixed ? ", mixed" : "");
}

// A batch of random bytes, placements as augmentation draws them, and labels.
struct RawBatch {
  std::vector<uint8_t> pixels;
  std::vector<Placement> placements;
  std::vector<int32_t> labels;
  std::vector<std::array<float, 256>> level;

  RawBatch(const ImageCase& c, uint64_t seed)
      : pixels(static_cast<size_t>(c.rows * c.height * c.width * c.channels)),
        placements(static_cast<size_t>(c.rows)),
        labels(static_cast<size_t>(c.rows)),
        level(static_cast<size_t>(c.channels)) {
    PhiloxStream random(7, seed);
    for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random.below(256));
    for (Placement& p : placements) {
      p.dy = static_cast<int32_t>(random.below(2 * static_cast<uint32_t>(c.height) + 3)) -
             c.height - 1;
      p.dx = static_cast<int32_t>(random.below(5)) - 2;
      p.mirror_y = static_cast<int32_t>(random.below(2));
      p.mirror_x = static_cast<int32_t>(random.below(2));
    }
    for (int32_t& label : labels) label = static_cast<int32_t>(random.below(10));
    for (auto& values : level) {
      for (size_t i = 0; i < 256; ++i)
        values[i] = (static_cast<float>(i) * (1.0f / 255.0f) - 0.45f) / random.uniform(0.2f, 0.3f);
    }
  }
};

// What the CPU's loader and trainer make of it: translate, flip, normalise, then mixup.
std::vector<float> by_the_loader(const ImageCase& c, const RawBatch& batch) {
  const data::ImageShape shape{c.height, c.width, c.channels};
  std::vector<float> images;
  std::vector<uint8_t> moved(static_cast<size_t>(shape.values()));
  for (int n = 0; n < c.rows; ++n) {
    const Placement& p = batch.placements[static_cast<size_t>(n)];
    data::translate<uint8_t>(batch.pixels.data() + n * shape.values(), shape, p.dy, p.dx, 0,
                             moved.data());
    if (p.mirror_x != 0) data::flip_horizontal(moved.data(), shape);
    if (p.mirror_y != 0) data::flip_vertical(moved.data(), shape);
    for (int i = 0; i < shape.pixels(); ++i) {
      for (int k = 0; k < c.target_channels; ++k) {
        const auto at = static_cast<size_t>(i * c.channels + k);
        images.push_back(k < c.channels ? batch.level[static_cast<size_t>(k)][moved[at]] : 0);
      }
    }
  }
  return images;
}

class ImageFeed : public testing::TestWithParam<ImageCase> {};

TEST_P(ImageFeed, MakesWhatTheLoaderMakes) {
  const ImageCase& c = GetParam();
  const auto backend = make_backend_under_test(1);
  const RawBatch batch(c, 1);
  const int64_t image_size = int64_t{c.height} * c.width * c.target_channels;
  train::Mixup mixup({.alpha = 0.4,
                      .label_smoothing = 0.1,
                      .seed = 5,
                      .batch = c.rows,
                      .classes = 10,
                      .image_size = image_size},
                     *backend);
  std::vector<float> expected = by_the_loader(c, batch);
  mixup.mix(3, expected.data(), batch.labels.data());
  if (c.mixed) expected.assign(mixup.images(), mixup.images() + c.rows * image_size);

  const FeedSpec spec{{batch.pixels.size(), batch.labels.size() * sizeof(int32_t),
                       batch.placements.size() * sizeof(Placement), mixup.weights().size_bytes()},
                      batch.level};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const auto feed = backend->make_feed(spec);
    const auto target = backend->allocate(expected.size() * dtype_size(dtype));
    const auto targets = backend->allocate(mixup.targets().size_bytes());
    const FeedMix mix{
        .weights = 3, .labels = 1, .classes = 10, .smoothing = 0.1f, .targets = targets->data()};
    const FeedImages images{.pixels = 0,
                            .placements = 2,
                            .rows = c.rows,
                            .height = c.height,
                            .width = c.width,
                            .channels = c.channels,
                            .target_channels = c.target_channels,
                            .dtype = dtype,
                            .target = target->data(),
                            .mix = c.mixed ? &mix : nullptr};
    const void* const arrays[] = {batch.pixels.data(), batch.labels.data(), batch.placements.data(),
                                  mixup.weights().data()};
    feed->stage(arrays);
    feed->deliver({}, &images);
    std::vector<std::byte> got(target->bytes()), rounded(target->bytes());
    backend->read(got.data(), target->data(), got.size());
    FeedImages placed = images;
    place_images(
        spec, placed,
        {batch.pixels.data(), batch.placements.data(), c.mixed ? mixup.weights().data() : nullptr},
        rounded.data());
    EXPECT_TRUE(got == rounded) << "as the host's arithmetic";
    if (dtype == DType::kF32) {
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0) << "as the loader";
    }
    if (!c.mixed) continue;
    std::vector<float> labels(mixup.targets().size());
    backend->read(labels.data(), targets->data(), targets->bytes());
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), mixup.targets().begin()));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ImageFeed,
                         testing::Values(ImageCase{1, 1, 1, 1, 1, false},
                                         ImageCase{3, 7, 5, 1, 1, true},
                                         ImageCase{4, 9, 8, 3, 3, false},
                                         ImageCase{5, 6, 11, 3, 4, true},
                                         ImageCase{2, 17, 19, 4, 4, false}));

// Many batches through two slots, the host's memory reused at once, and a reader between.
void keep_the_order() {
  const auto backend = make_backend_under_test(1);
  constexpr size_t kInts = 1500;
  const auto feed = backend->make_feed({{kInts * sizeof(int), sizeof(int)}, {}});
  const auto target = backend->allocate(kInts * sizeof(int)), second = backend->allocate(4);
  std::vector<int> host(kInts), got(kInts);
  const auto stage = [&](int value) {
    std::fill(host.begin(), host.end(), value);
    const int small = -value;
    const void* const arrays[] = {host.data(), &small};
    feed->stage(arrays);
    std::fill(host.begin(), host.end(), 999);
  };
  const FeedCopy copies[] = {{0, target->data()}, {1, second->data()}};
  stage(0);
  for (int i = 0; i < 7; ++i) {
    if (i < 6) stage(i + 1);
    feed->deliver(copies, nullptr);
    if (i % 2 == 1) continue;  // sometimes nobody waits in between
    int small = 0;
    backend->read(got.data(), target->data(), kInts * sizeof(int));
    backend->read(&small, second->data(), sizeof small);
    EXPECT_EQ(got, std::vector<int>(kInts, i));
    EXPECT_EQ(small, -i);
  }
  EXPECT_EQ(feed->staged(), 0u);
}

TEST(Feed, KeepsTheOrder) { test::under_every_schedule(keep_the_order); }

TEST(Feed, HoldsTwoBatches) {
  const auto backend = make_backend_under_test(1);
  const auto feed = backend->make_feed({{4}, {}});
  const int value = 1;
  const void* const arrays[] = {&value};
  EXPECT_THROW(feed->deliver({}, nullptr), Error);
  feed->stage(arrays);
  feed->stage(arrays);
  EXPECT_THROW(feed->stage(arrays), Error);
  feed->clear();
  feed->stage(arrays);
  EXPECT_EQ(feed->staged(), 1u);
}

}  // namespace
}  // namespace assay
