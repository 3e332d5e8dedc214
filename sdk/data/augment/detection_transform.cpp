// Photographs with boxes as samples: choose size and part, decode what it needs of the file, and
// resize row by row as rows are decoded. Pixels are normalised as they are read, since numbers of
// f32 are what the published pipeline interpolates.
#include "sdk/data/augment/detection_transform.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "sdk/base/expect.h"
#include "sdk/data/augment/bilinear.h"
#include "sdk/data/augment/crop.h"
#include "sdk/data/augment/pixel_levels.h"
#include "sdk/data/detection_records.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"

namespace assay::data {
namespace {

constexpr int kMaxSide = 4096, kChannels = 3;
constexpr size_t kBoxes = kMostBoxes;

// The configuration, checked and in the form the inner loops want.
struct Plan {
  int64_t categories;
  int rows, columns;
  bool jitters;
  float min_scale, max_scale;
  float flip;
  bool origin;
  PixelLevels levels;
};

Key key(std::string_view path) { return {"detection transform", path}; }

Plan make_plan(int64_t categories, DetectionTransformConfig config) {
  check_config("detection transform", "", config);
  expect(config.size.size() == 2, key("size"), cat("a list of ", config.size.size()),
         "[rows, columns]");
  const std::vector<float>& jitter = config.scale_jitter;
  expect(jitter.empty() || (jitter.size() == 2 && jitter[0] <= jitter[1]), key("scale_jitter"),
         cat("a list of ", jitter.size()), "[least, largest]");
  Plan plan{};
  plan.categories = categories;
  plan.rows = config.size[0], plan.columns = config.size[1];
  plan.jitters = !jitter.empty();
  if (plan.jitters) plan.min_scale = jitter[0], plan.max_scale = jitter[1];
  plan.flip = config.flip_horizontal;
  plan.origin = config.origin;
  plan.levels = pixel_levels(normalisation_of(config), kChannels, "detection transform");
  return plan;
}

// Where a sample comes from: the mirrored image is resized, and so many rows and columns of it are
// seen.
struct View {
  bool flip = false;
  float scale = 1;            // of the image's pixels
  ImageSize resized;          // the whole image
  int top = 0, left = 0;      // first row and column seen
  int height = 0, width = 0;  // rows and columns seen
};

int product(int size, float factor) {
  return static_cast<int>(static_cast<float>(size) * factor);  // cut off, as published
}

View choose_view(const Plan& plan, const JpegInfo& image, PhiloxStream& random) {
  View view;
  view.flip = plan.flip > 0 && random.bernoulli(plan.flip);
  int rows = plan.rows, columns = plan.columns;  // that the image is fit to
  if (plan.jitters) {
    const float factor = random.uniform(plan.min_scale, plan.max_scale);
    rows = product(rows, factor), columns = product(columns, factor);
  }
  view.scale = std::min(static_cast<float>(rows) / static_cast<float>(image.height),
                        static_cast<float>(columns) / static_cast<float>(image.width));
  // An image may be so thin that nothing would be left.
  view.resized = {std::max(product(image.height, view.scale), 1),
                  std::max(product(image.width, view.scale), 1)};
  const int more_rows = std::max(view.resized.height - plan.rows, 0);
  const int more_columns = std::max(view.resized.width - plan.columns, 0);
  if (plan.jitters) {
    view.top = product(more_rows, random.uniform());
    view.left = product(more_columns, random.uniform());
  }
  view.height = std::min(view.resized.height, plan.rows);
  view.width = std::min(view.resized.width, plan.columns);
  return view;
}

// The source of one axis of a sample, and the stretch of it that is read.
struct Axis {
  std::vector<AxisSample> samples;  // in the coordinates of the stretch
  int begin = 0, length = 0;

  void plan(int source, int resized, int first, int count, bool flip) {
    legacy_resize_axis(source, resized, first, count, samples);
    begin = source, length = 0;
    for (AxisSample& sample : samples) {
      if (flip) sample.low = source - 1 - sample.low, sample.high = source - 1 - sample.high;
      begin = std::min({begin, sample.low, sample.high});
    }
    for (AxisSample& sample : samples) {
      sample.low -= begin, sample.high -= begin;
      length = std::max({length, sample.low + 1, sample.high + 1});
    }
  }
};

// What is kept of a record: this, the boxes with their classes, and the file.
struct Header {
  int64_t source_id;
  int64_t boxes;
};
struct Box {
  float ymin, xmin, ymax, xmax;
  int32_t class_index;
};

class DetectionMaker : public SampleMaker {
 public:
  explicit DetectionMaker(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  void prepare(std::string_view payload, std::string& prepared) override {
    read_detection(payload, plan_->categories, example_, record_);
    boxes_.clear();
    for (const DetectionObject& o : record_.objects) {
      if (o.crowd) continue;
      boxes_.push_back({o.ymin, o.xmin, o.ymax, o.xmax, static_cast<int32_t>(o.category - 1)});
    }
    require(boxes_.size() <= kBoxes, Code::kFormat, "the image has ", boxes_.size(),
            " boxes, expected at most ", kBoxes);
    const Header header{record_.source_id, static_cast<int64_t>(boxes_.size())};
    prepared.assign(reinterpret_cast<const char*>(&header), sizeof header);
    prepared.append(reinterpret_cast<const char*>(boxes_.data()), boxes_.size() * sizeof(Box));
    prepared.append(record_.jpeg);
  }

  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    Header header;
    std::memcpy(&header, prepared.data(), sizeof header);
    prepared.remove_prefix(sizeof header);
    boxes_.resize(static_cast<size_t>(header.boxes));
    prepared.copy(reinterpret_cast<char*>(boxes_.data()), boxes_.size() * sizeof(Box));
    const JpegInfo info = decoder_.open(prepared.substr(boxes_.size() * sizeof(Box)));
    const View view = choose_view(*plan_, info, random);
    resize(info, view, reinterpret_cast<float*>(arrays[0]));
    place_boxes(view, arrays);
    if (!plan_->origin) return;
    const float scale = 1 / view.scale;
    std::memcpy(arrays[4], &header.source_id, sizeof header.source_id);
    std::memcpy(arrays[5], &scale, sizeof scale);
  }

 private:
  // The window of the resized image, then zeros.
  void resize(const JpegInfo& info, const View& view, float* image) {
    const auto row_values = static_cast<size_t>(int64_t{plan_->columns} * kChannels);
    const auto seen = static_cast<size_t>(int64_t{view.width} * kChannels);
    rows_.plan(info.height, view.resized.height, view.top, view.height, false);
    columns_.plan(info.width, view.resized.width, view.left, view.width, view.flip);
    decoder_.start({rows_.begin, columns_.begin, rows_.length, columns_.length});
    decoded_ = 0;
    for (Narrowed& row : narrowed_) row.number = -1;
    for (const AxisSample& y : rows_.samples) {
      const float* upper = narrowed(y.low);
      const float* lower = narrowed(y.high);
      for (size_t i = 0; i < seen; ++i) image[i] = upper[i] + (lower[i] - upper[i]) * y.weight;
      std::fill(image + seen, image + row_values, 0.0f);
      image += row_values;
    }
    std::fill_n(image, static_cast<size_t>(plan_->rows - view.height) * row_values, 0.0f);
  }

  // A source row, normalised and resized along its columns. Rows are asked for in their order, each
  // with the next one, so that two are kept.
  const float* narrowed(int number) {
    Narrowed& row = narrowed_[static_cast<size_t>(number % 2)];
    if (row.number == number) return row.values.data();
    const uint8_t* pixels = nullptr;
    for (; decoded_ <= number; ++decoded_) pixels = decoder_.next_row();
    row.number = number;
    row.values.resize(columns_.samples.size() * kChannels);
    narrow(pixels, row.values.data());
    return row.values.data();
  }

  void narrow(const uint8_t* pixels, float* target) const {
    const auto* level = plan_->levels.data();
    for (const AxisSample& x : columns_.samples) {
      const uint8_t *low = pixels + 4 * x.low, *high = pixels + 4 * x.high;
      for (size_t c = 0; c < kChannels; ++c) {
        const float from = level[c][low[c]], to = level[c][high[c]];
        *target++ = from + (to - from) * x.weight;
      }
    }
  }

  void place_boxes(const View& view, std::span<std::byte* const> arrays) const {
    auto* target = reinterpret_cast<float*>(arrays[1]);
    auto* classes = reinterpret_cast<int32_t*>(arrays[2]);
    std::fill_n(target, 4 * kBoxes, 0.0f);
    std::fill_n(classes, kBoxes, -1);
    int32_t count = 0;
    for (const Box& box : boxes_) {
      const std::array<float, 4> placed = placed_box(view, box);
      if ((placed[2] - placed[0]) * (placed[3] - placed[1]) == 0) continue;
      target = std::ranges::copy(placed, target).out;
      classes[count++] = box.class_index;
    }
    std::memcpy(arrays[3], &count, sizeof count);
  }

  // In pixels of the sample, as far as it is seen there.
  std::array<float, 4> placed_box(const View& view, const Box& box) const {
    const float xmin = view.flip ? 1 - box.xmax : box.xmin;
    const float xmax = view.flip ? 1 - box.xmin : box.xmax;
    const auto place = [](float share, int resized, int first, int size) {
      const float pixel = share * static_cast<float>(resized) - static_cast<float>(first);
      return std::clamp(pixel, 0.0f, static_cast<float>(size - 1));
    };
    const auto row = [&](float y) { return place(y, view.resized.height, view.top, plan_->rows); };
    const auto column = [&](float x) {
      return place(x, view.resized.width, view.left, plan_->columns);
    };
    return {row(box.ymin), column(xmin), row(box.ymax), column(xmax)};
  }

  struct Narrowed {
    int number = -1;  // of the source row, in the stretch that is decoded
    std::vector<float> values;
  };

  std::shared_ptr<const Plan> plan_;
  Example example_;
  DetectionRecord record_;
  std::vector<Box> boxes_;
  JpegDecoder decoder_;
  Axis rows_, columns_;
  int decoded_ = 0;  // rows of the stretch
  std::array<Narrowed, 2> narrowed_;
};

}  // namespace

void DetectionTransformConfig::fields(ConfigFields& f) {
  f("size", size, "rows and columns of the sample").in({1, kMaxSide, true});
  f("scale_jitter", scale_jitter,
    "[least, largest] of a random size that the image is fit to, times size; none: it is fit")
      .in({0.01, 100, true});
  f("flip_horizontal", flip_horizontal, "probability").in({0, 1, true});
  f("scale", scale, "pixel p becomes (p * scale - mean) / stddev; 1/255 if not given");
  f("mean", mean, "one, or three; none is 0");
  f("stddev", stddev, "one, or three; none is 1");
  f("origin", origin, "samples also say which image they show, and at which scale");
}

Transform make_detection_transform(int64_t categories, const DetectionTransformConfig& config) {
  const auto plan = std::make_shared<const Plan>(make_plan(categories, config));
  Transform transform;
  transform.arrays = {{"image", DType::kF32, Dims{plan->rows, plan->columns, kChannels}, 0},
                      {"boxes", DType::kF32, Dims{kMostBoxes, 4}, 0},
                      {"classes", DType::kI32, Dims{kMostBoxes}, -1},
                      {"count", DType::kI32, Dims{}, -1}};
  if (plan->origin) {
    transform.arrays.push_back({"source_id", DType::kI64, Dims{}, 0});
    transform.arrays.push_back({"scale", DType::kF32, Dims{}, 0});
  }
  transform.make_worker = [plan] { return std::make_unique<DetectionMaker>(plan); };
  return transform;
}

}  // namespace assay::data
