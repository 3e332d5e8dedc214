// Copy: out of views and into them.
#include <optional>

#include "sdk/backend/cpu/ops/strided_copy.h"

namespace assay::cpu {
namespace {

constexpr int64_t kBlock = 16;  // elements across a run that are copied together

}  // namespace

StridedCopy::StridedCopy(const Dims& dims, const Layout& source, const Layout& target,
                         size_t element)
    : element_(element) {
  const auto bytes = static_cast<int64_t>(element);
  std::vector<Axis> axes;
  for (const CommonAxis& axis : common_axes(dims, source, target))
    axes.push_back({axis.size, axis.first * bytes, axis.second * bytes});
  const auto take = [&](auto axis) {
    const Axis taken = *axis;
    axes.erase(axis);
    return taken;
  };
  if (!axes.empty()) inner_ = take(axes.begin());
  together_ = inner_.size == 1 || (inner_.source == bytes && inner_.target == bytes);
  if (together_) {
    pieces_ = {inner_.size, bytes, bytes};
    piece_ = kChunkElems;
    inner_.size = 1;
  } else {
    const auto across = std::find_if(axes.begin(), axes.end(),
                                     [&](const Axis& axis) { return axis.source == bytes; });
    if (across != axes.end()) pieces_ = take(across);
    piece_ = kBlock;
  }
  outer_ = std::move(axes);
  for (const Axis& axis : outer_) runs_ *= axis.size;
  runs_ *= quotient_up(pieces_.size, piece_);
  run_bytes_ = inner_.size * bytes * std::min(pieces_.size, piece_);
}

template <class Unit>
void StridedCopy::copy_block(const char* source, char* target, int64_t width) const {
  for (int64_t i = 0; i < inner_.size; ++i) {
    const char* from = source + i * inner_.source;
    char* to = target + i * inner_.target;
    for (int64_t k = 0; k < width; ++k)
      std::memcpy(to + k * pieces_.target, from + k * pieces_.source, sizeof(Unit));
  }
}

// `width` elements of a piece.
void StridedCopy::copy_run(const char* source, char* target, int64_t width) const {
  if (together_ && source == nullptr) {
    std::memset(target, 0, static_cast<size_t>(width) * element_);
  } else if (together_) {
    std::memcpy(target, source, static_cast<size_t>(width) * element_);
  } else if (element_ == 2) {
    copy_block<uint16_t>(source, target, width);
  } else {
    copy_block<float>(source, target, width);
  }
}

void StridedCopy::copy(const void* source, void* target, int64_t begin, int64_t end) const {
  const int64_t pieces = quotient_up(pieces_.size, piece_);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i % pieces * piece_;
    int64_t rest = i / pieces;
    int64_t from = first * pieces_.source, to = first * pieces_.target;
    for (const Axis& axis : outer_) {
      const int64_t index = rest % axis.size;
      rest /= axis.size;
      from += index * axis.source, to += index * axis.target;
    }
    const char* const read = source == nullptr ? nullptr : static_cast<const char*>(source) + from;
    copy_run(read, static_cast<char*>(target) + to, std::min(piece_, pieces_.size - first));
  }
}

namespace {

// The part of a tensor within a border, as the whole of it lies.
Layout inside(const Layout& whole, const Layout::Border& border) {
  Layout part = slice_layout(whole, border.begin);
  part.offset -= whole.offset;
  return part;
}

}  // namespace

// y [dims] from x: both wherever they lie; zero where x has its border.
NodePlan plan(const Copy&, const Planner& c) {
  NodePlan plan = own_plan("copy");
  const size_t size = dtype_size(c.y().dtype);
  const Layout &x = c.x_layout(0), &y = c.y_layout();
  const auto copy = x.border ? StridedCopy(x.border->dims, x, inside(y, *x.border), size)
                             : StridedCopy(c.y().dims, x, y, size);
  std::optional<StridedCopy> clear;
  if (x.border) {
    clear.emplace(c.y().dims, y, y, size);
  }
  const int64_t begin =
      x.border ? inside(y, *x.border).offset * static_cast<int64_t>(size) : int64_t{0};
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, from = b.x<void>(0), to = b.y<char>()](Queue&) {
      if (clear) run_copy(*clear, threads, nullptr, to);
      run_copy(copy, threads, from, to + begin);
    };
  };
  return plan;
}

}  // namespace assay::cpu
