#include "tools/recipe_run/data_lock/sample.h"

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/sha256.h"

namespace reciperun {
namespace {

std::string picture_text(const Picture& picture) {
  return std::to_string(picture.height) + " " + std::to_string(picture.width) + " " +
         std::to_string(picture.channels) + "\n" + picture.pixels;
}

Picture decoded(const RawSample& sample, const PictureDecoder& decoder) {
  if (!decoder.decode) {
    throw Error(Exit::kUsage, sample.where + ": this build cannot decode images",
                "build it with OpenCV (libopencv-imgcodecs-dev, libopencv-imgproc-dev)");
  }
  Picture picture;
  if (!decoder.decode(sample.file, picture))
    throw Error(Exit::kDataMismatch, sample.where + ": the image cannot be decoded");
  return picture;
}

}  // namespace

SampleDigest digest_of(const RawSample& sample, const PictureDecoder& decoder) {
  std::string content;
  if (!sample.file.empty()) {
    content = picture_text(decoded(sample, decoder));
  } else if (!sample.picture.pixels.empty()) {
    content = picture_text(sample.picture);
  }
  if (!sample.features.empty()) content += "\n" + sample.features;
  return {sample.where, sample.label, sha256_hex(content), !sample.file.empty()};
}

}  // namespace reciperun
