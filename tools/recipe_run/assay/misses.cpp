// Goes over the held-out images, keeps the worst, and draws them when all have been seen.
#include "tools/recipe_run/assay/misses.h"

#ifdef ASSAY_OPENCV
#include <fmt/core.h>

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "tools/common/boxes.h"
#include "tools/common/class_names.h"
#include "tools/recipe_run/assay/detections.h"
#include "tools/recipe_run/assay/pictures.h"
#include "tools/recipe_run/util/json.h"
#endif

namespace reciperun::engine {

#ifdef ASSAY_OPENCV
namespace {

using assay::tools::at;
using assay::tools::FoundBox;
using assay::tools::KnownObject;

constexpr size_t kPictures = 12;
constexpr float kLeast = 0.3f;
constexpr int kSide = 480;  // pixels that a picture has at least, so that names can be read

struct Image {
  cv::Mat picture;  // red, green and blue
  int64_t number = 0;
  std::vector<FoundBox> boxes;
  std::vector<KnownObject> objects;

  auto misses() const {
    return std::count_if(objects.begin(), objects.end(),
                         [](const KnownObject& object) { return !object.found; });
  }
};

// A loader's numbers of one sample.
template <class T>
std::vector<T> row_of(const Batch& batch, size_t array, int64_t row) {
  const assay_tensor_info info = info_of(batch.data()[array]);
  const auto count = static_cast<int64_t>(info.bytes / sizeof(T)) / info.shape[0];
  const T* first = static_cast<const T*>(info.data) + row * count;
  return {first, first + count};
}
template <class T>
std::vector<T> copied(std::span<const T> numbers) {
  return {numbers.begin(), numbers.end()};
}

// What the loader made of pixels, undone.
class Pixels {
 public:
  explicit Pixels(const std::string& preparation) {
    Struct keys;
    if (const std::string wrong = parse_json(preparation, keys); !wrong.empty())
      throw Error(Exit::kCrashed, "the transform cannot be read: " + wrong);
    const double scale = at(keys, "scale").number_value();
    for (size_t c = 0; c < 3; ++c) {
      factor_[c] = static_cast<float>(number(keys, "stddev", c, 1) / scale);
      offset_[c] = static_cast<float>(number(keys, "mean", c, 0) / scale);
    }
  }
  // Without the zeros that frame it, and of a size to be looked at.
  cv::Mat picture(std::vector<float>& sample, const assay_tensor_info& info, int times) const {
    const cv::Mat whole(static_cast<int>(info.shape[1]), static_cast<int>(info.shape[2]), CV_32FC3,
                        sample.data());
    cv::Mat seen, out;
    cv::inRange(whole, cv::Scalar::all(0), cv::Scalar::all(0), seen);
    cv::Mat points;
    cv::findNonZero(255 - seen, points);
    const cv::Rect filled = points.empty() ? cv::Rect(0, 0, 1, 1) : cv::boundingRect(points);
    cv::Mat cut = whole(cv::Rect({0, 0}, filled.br())).clone();
    for (cv::Vec3f& pixel : cv::Mat_<cv::Vec3f>(cut))
      for (int c = 0; c < 3; ++c)
        pixel[c] = pixel[c] * factor_[static_cast<size_t>(c)] + offset_[static_cast<size_t>(c)];
    cut.convertTo(out, CV_8UC3);
    cv::resize(out, out, {}, times, times, cv::INTER_LINEAR);
    return out;
  }

 private:
  // One number is for all channels.
  static double number(const Struct& keys, const char* key, size_t channel, double otherwise) {
    if (!assay::tools::has(keys, key)) return otherwise;
    const auto& list = at(keys, key).list_value().values();
    return list[std::min<int>(static_cast<int>(channel), list.size() - 1)].number_value();
  }

  float factor_[3], offset_[3];
};

Image image_of(const Batch& batch, const Found& found, int64_t row, const Pixels& pixels) {
  const assay_tensor_info info = info_of(batch.data()[DetectorBatch::kImage]);
  const auto side = static_cast<int>(std::max(info.shape[1], info.shape[2]));
  const int times = (kSide + side - 1) / side;
  auto sample = row_of<float>(batch, DetectorBatch::kImage, row);
  Image image;
  image.picture = pixels.picture(sample, info, times);
  image.number = row_of<int64_t>(batch, DetectorBatch::kSourceId, row)[0];
  image.boxes = assay::tools::found_boxes(
      {copied(found.boxes(row)), copied(found.scores(row)), copied(found.classes(row))}, kLeast,
      static_cast<float>(times), image.picture.size());
  const auto boxes = row_of<float>(batch, DetectorBatch::kBoxes, row);
  const auto classes = row_of<int32_t>(batch, DetectorBatch::kClasses, row);
  for (size_t i = 0; i < classes.size() && classes[i] >= 0; ++i) {
    const auto pixel = [&](size_t k) { return boxes[4 * i + k] * static_cast<float>(times); };
    image.objects.push_back(
        {pixel(1), pixel(0), pixel(3), pixel(2), static_cast<size_t>(classes[i]), false});
  }
  mark_found(image.boxes, image.objects);
  return image;
}

}  // namespace

void draw_worst_misses(const fs::path& folder, assay_loader* held_out, Forward& model,
                       const std::string& preparation, const std::vector<std::string>& names) {
  const Pixels pixels(preparation);
  const auto name = [&](size_t of_class) { return assay::tools::class_name(names, of_class); };
  std::vector<Image> worst;
  call(Exit::kCrashed, assay_loader_seek, held_out, int64_t{0});
  for (int64_t left = loader_samples(held_out); left > 0;) {
    Batch batch(held_out);
    assay_batch_info info{};
    info.struct_size = sizeof info;
    batch.next(held_out, &info);
    const Found found(model, batch);
    for (int64_t row = 0; row < info.valid; ++row) {
      worst.push_back(image_of(batch, found, row, pixels));
      std::stable_sort(worst.begin(), worst.end(),
                       [](const Image& a, const Image& b) { return a.misses() > b.misses(); });
      worst.resize(std::min(worst.size(), kPictures));
    }
    left -= info.valid;
  }
  create_folders(folder);
  for (size_t i = 0; i < worst.size(); ++i) {
    cv::Mat picture = drawn(worst[i].picture, worst[i].boxes, name);
    draw_objects(picture, worst[i].objects, name);
    write_picture(folder / fmt::format("{:02}-{}.png", i + 1, worst[i].number), picture);
  }
}
#else
void draw_worst_misses(const fs::path&, assay_loader*, Forward&, const std::string&,
                       const std::vector<std::string>&) {}
#endif

}  // namespace reciperun::engine
