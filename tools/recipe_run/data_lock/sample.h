// One labelled sample of a data set, whatever file it stands in.
//
// A sample's content is its decoded pixels (or, of other data, its features) and its label; not its
// name, its number or its place. So a data set keeps its content when it is packed another way.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace reciperun {

struct Picture {
  int height = 0, width = 0, channels = 0;  // 1: grey; 3: red, green, blue; 4: and opacity
  std::string pixels;                       // bytes, row by row, channels innermost
};

// Decodes an image file; false if it cannot.
using DecodePicture = std::function<bool(std::string_view file, Picture& picture)>;

struct PictureDecoder {
  std::string name;  // "OpenCV 4.6.0"; "" = there is none
  DecodePicture decode;
};

// As it stands in its file.
struct RawSample {
  std::string where;     // for messages: "train-00000-of-00004.tfrecord, record 17"
  std::string label;     // decimal; "" = none, or it is part of `features`
  std::string file;      // an encoded image; "" = there is none
  Picture picture;       // an image that is not encoded
  std::string features;  // whatever else belongs to it
};

struct SampleDigest {
  std::string where;
  std::string label;
  std::string content;   // SHA-256 of pixels or features, hexadecimal
  bool decoded = false;  // the pixels come from a decoder

  std::string leaf() const { return label + '\n' + content; }
  bool operator<(const SampleDigest& other) const { return leaf() < other.leaf(); }
};

// Error kDataMismatch for an image that cannot be decoded, kUsage without a decoder.
SampleDigest digest_of(const RawSample& sample, const PictureDecoder& decoder);

}  // namespace reciperun
