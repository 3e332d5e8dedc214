// Resizing of 8-bit images by the triangle filter: linear when enlarging; when shrinking, the
// filter widens with the step, so that every pixel counts (antialiasing).
//
// The numbers are those of Pillow's BILINEAR, bit for bit: weights with 22 fractional bits, first
// along rows, then along columns, rounded to bytes after each (Pillow 13 takes the other order
// where that is cheaper: up to one level apart). NVIDIA DALI's default filter is the same triangle.
//
// Rows come one at a time, as a decoder gives them, and only the part of the result that is asked
// for is computed: a resize followed by a crop costs the crop.
#pragma once

#include <cstdint>
#include <vector>

#include "sdk/data/augment/image.h"

namespace assay::data {

// The filter along one axis.
class ResampleAxis {
 public:
  // Positions [first, first + count) of an axis of `size` positions laid over the stretch
  // [begin, begin + length) of `from` samples. Samples outside of [0, from) do not count.
  void plan(double begin, double length, int from, int size, int first, int count);

  int count() const { return static_cast<int>(begins_.size()); }
  // Every position has as many taps, some of weight 0: loops of one length run faster than fewer
  // taps of many lengths.
  int taps() const { return taps_; }
  int begin(int position) const { return begins_[static_cast<size_t>(position)]; }
  const int32_t* weights(int position) const {
    return weights_.data() + static_cast<size_t>(position) * static_cast<size_t>(taps_);
  }
  // Source samples that any position needs.
  int source_begin() const { return source_begin_; }
  int source_end() const { return source_end_; }

 private:
  int taps_ = 0;
  std::vector<int> begins_;
  std::vector<int32_t> weights_;
  int source_begin_ = 0, source_end_ = 0;
};

// Four bytes per pixel on both sides; what the fourth means is the caller's. Keeps its memory.
class Resampler {
 public:
  // Planned by the caller before the first row of an image.
  ResampleAxis rows, columns;

  // Forgets the rows of an image that was given up.
  void restart() { added_ = 0; }
  // Gives source row rows.source_begin(), then the following ones up to rows.source_end(); of each
  // only the columns [columns.source_begin(), columns.source_end()).
  void add_row(const uint8_t* row);
  // [rows.count(), columns.count(), 4], after the last row; valid until the next image's.
  const uint8_t* finish();

 private:
  std::vector<uint8_t> narrowed_;  // source rows, resized along the row
  std::vector<uint8_t> result_;
  int added_ = 0;
};

}  // namespace assay::data
