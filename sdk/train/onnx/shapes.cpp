// Ops that move elements, and sums over axes.
#include <algorithm>

#include "sdk/train/onnx/converter.h"

namespace assay::onnx {
namespace {

// Whether `blocks` is [N,h,a,w,b,C] of the image [N,h*a,w*b,C].
bool are_blocks_of(const Dims& blocks, const Dims& image) {
  return blocks.rank() == 6 && image.rank() == 4 && blocks[0] == image[0] &&
         blocks[1] * blocks[2] == image[1] && blocks[3] * blocks[4] == image[2] &&
         blocks[5] == image[3];
}

// Such an image lies in memory alike, whether its channels come first or last.
bool is_pixel(const Dims& dims) { return dims.rank() == 4 && dims[1] == 1 && dims[2] == 1; }

// Axis k of [N,H,W,C] is axis kInImage[k] of [N,C,H,W].
constexpr int64_t kInImage[] = {0, 2, 3, 1};

// [1] i64: a place in the two graphs, by which it is a number or one times the batch.
std::string place(Converter& c, int64_t smaller, int64_t larger) {
  if (smaller == larger) return c.writer().integers({smaller});
  if (smaller * kBatches[1] != larger * kBatches[0]) c.refuse("cuts the batch");
  return c.emit("Mul", {c.batch(), c.writer().integers({smaller / kBatches[0]})});
}

}  // namespace

void convert(const Reshape&, Converter& c) {
  const ValueId x = c.x(0), y = c.y();
  const Dims &from = c.dims(x), &to = c.dims(y);
  if (c.has_image(x) && (are_blocks_of(from, to) || are_blocks_of(to, from)))
    return c.set_image(y, c.image(x));
  const std::string data = c.has_image(x) && is_pixel(from) ? c.image(x) : c.plain(x);
  std::vector<Size> sizes = c.sizes(y);
  if (!is_pixel(to)) return c.set_plain(y, c.reshaped(data, sizes));
  std::rotate(sizes.begin() + 1, sizes.end() - 1, sizes.end());
  c.set_image(y, c.reshaped(data, sizes));
}

void convert(const Slice& op, Converter& c) {
  const ValueId x = c.x(0), y = c.y();
  const bool as_image = c.dims(x).rank() == 4 && c.has_image(x);
  const Slice& larger = c.larger<Slice>();
  GraphWriter& w = c.writer();
  std::string part = as_image ? c.image(x) : c.plain(x);
  std::vector<int64_t> begin, end, axes;
  for (int axis = 0; axis < op.dims.rank(); ++axis) {
    const int64_t first = op.begin[axis], last = first + op.dims[axis];
    const bool is_batch = c.sizes(x)[static_cast<size_t>(axis)].times_batch;
    if (op.dims[axis] == c.dims(x)[axis] && (!is_batch || larger.dims[axis] != op.dims[axis]))
      continue;
    const int64_t axis_there = as_image ? kInImage[axis] : axis;
    if (is_batch) {
      const std::string from = place(c, first, larger.begin[axis]);
      const std::string to = place(c, last, larger.begin[axis] + larger.dims[axis]);
      part = c.emit("Slice", {part, from, to, w.integers({axis_there})});
    } else {
      begin.push_back(first), end.push_back(last), axes.push_back(axis_there);
    }
  }
  if (!axes.empty())
    part = c.emit("Slice", {part, w.integers(begin), w.integers(end), w.integers(axes)});
  as_image ? c.set_image(y, part) : c.set_plain(y, part);
}

void convert(const Transpose& op, Converter& c) {
  const auto axes = op.axes.span();
  c.set_plain(c.y(), c.emit("Transpose", {c.plain(c.x(0))},
                            {{"perm", std::vector<int64_t>(axes.begin(), axes.end())}}));
}

void convert(const Concat& op, Converter& c) {
  const auto& parts = c.node().inputs;
  const bool as_image =
      c.dims(c.y()).rank() == 4 &&
      std::any_of(parts.begin(), parts.end(), [&](ValueId part) { return c.has_image(part); });
  Names names;
  for (const ValueId part : parts) names.push_back(as_image ? c.image(part) : c.plain(part));
  const std::string all =
      c.emit("Concat", std::move(names), {{"axis", as_image ? kInImage[op.axis] : op.axis}});
  as_image ? c.set_image(c.y(), all) : c.set_plain(c.y(), all);
}

void convert(const SumTo& op, Converter& c) {
  const Dims& from = c.dims(c.x(0));
  std::vector<int64_t> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int in_result = axis - (from.rank() - op.dims.rank());
    if (in_result < 0 || (op.dims[in_result] == 1 && from[axis] != 1)) axes.push_back(axis);
  }
  std::string sum = c.plain(c.x(0));
  if (!axes.empty()) sum = c.emit("ReduceSum", {sum, c.writer().integers(axes)});
  c.set_plain(c.y(), c.reshaped(sum, c.sizes(c.y())));
}

}  // namespace assay::onnx
