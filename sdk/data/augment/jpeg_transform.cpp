// JPEG images as samples: choose a window, decode what it needs of the file at the smallest scale
// that will do, resize row by row as rows are decoded, normalise by a table of levels.
#include "sdk/data/augment/jpeg_transform.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "sdk/base/expect.h"
#include "sdk/data/augment/crop.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/augment/pixel_levels.h"
#include "sdk/data/augment/resample.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"

namespace assay::data {
namespace {

constexpr int kMaxSize = 4096;

enum class Crop { kCentre, kRandom, kStretch };

// The configuration, checked and in the form the inner loops want.
struct Plan {
  int64_t classes = 0;
  Crop crop = Crop::kCentre;
  int size = 224, resize_shorter = 256, channels = 3;
  CropRange range;
  float flip = 0;
  bool reduced = false;
  bool raw = false;
  PixelLevels levels;
};

Key key(std::string_view path) { return {"image transform", path}; }

Crop crop_of(const JpegTransformConfig& config) {
  return config.crop == "centre"   ? Crop::kCentre
         : config.crop == "random" ? Crop::kRandom
                                   : Crop::kStretch;
}

CropRange range_of(const JpegTransformConfig& config) {
  const CropRange range{*config.min_area, *config.max_area, *config.min_aspect, *config.max_aspect};
  expect_number(key("min_area"), range.min_area, {0, range.max_area, true, false});
  expect_number(key("min_aspect"), range.min_aspect, {0, range.max_aspect, true, false});
  return range;
}

Plan make_plan(int64_t classes, const JpegTransformConfig& given) {
  require(
      !given.raw || (!given.scale && given.mean.empty() && given.stddev.empty() && !given.channels),
      Code::kInvalid,
      "image transform: scale, mean, stddev and channels belong to the trainer's raw_images "
      "where \"raw\" is true");
  const JpegTransformConfig config = with_config_defaults(given);
  check_config("image transform", "", config);
  Plan plan;
  plan.classes = classes;
  plan.crop = crop_of(config);
  plan.size = config.size;
  if (plan.crop == Crop::kCentre) {
    plan.resize_shorter = *config.resize_shorter;
    expect(plan.resize_shorter >= plan.size, key("resize_shorter"), plan.resize_shorter, plan.size,
           " to ", 4 * kMaxSize);
  }
  plan.channels = *config.channels;
  if (plan.crop == Crop::kRandom) plan.range = range_of(config);
  plan.flip = config.flip_horizontal;
  plan.reduced = *config.reduced_decoding;
  plan.raw = config.raw;
  plan.levels = pixel_levels(normalisation_of(config), 3, "image transform");
  return plan;
}

// A stretch of an image's axis, and the part of its resized form that the sample shows.
struct AxisView {
  int begin, length;       // of the source that is resized
  int size, first, count;  // of the resized axis: how long, and which part
};

struct View {
  AxisView rows, columns;
};

View choose_view(const Plan& plan, const JpegInfo& image, PhiloxStream& random) {
  const int size = plan.size;
  if (plan.crop == Crop::kCentre) {
    const ImageSize to = resize_shorter(image.height, image.width, plan.resize_shorter);
    return {{0, image.height, to.height, centre_offset(to.height, size), size},
            {0, image.width, to.width, centre_offset(to.width, size), size}};
  }
  Rectangle window{0, 0, image.height, image.width};
  if (plan.crop == Crop::kRandom) {
    window = random_resized_crop(image.height, image.width, plan.range, random);
  }
  return {{window.top, window.height, size, 0, size}, {window.left, window.width, size, 0, size}};
}

// The strongest reduction that leaves two source pixels for each of the result, so that the filter
// still does most of the smoothing.
int choose_eighths(const Plan& plan, const View& view) {
  if (!plan.reduced) return 8;
  const auto enough = [](const AxisView& axis, int eighths) {
    return int64_t{axis.length} * eighths >= int64_t{16} * axis.size;
  };
  for (const int eighths : {1, 2, 4}) {
    if (enough(view.rows, eighths) && enough(view.columns, eighths)) return eighths;
  }
  return 8;
}

// Plans the filter of an axis and returns the source samples it needs, counted in the image at
// `eighths` of its size. The window's own edges bound the filter: what lies outside is not seen.
std::pair<int, int> plan_axis(const AxisView& view, int eighths, ResampleAxis& axis) {
  const int low = view.begin * eighths / 8;
  const int high = scaled_jpeg_size(view.begin + view.length, eighths);
  axis.plan(view.begin * eighths / 8.0 - low, view.length * eighths / 8.0, high - low, view.size,
            view.first, view.count);
  return {low + axis.source_begin(), axis.source_end() - axis.source_begin()};
}

class JpegMaker : public SampleMaker {
 public:
  explicit JpegMaker(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  // Prepared form: the label as four bytes, then the file.
  void prepare(std::string_view record, std::string& prepared) override {
    parse_example(record, example_);
    const std::string& file = bytes_feature(example_, "jpeg");
    const int32_t label = label_of(example_, plan_->classes);
    prepared.assign(reinterpret_cast<const char*>(&label), sizeof label);
    prepared += file;
  }

  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    std::memcpy(arrays[1], prepared.data(), sizeof(int32_t));
    const JpegInfo info = decoder_.open(prepared.substr(sizeof(int32_t)));
    const View view = choose_view(*plan_, info, random);
    const bool flip = plan_->flip > 0 && random.bernoulli(plan_->flip);
    const uint8_t* pixels = resize(view);
    if (!plan_->raw) return normalise(pixels, flip, reinterpret_cast<float*>(arrays[0]));
    const int32_t placement[] = {0, 0, 0, flip};
    std::memcpy(arrays[2], placement, sizeof placement);
    auto* target = reinterpret_cast<uint8_t*>(arrays[0]);
    for (int i = 0; i < plan_->size * plan_->size; ++i, pixels += 4, target += 3)
      std::copy_n(pixels, 3, target);
  }

 private:
  // [size, size, 4] bytes.
  const uint8_t* resize(const View& view) {
    const int eighths = choose_eighths(*plan_, view);
    const auto [top, height] = plan_axis(view.rows, eighths, resampler_.rows);
    const auto [left, width] = plan_axis(view.columns, eighths, resampler_.columns);
    decoder_.start({top, left, height, width}, eighths);
    resampler_.restart();
    for (int y = 0; y < height; ++y) resampler_.add_row(decoder_.next_row());
    return resampler_.finish();
  }

  // [size, size, 4] bytes to [size, size, channels]; mirrored rows are written from their end.
  void normalise(const uint8_t* pixels, bool flip, float* image) const {
    const auto* level = plan_->levels.data();
    const int size = plan_->size, channels = plan_->channels;
    for (int y = 0; y < size; ++y, image += size * channels) {
      float* target = flip ? image + (size - 1) * channels : image;
      const int step = flip ? -channels : channels;
      for (int x = 0; x < size; ++x, pixels += 4, target += step) {
        for (size_t c = 0; c < 3; ++c) target[c] = level[c][pixels[c]];
        if (channels == 4) target[3] = 0;
      }
    }
  }

  std::shared_ptr<const Plan> plan_;
  Example example_;
  JpegDecoder decoder_;
  Resampler resampler_;
};

}  // namespace

void JpegTransformConfig::fields(ConfigFields& f) {
  constexpr Interval kArea{0, 1, true, false}, kAspect{0, kMaxF32, true, false};
  const CropRange usual;
  f("crop", crop, "which part of the image is seen")
      .one_of({"centre", "random", "stretch"})
      .selects();
  f("size", size, "of the sample, in each direction").in({1, kMaxSize, true});
  f("resize_shorter", resize_shorter, "what the shorter side becomes, at least size")
      .of({"centre"})
      .in({1, 4 * kMaxSize, true})
      .otherwise(256.0);
  f("min_area", min_area, "share of the image")
      .of({"random"})
      .in(kArea)
      .otherwise(double{usual.min_area});
  f("max_area", max_area, "share of the image")
      .of({"random"})
      .in(kArea)
      .otherwise(double{usual.max_area});
  f("min_aspect", min_aspect, "width / height")
      .of({"random"})
      .in(kAspect)
      .otherwise(double{usual.min_aspect});
  f("max_aspect", max_aspect, "width / height")
      .of({"random"})
      .in(kAspect)
      .otherwise(double{usual.max_aspect});
  f("flip_horizontal", flip_horizontal, "probability, drawn after the window").in({0, 1, true});
  f("scale", scale, "pixel p becomes (p * scale - mean) / stddev; 1/255 if not given");
  f("mean", mean, "one, or three; none is 0");
  f("stddev", stddev, "one, or three; none is 1");
  f("channels", channels, "4: zeros behind red, green and blue").in({3, 4, true}).otherwise(3.0);
  f("reduced_decoding", reduced_decoding,
    "decode large windows at a half, a quarter or an eighth: faster, a few grey levels off")
      .otherwise(crop == "random");
  f("raw", raw, "bytes and whether to mirror, which the trainer's raw_images finishes");
}

Transform make_jpeg_transform(int64_t classes, const JpegTransformConfig& config) {
  const auto plan = std::make_shared<const Plan>(make_plan(classes, config));
  Transform transform = labelled_transform({plan->size, plan->size, plan->channels}, plan->raw);
  transform.make_worker = [plan] { return std::make_unique<JpegMaker>(plan); };
  return transform;
}

}  // namespace assay::data
