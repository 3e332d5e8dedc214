// A loader's transform of the evaluation, done to one picture: resize, crop, normalise, pad.
#include "tools/predict/prepare.h"

#include <fmt/core.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <string>
#include <string_view>

#include "tools/common/error.h"

namespace assay::tools {
namespace {

[[noreturn]] void fail_value(const std::string& key, std::string_view wanted) {
  throw Error(Exit::kUsage, fmt::format("the preparation's \"{}\" is not {}", key, wanted));
}

double number(const std::string& key, const google::protobuf::Value& value) {
  if (!value.has_number_value()) fail_value(key, "a number");
  return value.number_value();
}

int count(const std::string& key, const google::protobuf::Value& value) {
  constexpr double kMost = 4096;
  const double given = number(key, value);
  if (!(given >= 1 && given <= kMost) || given != std::floor(given))
    fail_value(key, "a whole number from 1 to 4096");
  return static_cast<int>(given);
}

std::vector<double> numbers(const std::string& key, const google::protobuf::Value& value) {
  if (value.has_number_value()) return {value.number_value()};
  if (!value.has_list_value()) fail_value(key, "a number or a list of numbers");
  std::vector<double> out;
  for (const auto& item : value.list_value().values()) out.push_back(number(key, item));
  return out;
}

cv::Mat with_channels(const cv::Mat& picture, int channels) {
  if (picture.channels() == channels) return picture;
  cv::Mat colour, out;
  if (channels == 1) {
    cv::cvtColor(picture, out, picture.channels() == 4 ? cv::COLOR_RGBA2GRAY : cv::COLOR_RGB2GRAY);
    return out;
  }
  if (picture.channels() == 3) {
    colour = picture;
  } else {
    cv::cvtColor(picture, colour,
                 picture.channels() == 4 ? cv::COLOR_RGBA2RGB : cv::COLOR_GRAY2RGB);
  }
  if (channels == 3) return colour;
  cv::Mat planes[4];
  cv::split(colour, planes);
  planes[3] = cv::Mat::zeros(colour.size(), CV_8U);
  cv::merge(planes, 4, out);
  return out;
}

// Pixels that are left out count where a picture shrinks.
cv::Mat resized(const cv::Mat& picture, int height, int width) {
  if (picture.rows == height && picture.cols == width) return picture;
  cv::Mat out;
  const bool shrinks = width < picture.cols || height < picture.rows;
  cv::resize(picture, out, {width, height}, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  return out;
}

cv::Mat middle(const cv::Mat& picture, int shorter, const SampleShape& shape) {
  const double factor = static_cast<double>(shorter) / std::min(picture.rows, picture.cols);
  const int height = std::max(shape.height, static_cast<int>(std::lround(picture.rows * factor)));
  const int width = std::max(shape.width, static_cast<int>(std::lround(picture.cols * factor)));
  const cv::Mat large = resized(picture, height, width);
  return large({(width - shape.width) / 2, (height - shape.height) / 2, shape.width, shape.height});
}

double of_channel(const std::vector<double>& list, int channel) {
  return list.size() == 1 ? list[0] : list.at(static_cast<size_t>(channel));
}

// What a picture's sides are multiplied by.
float fitting(const cv::Size& picture, const SampleShape& shape) {
  return std::min(static_cast<float>(shape.height) / static_cast<float>(picture.height),
                  static_cast<float>(shape.width) / static_cast<float>(picture.width));
}

// By TensorFlow 1's bilinear rule, with which detectors are trained: pixel o of the result stands
// at o times the ratio of the sizes, and no pixel is averaged away.
cv::Mat fit(const cv::Mat& picture, const SampleShape& shape) {
  const float factor = fitting(picture.size(), shape);
  const auto side = [&](int size) {
    return std::max(static_cast<int>(static_cast<float>(size) * factor), 1);
  };
  const int height = side(picture.rows), width = side(picture.cols);
  const cv::Matx23d map(static_cast<double>(picture.cols) / width, 0, 0, 0,
                        static_cast<double>(picture.rows) / height, 0);
  cv::Mat out;
  cv::warpAffine(picture, out, map, {width, height}, cv::INTER_LINEAR | cv::WARP_INVERSE_MAP,
                 cv::BORDER_REPLICATE);
  return out;
}

void require_fitting(const Preparation& p, const SampleShape& shape) {
  for (const auto* list : {&p.mean, &p.stddev}) {
    if (list->size() != 1 && list->size() != static_cast<size_t>(shape.channels))
      throw Error(Exit::kUsage, fmt::format("mean and stddev need one number or {}, one for each "
                                            "channel of the model",
                                            shape.channels));
  }
  if (p.padded_size > std::min(shape.height, shape.width) ||
      (p.resize_shorter > 0 && p.resize_shorter < std::min(shape.height, shape.width)))
    throw Error(Exit::kUsage, fmt::format("the model takes {} x {} pixels, which the sizes of the "
                                          "preparation do not fit",
                                          shape.height, shape.width));
}

// The numbers of a sample in which the picture lies at `corner` and everything else is zero.
std::vector<float> as_numbers(const cv::Mat& sized, const cv::Point& corner, const Preparation& p,
                              const SampleShape& shape) {
  std::vector<float> out(static_cast<size_t>(shape.height) * static_cast<size_t>(shape.width) *
                         static_cast<size_t>(shape.channels));
  for (int y = 0; y < sized.rows; ++y) {
    const uint8_t* row = sized.ptr<uint8_t>(y);
    float* to = out.data() +
                (static_cast<ptrdiff_t>(corner.y + y) * shape.width + corner.x) * shape.channels;
    for (int i = 0; i < sized.cols * shape.channels; ++i) {
      const int c = i % shape.channels;
      to[i] = static_cast<float>((row[i] * p.scale + p.offset - of_channel(p.mean, c)) /
                                 of_channel(p.stddev, c));
    }
  }
  return out;
}

}  // namespace

Preparation parse_preparation(const std::string& json) {
  google::protobuf::Struct keys;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &keys);
  if (!status.ok())
    throw Error(Exit::kUsage, "the preparation is no JSON object: " + status.ToString());
  Preparation out;
  for (const auto& [key, value] : keys.fields()) {
    if (key == "scale") {
      out.scale = number(key, value);
    } else if (key == "offset") {
      out.offset = number(key, value);
    } else if (key == "mean") {
      out.mean = numbers(key, value);
    } else if (key == "stddev") {
      out.stddev = numbers(key, value);
      if (std::count(out.stddev.begin(), out.stddev.end(), 0.0) > 0)
        fail_value(key, "something to divide by");
    } else if (key == "resize_shorter") {
      out.resize_shorter = count(key, value);
    } else if (key == "size" && value.has_list_value()) {
      for (const auto& side : value.list_value().values())
        out.detector_size.push_back(count(key, side));
      if (out.detector_size.size() != 2) fail_value(key, "a number, or [rows, columns]");
    } else if (key == "size") {
      const int pixels = count(key, value);
      if (keys.fields().contains("padded")) out.padded_size = pixels;
    } else if (key == "padded" || key == "channels") {
      count(key, value);  // the model says how many
    } else if (key == "crop") {
      if (value.string_value() != "centre")
        fail_value(key, "\"centre\", the only one that does not draw or stretch");
    } else if (key != "origin") {  // of a loader's samples alone
      throw Error(Exit::kUsage, fmt::format("the preparation cannot have the key \"{}\"", key),
                  "it takes scale, offset, mean, stddev, resize_shorter, size and padded");
    }
  }
  return out;
}

std::vector<float> prepare(const Page& page, const Preparation& p, const SampleShape& shape) {
  require_fitting(p, shape);
  const cv::Mat picture = with_channels(page.picture, shape.channels);
  const cv::Mat sized = p.resize_shorter > 0 ? middle(picture, p.resize_shorter, shape)
                        : p.padded_size > 0  ? resized(picture, p.padded_size, p.padded_size)
                                             : resized(picture, shape.height, shape.width);
  return as_numbers(sized, {(shape.width - sized.cols) / 2, (shape.height - sized.rows) / 2}, p,
                    shape);
}

float detector_scale(const cv::Size& picture, const SampleShape& shape) {
  return 1 / fitting(picture, shape);
}

std::vector<float> prepare_for_detector(const Page& page, const Preparation& p,
                                        const SampleShape& shape) {
  require_fitting(p, shape);
  const cv::Mat picture = with_channels(page.picture, shape.channels);
  return as_numbers(fit(picture, shape), {0, 0}, p, shape);
}

}  // namespace assay::tools
