// Random changes of one image: small functions on dense [H, W, C] pixels, channels innermost.
//
// Each comes as the plain change with explicit parameters, and as a random_ version that draws them
// from the sample's stream. Parameters are drawn in the order of their description. Source and
// target never overlap. T is float or uint8_t.
#pragma once

#include <cstdint>

#include "sdk/base/philox.h"

namespace assay::data {

struct ImageShape {
  int height = 0;
  int width = 0;
  int channels = 0;

  int pixels() const { return height * width; }
  int values() const { return height * width * channels; }
};

// In place: column x becomes column width - 1 - x (horizontal), row y becomes height - 1 - y.
template <class T>
void flip_horizontal(T* image, const ImageShape& shape);
template <class T>
void flip_vertical(T* image, const ImageShape& shape);

// target(y, x) = source(y + dy, x + dx), `fill` outside of the source.
template <class T>
void translate(const T* source, const ImageShape& shape, int dy, int dx, T fill, T* target);

// Uniform in the 2 * reach + 1 integers around 0.
int random_offset(int reach, PhiloxStream& random);

// A window of the original size out of the image padded by `padding` on all sides. Draws dy, then
// dx, uniform in [-padding, padding].
template <class T>
void random_crop_padded(const T* source, const ImageShape& shape, int padding, T fill,
                        PhiloxStream& random, T* target);

// Turns the image counter-clockwise about its centre by `degrees`, bilinear; what comes from
// outside counts as `fill`.
template <class T>
void rotate(const T* source, const ImageShape& shape, float degrees, T fill, T* target);
// Angle uniform in [-degrees, degrees].
template <class T>
void random_rotate(const T* source, const ImageShape& shape, float degrees, T fill,
                   PhiloxStream& random, T* target);

struct Rectangle {
  int top = 0, left = 0, height = 0, width = 0;
};
template <class T>
void fill_rectangle(T* image, const ImageShape& shape, const Rectangle& rectangle, T fill);

// Random erasing (Zhong et al., arXiv:1708.04896): draws area share and aspect ratio
// (height / width, log-uniform) until the rectangle lies inside, at most ten times, then top and
// left.
struct ErasingRange {
  float min_area = 0.02f, max_area = 0.33f;  // share of the image
  float min_aspect = 0.3f, max_aspect = 3.3f;
};
// The rectangle to erase; empty when ten draws found none.
Rectangle random_rectangle(const ImageShape& shape, const ErasingRange& range,
                           PhiloxStream& random);

}  // namespace assay::data
