// Raw-pixel images as samples: parsed once (prepare), then shifted, mirrored, turned, normalised by
// a table of 256 levels per channel, and erased in part (finish).
#include "sdk/data/augment/image_transform.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/data/augment/pixel_levels.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

// The configuration, checked and in the form the inner loops want.
struct Plan {
  LabelledImages images;
  int crop_padding;
  bool raw;
  float flip_horizontal, flip_vertical, rotation_degrees;
  PixelLevels levels;
  float erasing_probability, erasing_value;
  ErasingRange erasing;
};

Key key(std::string_view path) { return {"image transform", path}; }

ErasingRange erasing_range(const ImageTransformConfig& config) {
  const ErasingRange range{config.erasing_min_area, config.erasing_max_area,
                           config.erasing_min_aspect, config.erasing_max_aspect};
  expect_number(key("erasing_min_area"), range.min_area, {0, range.max_area, true, false});
  expect_number(key("erasing_min_aspect"), range.min_aspect, {0, range.max_aspect, true, false});
  return range;
}

Plan make_plan(const LabelledImages& images, const ImageTransformConfig& config) {
  check_config("image transform", "", config);
  const ImageShape& shape = images.shape;
  const int side = std::max(shape.height, shape.width);
  expect(config.crop_padding <= side, key("crop_padding"), config.crop_padding, "0 to ", side,
         ", the size of the image");
  require(!config.raw || (config.rotation_degrees == 0 && config.erasing_probability == 0 &&
                          !config.scale && config.mean.empty() && config.stddev.empty()),
          Code::kInvalid,
          "image transform: no rotation and no erasing where \"raw\" is true; scale, mean and "
          "stddev belong to the trainer's raw_images");
  return {.images = images,
          .crop_padding = config.crop_padding,
          .raw = config.raw,
          .flip_horizontal = config.flip_horizontal,
          .flip_vertical = config.flip_vertical,
          .rotation_degrees = config.rotation_degrees,
          .levels = pixel_levels(normalisation_of(config), shape.channels, "image transform"),
          .erasing_probability = config.erasing_probability,
          .erasing_value = config.erasing_value,
          .erasing = erasing_range(config)};
}

class ImageMaker : public SampleMaker {
 public:
  explicit ImageMaker(std::shared_ptr<const Plan> plan)
      : plan_(std::move(plan)),
        pixels_(static_cast<size_t>(plan_->images.shape.values())),
        moved_(pixels_.size()) {}

  // Prepared form: the pixels, then the label as four bytes.
  void prepare(std::string_view record, std::string& prepared) override {
    const ImageShape& shape = plan_->images.shape;
    parse_example(record, example_);
    require_size("height", shape.height);
    require_size("width", shape.width);
    require_size("channels", shape.channels);
    const std::string& pixels = bytes_feature(example_, "image");
    require(pixels.size() == pixels_.size(), Code::kFormat, "feature \"image\" holds ",
            pixels.size(), " bytes, expected ", pixels_.size());
    const int32_t label = label_of(example_, plan_->images.classes);
    prepared.assign(pixels);
    prepared.append(reinterpret_cast<const char*>(&label), sizeof label);
  }

  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    if (plan_->raw) return leave_raw(prepared, random, arrays);
    auto* image = reinterpret_cast<float*>(arrays[0]);
    const size_t values = pixels_.size();
    const uint8_t* pixels = augment(reinterpret_cast<const uint8_t*>(prepared.data()), random);
    apply_levels(plan_->levels, pixels, values, image);
    const ImageShape& shape = plan_->images.shape;
    if (plan_->erasing_probability > 0 && random.bernoulli(plan_->erasing_probability)) {
      fill_rectangle(image, shape, random_rectangle(shape, plan_->erasing, random),
                     plan_->erasing_value);
    }
    std::memcpy(arrays[1], prepared.data() + values, sizeof(int32_t));
  }

 private:
  // Draws as augment does, and leaves it to the trainer to do it.
  void leave_raw(std::string_view prepared, PhiloxStream& random,
                 std::span<std::byte* const> arrays) const {
    const Plan& plan = *plan_;
    int32_t placement[4] = {};
    if (plan.crop_padding > 0) {
      placement[0] = random_offset(plan.crop_padding, random);
      placement[1] = random_offset(plan.crop_padding, random);
    }
    placement[3] = plan.flip_horizontal > 0 && random.bernoulli(plan.flip_horizontal);
    placement[2] = plan.flip_vertical > 0 && random.bernoulli(plan.flip_vertical);
    std::memcpy(arrays[0], prepared.data(), pixels_.size());
    std::memcpy(arrays[1], prepared.data() + pixels_.size(), sizeof(int32_t));
    std::memcpy(arrays[2], placement, sizeof placement);
  }

  void require_size(const std::string& name, int expected) const {
    const int64_t found = int64_feature(example_, name);
    require(found == expected, Code::kFormat, "feature \"", name, "\" is ", found, ", expected ",
            expected);
  }

  // The pixels after the random steps; the prepared ones themselves where nothing was asked for.
  const uint8_t* augment(const uint8_t* source, PhiloxStream& random) {
    const Plan& plan = *plan_;
    const ImageShape& shape = plan.images.shape;
    if (plan.crop_padding > 0) {
      random_crop_padded<uint8_t>(source, shape, plan.crop_padding, 0, random, pixels_.data());
      source = pixels_.data();
    }
    const bool horizontal = plan.flip_horizontal > 0 && random.bernoulli(plan.flip_horizontal);
    const bool vertical = plan.flip_vertical > 0 && random.bernoulli(plan.flip_vertical);
    if ((horizontal || vertical) && source != pixels_.data()) {
      std::copy_n(source, pixels_.size(), pixels_.data());
      source = pixels_.data();
    }
    if (horizontal) flip_horizontal(pixels_.data(), shape);
    if (vertical) flip_vertical(pixels_.data(), shape);
    if (plan.rotation_degrees > 0) {
      random_rotate<uint8_t>(source, shape, plan.rotation_degrees, 0, random, moved_.data());
      source = moved_.data();
    }
    return source;
  }

  std::shared_ptr<const Plan> plan_;
  Example example_;
  // Scratch of [H, W, C]: after shift and mirror, and after rotation, which cannot work in place.
  std::vector<uint8_t> pixels_, moved_;
};

}  // namespace

void ImageTransformConfig::fields(ConfigFields& f) {
  constexpr Interval kProbability{0, 1, true}, kPositive{0, kMaxF32, true, false};
  f("crop_padding", crop_padding,
    "shift by up to this many pixels each way; what comes in is black")
      .in({0, 1 << 30, true});
  f("flip_horizontal", flip_horizontal, "probability").in(kProbability);
  f("flip_vertical", flip_vertical, "probability").in(kProbability);
  f("rotation_degrees", rotation_degrees, "by an angle of up to this; bilinear, black outside")
      .in({0, 180, true});
  f("scale", scale, "pixel p becomes (p * scale - mean) / stddev; 1/255 if not given");
  f("mean", mean, "one, or one for each channel; none is 0");
  f("stddev", stddev, "one, or one for each channel; none is 1");
  f("erasing_probability", erasing_probability, "after normalisation, so that 0 is the mean colour")
      .in(kProbability);
  f("erasing_min_area", erasing_min_area, "share of the image").in({0, 1, true, false});
  f("erasing_max_area", erasing_max_area, "share of the image").in({0, 1, true, false});
  f("erasing_min_aspect", erasing_min_aspect, "height / width").in(kPositive);
  f("erasing_max_aspect", erasing_max_aspect, "height / width").in(kPositive);
  f("erasing_value", erasing_value, "written");
  f("raw", raw, "bytes and a placement, which the trainer's raw_images finishes");
}

int32_t label_of(const Example& example, int64_t classes) {
  const int64_t label = int64_feature(example, "label");
  require(label >= 0 && label < classes, Code::kFormat, "label ", label,
          " is out of range, expected 0 to ", classes - 1);
  return static_cast<int32_t>(label);
}

Transform labelled_transform(const ImageShape& sample, bool raw) {
  Transform transform;
  transform.arrays = {{"image", raw ? DType::kU8 : DType::kF32,
                       Dims{sample.height, sample.width, sample.channels}, 0},
                      {"label", DType::kI32, Dims{}, -1}};
  if (raw) transform.arrays.push_back({"placement", DType::kI32, Dims{4}, 0});
  return transform;
}

Transform make_image_transform(const LabelledImages& images, const ImageTransformConfig& config) {
  const auto plan = std::make_shared<const Plan>(make_plan(images, config));
  Transform transform = labelled_transform(images.shape, plan->raw);
  transform.make_worker = [plan] { return std::make_unique<ImageMaker>(plan); };
  return transform;
}

}  // namespace assay::data
