// Strides of views: how slices, transposes and reshapes change them, and what ops can make of them.
#include "sdk/graph/layout.h"

#include <algorithm>

namespace assay {
namespace {

// What of the value lies in memory.
const Dims& stored_dims(const Layout& layout, const Dims& dims) {
  return layout.border ? layout.border->dims : dims;
}

// An axis of more than one element, or several that can be counted as one.
struct Axis {
  int64_t size, stride;
};

// Appends an axis inside of the others, counted with the last one if that is the same.
void append_axis(std::vector<Axis>& axes, Axis axis) {
  if (axis.size == 1) return;
  if (!axes.empty() && axes.back().stride == axis.size * axis.stride) {
    axes.back() = {axes.back().size * axis.size, axis.stride};
  } else {
    axes.push_back(axis);
  }
}

}  // namespace

Layout dense_layout(const Dims& dims) {
  Layout layout{0, dims, {}};
  int64_t stride = 1;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    layout.strides[axis] = stride;
    stride *= dims[axis];
  }
  return layout;
}

Layout slice_layout(const Layout& whole, const Dims& begin) {
  Layout part = whole;
  for (int axis = 0; axis < begin.rank(); ++axis) part.offset += begin[axis] * whole.strides[axis];
  return part;
}

Layout border_layout(const Layout& part, const Dims& dims, const Dims& begin) {
  Layout layout = part;
  layout.border = {begin, dims};
  return layout;
}

Layout transpose_layout(const Layout& x, const Dims& axes) {
  Layout y = x;
  for (int axis = 0; axis < axes.rank(); ++axis)
    y.strides[axis] = x.strides[static_cast<int>(axes[axis])];
  return y;
}

// Axes of x that lie at one distance are merged; y's axes are then cut off the innermost first.
// Where a cut falls across two that cannot be merged, no strides can say where the elements are.
std::optional<Layout> reshape_layout(const Layout& x, const Dims& from, const Dims& to) {
  std::vector<Axis> axes;  // not yet given to an axis of y, outermost first
  for (int axis = 0; axis < from.rank(); ++axis) append_axis(axes, {from[axis], x.strides[axis]});
  Layout y{x.offset, to, {}};
  for (int axis = to.rank() - 1; axis >= 0; --axis) {
    y.strides[axis] = axes.empty() ? 1 : axes.back().stride;
    if (axes.empty() || to[axis] <= 1) continue;
    Axis& last = axes.back();
    if (last.size % to[axis] != 0) return std::nullopt;
    last = {last.size / to[axis], last.stride * to[axis]};
    if (last.size == 1) axes.pop_back();
  }
  return y;
}

bool is_dense(const Layout& layout, const Dims& dims) {
  if (layout.border) return false;
  int64_t stride = 1;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    if (dims[axis] != 1 && layout.strides[axis] != stride) return false;
    stride *= dims[axis];
  }
  return true;
}

std::optional<int64_t> row_pitch(const Layout& layout, const Dims& dims) {
  const Dims& stored = stored_dims(layout, dims);
  const int last = stored.rank() - 1;
  if (last < 0) return 1;
  if (stored[last] != 1 && layout.strides[last] != 1) return std::nullopt;
  std::vector<Axis> rows;
  for (int axis = 0; axis < last; ++axis) append_axis(rows, {stored[axis], layout.strides[axis]});
  if (rows.size() > 1) return std::nullopt;
  return rows.empty() ? stored[last] : rows[0].stride;
}

std::vector<CommonAxis> common_axes(const Dims& dims, const Layout& first, const Layout& second) {
  std::vector<CommonAxis> axes;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    const CommonAxis next{dims[axis], first.strides[axis], second.strides[axis]};
    if (next.size == 1) continue;
    if (!axes.empty() && next.first == axes.back().size * axes.back().first &&
        next.second == axes.back().size * axes.back().second) {
      axes.back().size *= next.size;
    } else {
      axes.push_back(next);
    }
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const CommonAxis& a, const CommonAxis& b) { return a.second < b.second; });
  return axes;
}

// Strides are never negative, so the last element lies furthest.
Extent extent_of(const Layout& layout, const Dims& dims) {
  const Dims& stored = stored_dims(layout, dims);
  int64_t last = layout.offset;
  for (int axis = 0; axis < stored.rank(); ++axis) {
    if (stored[axis] == 0) return {layout.offset, layout.offset};
    last += (stored[axis] - 1) * layout.strides[axis];
  }
  return {layout.offset, last + 1};
}

std::string to_text(const Layout& layout) {
  std::string text = cat(" +", layout.offset, " ", layout.strides);
  if (layout.border) text += cat(" at ", layout.border->begin, " of ", layout.border->dims);
  return text;
}

namespace {

bool has_whole_rows(const Layout& layout, const Dims& dims) {
  return dims.rank() == 0 || layout.border->dims.back() == dims.back();
}

}  // namespace

bool admits(const Access& access, const Layout& layout, const Dims& dims, size_t element) {
  if (layout.border && !(access.border && has_whole_rows(layout, dims))) return false;
  const auto aligned = [&](int64_t elems) {
    return elems * static_cast<int64_t>(element) % access.alignment == 0;
  };
  if (!aligned(layout.offset)) return false;
  if (access.form == Access::Form::kAny || is_dense(layout, dims)) return true;
  if (access.form == Access::Form::kDense) return false;
  const std::optional<int64_t> pitch = row_pitch(layout, dims);
  return pitch && aligned(*pitch);
}

}  // namespace assay
