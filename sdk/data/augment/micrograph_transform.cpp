// Micrographs and masks as samples: resized and framed once (prepare), then mirrored, cut and
// brightened (finish), in f32 and in the order of TensorFlow's operations.
#include "sdk/data/augment/micrograph_transform.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "sdk/base/expect.h"
#include "sdk/data/augment/bilinear.h"
#include "sdk/data/augment/image.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

constexpr int kMaxSide = 16384, kClasses = 2;

// The configuration, checked and in the form the inner loops want.
struct Plan {
  std::array<float, 256> level;  // of a pixel
  int size, padded, frame;       // frame: zeros before the first row and column
  float flip_horizontal, flip_vertical, max_cut, max_brightness;
  bool clips;
  float clip_low, clip_high;

  ImageShape shape() const { return {padded, padded, 1}; }
  size_t pixels() const { return static_cast<size_t>(padded) * static_cast<size_t>(padded); }
  bool random() const {
    return flip_horizontal > 0 || flip_vertical > 0 || max_cut > 0 || max_brightness > 0;
  }
};

Key key(std::string_view path) { return {"micrograph transform", path}; }

Plan make_plan(const MicrographTransformConfig& config) {
  check_config("micrograph transform", "", config);
  expect(config.size <= config.padded, key("size"), config.size, "1 to ", config.padded);
  expect((config.padded - config.size) % 2 == 0, key("padded"), config.padded,
         "an even number more than size (", config.size, "), for equal frames");
  const std::vector<float>& clip = config.clip;
  expect(clip.empty() || (clip.size() == 2 && clip[0] < clip[1]), key("clip"),
         cat("a list of ", clip.size()), "[low, high] with low < high");
  Plan plan{};
  for (size_t value = 0; value < plan.level.size(); ++value)
    plan.level[value] =
        static_cast<float>(static_cast<double>(value) * config.scale + config.offset);
  plan.size = config.size;
  plan.padded = config.padded;
  plan.frame = (plan.padded - plan.size) / 2;
  plan.flip_horizontal = config.flip_horizontal;
  plan.flip_vertical = config.flip_vertical;
  plan.max_cut = config.max_cut;
  plan.max_brightness = config.max_brightness;
  plan.clips = !clip.empty();
  if (plan.clips) plan.clip_low = clip[0], plan.clip_high = clip[1];
  return plan;
}

// A record, checked.
struct Micrograph {
  int height, width;
  const std::string* image;
  const std::string* mask;  // null if there is none
};

Micrograph read_record(std::string_view record, Example& example) {
  parse_example(record, example);
  const int64_t height = int64_feature(example, "height"), width = int64_feature(example, "width");
  require(height > 0 && height <= kMaxSide && width > 0 && width <= kMaxSide, Code::kFormat,
          "the image is ", height, " x ", width, " pixels");
  const auto plane = [&](const std::string& name) {
    const std::string& bytes = bytes_feature(example, name);
    require(bytes.size() == static_cast<size_t>(height * width), Code::kFormat, "feature \"", name,
            "\" holds ", bytes.size(), " bytes, expected ", height * width);
    return &bytes;
  };
  Micrograph out{static_cast<int>(height), static_cast<int>(width), plane("image"), nullptr};
  if (!has_feature(example, "mask")) return out;
  out.mask = plane("mask");
  const auto wrong = std::find_if(out.mask->begin(), out.mask->end(), [](char pixel) {
    return static_cast<uint8_t>(pixel) != 0 && static_cast<uint8_t>(pixel) != 255;
  });
  require(wrong == out.mask->end(), Code::kFormat, "the mask holds other values than 0 and 255");
  return out;
}

// Prepared samples are the padded image as f32, then the padded classes as bytes (0, 1), then one
// byte that says whether there was a mask.
class MicrographMaker : public SampleMaker {
 public:
  explicit MicrographMaker(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {
    if (plan_->random()) image_.resize(plan_->pixels()), classes_.resize(plan_->pixels());
  }

  void prepare(std::string_view record, std::string& prepared) override {
    const Plan& plan = *plan_;
    const Micrograph from = read_record(record, example_);
    legacy_resize_axis(from.height, plan.size, 0, plan.size, rows_);
    legacy_resize_axis(from.width, plan.size, 0, plan.size, columns_);
    std::vector<float> image(plan.pixels());
    std::string classes(plan.pixels() + 1, '\0');
    const auto* pixels = reinterpret_cast<const uint8_t*>(from.image->data());
    const auto* mask =
        from.mask == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(from.mask->data());
    const auto level = [&](uint8_t pixel) { return plan.level[pixel]; };
    const auto share = [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; };
    for (int y = 0; y < plan.size; ++y) {
      const int first = (y + plan.frame) * plan.padded + plan.frame;
      const auto row = static_cast<size_t>(first);
      for (int x = 0; x < plan.size; ++x) {
        const auto &at_y = rows_[static_cast<size_t>(y)], &at_x = columns_[static_cast<size_t>(x)];
        const size_t to = row + static_cast<size_t>(x);
        image[to] = sample_bilinear(pixels, from.width, at_y, at_x, level);
        if (mask != nullptr)
          classes[to] = sample_bilinear(mask, from.width, at_y, at_x, share) < 0.5f ? 0 : 1;
      }
    }
    classes.back() = mask != nullptr;
    prepared.assign(reinterpret_cast<const char*>(image.data()), image.size() * sizeof(float));
    prepared.append(classes);
  }

  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    const Plan& plan = *plan_;
    const auto* image = reinterpret_cast<const float*>(prepared.data());
    const auto* classes =
        reinterpret_cast<const uint8_t*>(prepared.data() + plan.pixels() * sizeof(float));
    auto* out = reinterpret_cast<float*>(arrays[0]);
    auto* target = reinterpret_cast<float*>(arrays[1]);
    if (plan.random()) {
      flip(image, classes, random);
      image = image_.data(), classes = classes_.data();
    }
    choose_box(random);
    resample(image, out);
    if (prepared.back() != 0) {
      resample_target(classes, target);
    } else {
      std::fill_n(target, plan.size * plan.size * kClasses, 0.0f);
    }
    if (plan.max_brightness > 0) {
      const float delta = random.uniform(-plan.max_brightness, plan.max_brightness);
      for (size_t i = 0; i < plan.pixels(); ++i) out[i] += delta;
    }
    if (plan.clips) {
      for (size_t i = 0; i < plan.pixels(); ++i)
        out[i] = std::clamp(out[i], plan.clip_low, plan.clip_high);
    }
  }

 private:
  void flip(const float* image, const uint8_t* classes, PhiloxStream& random) {
    const Plan& plan = *plan_;
    std::copy_n(image, plan.pixels(), image_.data());
    std::copy_n(classes, plan.pixels(), classes_.data());
    if (random.bernoulli(plan.flip_horizontal)) {
      flip_horizontal(image_.data(), plan.shape());
      flip_horizontal(classes_.data(), plan.shape());
    }
    if (random.bernoulli(plan.flip_vertical)) {
      flip_vertical(image_.data(), plan.shape());
      flip_vertical(classes_.data(), plan.shape());
    }
  }

  // Draws left, right, top, bottom: each side moves in by a share of its own.
  void choose_box(PhiloxStream& random) {
    const Plan& plan = *plan_;
    float left = 0, right = 1, top = 0, bottom = 1;
    if (plan.max_cut > 0) {
      left = plan.max_cut * random.uniform();
      right = 1.0f - plan.max_cut * random.uniform();
      top = plan.max_cut * random.uniform();
      bottom = 1.0f - plan.max_cut * random.uniform();
    }
    crop_resize_axis(plan.padded, top, bottom, plan.padded, rows_);
    crop_resize_axis(plan.padded, left, right, plan.padded, columns_);
  }

  void resample(const float* image, float* out) const {
    const auto same = [](float pixel) { return pixel; };
    for (const AxisSample& y : rows_) {
      for (const AxisSample& x : columns_)
        *out++ = sample_bilinear(image, plan_->padded, y, x, same);
    }
  }

  // Only the middle has targets: a network without padding says nothing of the frame.
  void resample_target(const uint8_t* classes, float* target) const {
    const auto first = static_cast<size_t>(plan_->frame);
    const size_t end = first + static_cast<size_t>(plan_->size);
    for (size_t y = first; y < end; ++y) {
      for (size_t x = first; x < end; ++x) {
        for (const float share : target_between(classes, plan_->padded, rows_[y], columns_[x]))
          *target++ = share;
      }
    }
  }

  std::shared_ptr<const Plan> plan_;
  Example example_;
  std::vector<float> image_;
  std::vector<uint8_t> classes_;
  std::vector<AxisSample> rows_, columns_;
};

}  // namespace

void MicrographTransformConfig::fields(ConfigFields& f) {
  constexpr Interval kProbability{0, 1, true};
  f("scale", scale, "factor of a pixel");
  f("offset", offset, "added then");
  f("size", size, "of image and mask after resizing").in({1, kMaxSide, true});
  f("padded", padded, "with zeros around, an even number more than size").in({2, kMaxSide, true});
  f("flip_horizontal", flip_horizontal, "probability").in(kProbability);
  f("flip_vertical", flip_vertical, "probability").in(kProbability);
  f("max_cut", max_cut, "each side moves in by up to this share; the rest is resized")
      .in({0, 0.499, true});
  f("max_brightness", max_brightness, "one number from its negative to it is added to the image")
      .in({0, 1e6, true});
  f("clip", clip, "[low, high] of the image afterwards; none: as it is");
}

std::array<float, 2> target_between(const uint8_t* classes, int columns, const AxisSample& y,
                                    const AxisSample& x) {
  const auto is_black = [](uint8_t c) { return c == 0 ? 1.0f : 0.0f; };
  const auto is_white = [](uint8_t c) { return c == 0 ? 0.0f : 1.0f; };
  const float black = sample_bilinear(classes, columns, y, x, is_black);
  const float white = sample_bilinear(classes, columns, y, x, is_white);
  return {black < 0.5f ? 0.0f : 1.0f, white < 0.5f ? 0.0f : 1.0f};
}

Transform make_micrograph_transform(const MicrographTransformConfig& config) {
  const auto plan = std::make_shared<const Plan>(make_plan(config));
  Transform transform;
  transform.arrays = {{"image", DType::kF32, Dims{plan->padded, plan->padded, 1}, 0},
                      {"target", DType::kF32, Dims{plan->size, plan->size, kClasses}, 0}};
  transform.make_worker = [plan] { return std::make_unique<MicrographMaker>(plan); };
  return transform;
}

}  // namespace assay::data
