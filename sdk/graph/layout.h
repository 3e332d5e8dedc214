// Where the elements of a value lie in memory, and which of such places an op can work on.
//
// A view (a slice, a transpose, a part of a concatenation) has no memory of its own: its elements
// lie in that of its root, at a distance that is fixed along each axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sdk/base/dims.h"

namespace assay {

// Element i of a value lies offset + sum of i[k] * strides[k] elements behind the beginning of its
// root's memory. With a border, that holds for the box of `dims` that begins at `begin`, counted
// from there; what is outside of it lies nowhere and is zero.
struct Layout {
  int64_t offset = 0;
  Dims strides;
  struct Border {
    Dims begin, dims;
    bool operator==(const Border&) const = default;
  };
  std::optional<Border> border;
  bool operator==(const Layout&) const = default;
};

// Row-major, without gaps, from the beginning of its memory.
Layout dense_layout(const Dims& dims);
// The box that begins at `begin`; of what has no border.
Layout slice_layout(const Layout& whole, const Dims& begin);
// `part` of `dims` with zeros around it, at `begin`; of what has no border.
Layout border_layout(const Layout& part, const Dims& dims, const Dims& begin);
// Axis k is axis axes[k] of x; of what has no border.
Layout transpose_layout(const Layout& x, const Dims& axes);
// The same elements in row-major order with other dims, if a fixed distance along each axis can
// tell where they are.
std::optional<Layout> reshape_layout(const Layout& x, const Dims& from, const Dims& to);

// Without gaps and border, wherever it begins.
bool is_dense(const Layout& layout, const Dims& dims);
// Elements from one row [dims.back()] to the next, where rows are without gaps and all at the same
// distance; of the box within the border, if there is one.
std::optional<int64_t> row_pitch(const Layout& layout, const Dims& dims);
// The axes along which the same elements lie in two places: without those of one element, and
// neighbours as one where they can be counted so in both. Those that lie closest together in the
// second place come first. Borders are none of its business.
struct CommonAxis {
  int64_t size, first, second;  // distances in elements
};
std::vector<CommonAxis> common_axes(const Dims& dims, const Layout& first, const Layout& second);

// The elements of memory from the first to behind the last.
struct Extent {
  int64_t begin, end;
};
Extent extent_of(const Layout& layout, const Dims& dims);

// " +512 [64,8,1]", and with a border " at [0,1] of [2,2]".
std::string to_text(const Layout& layout);

// What an op can read or write besides a dense tensor at the beginning of a block of memory.
struct Access {
  enum class Form : int32_t {
    kDense,  // without gaps
    kPitch,  // rows without gaps, all at the same distance
    kAny,
  };
  Form form = Form::kDense;
  bool border = false;     // zeros around whole rows, when read
  int64_t alignment = 64;  // bytes that divide the offset and the pitch
  constexpr bool operator==(const Access&) const = default;
};
constexpr Access kRows{Access::Form::kPitch, false, 1};
constexpr Access kAlignedRows{Access::Form::kPitch, false, 64};
constexpr Access kRowsWithBorder{Access::Form::kPitch, true, 1};
constexpr Access kAnyStrides{Access::Form::kAny, false, 1};
constexpr Access kAnyWithBorder{Access::Form::kAny, true, 1};

// Whether an op with this access can work on `dims` elements of `element` bytes laid out so.
bool admits(const Access& access, const Layout& layout, const Dims& dims, size_t element);

}  // namespace assay
