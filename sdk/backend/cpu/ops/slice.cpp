// Slice, SliceGrad, Concat: copies of boxes, row by row.
#include <cstring>
#include <vector>

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// A box of `dims` bytes' worth of elements that lies in two tensors, at an offset in each. Trailing
// axes that the box fills in both are folded into one run of contiguous bytes.
class BoxCopy {
 public:
  BoxCopy(const Dims& box, const Dims& source, const Dims& source_begin, const Dims& target,
          const Dims& target_begin, size_t element) {
    int64_t from = 1, to = 1;  // elements per step of the axis
    run_ = static_cast<int64_t>(element);
    bool folding = true;
    for (int axis = box.rank() - 1; axis >= 0; --axis) {
      source_offset_ += source_begin[axis] * from * static_cast<int64_t>(element);
      target_offset_ += target_begin[axis] * to * static_cast<int64_t>(element);
      if (folding) {
        run_ *= box[axis];
        folding = box[axis] == source[axis] && box[axis] == target[axis];
      } else {
        axes_.push_back(
            {box[axis], from * static_cast<int64_t>(element), to * static_cast<int64_t>(element)});
        runs_ *= box[axis];
      }
      from *= source[axis], to *= target[axis];
    }
  }

  int64_t runs() const { return runs_; }
  int64_t run_bytes() const { return run_; }

  // Runs [begin, end), counted in row-major order of the box.
  void copy(const void* source, void* target, int64_t begin, int64_t end) const {
    const char* from = static_cast<const char*>(source) + source_offset_;
    char* to = static_cast<char*>(target) + target_offset_;
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i, source_at = 0, target_at = 0;
      for (const Axis& axis : axes_) {
        const int64_t index = rest % axis.size;
        rest /= axis.size;
        source_at += index * axis.source_step, target_at += index * axis.target_step;
      }
      std::memcpy(to + target_at, from + source_at, static_cast<size_t>(run_));
    }
  }

 private:
  struct Axis {
    int64_t size, source_step, target_step;  // steps in bytes
  };
  std::vector<Axis> axes_;  // innermost first
  int64_t run_ = 0, runs_ = 1;
  int64_t source_offset_ = 0, target_offset_ = 0;
};

Dims zeros_like(const Dims& dims) {
  Dims zeros = dims;
  for (int axis = 0; axis < zeros.rank(); ++axis) zeros[axis] = 0;
  return zeros;
}

Chunks runs_of(const BoxCopy& box) {
  return chunks_of(box.runs(), std::max<int64_t>(1, box.run_bytes() / 4));
}

void run_copy(const BoxCopy& box, int threads, const void* source, void* target) {
  const Chunks chunks = runs_of(box);
  parallel_for(threads, chunks.count(),
               [&](int64_t i) { box.copy(source, target, chunks.begin(i), chunks.end(i)); });
}

}  // namespace

NodePlan plan(const Slice& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  plan.bytes = 2 * static_cast<double>(c.y().bytes());
  const BoxCopy box(p.dims, c.x(0).dims, p.begin, p.dims, zeros_like(p.dims),
                    dtype_size(c.y().dtype));
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()] { run_copy(box, threads, x, y); };
  };
  return plan;
}

NodePlan plan(const SliceGrad& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  const Dims& dims = c.x(0).dims;
  const BoxCopy box(dims, dims, zeros_like(dims), p.x_dims, p.begin, dtype_size(c.y().dtype));
  plan.bind = [=, size = dtype_size(c.y().dtype), all = chunks_of(p.x_dims.numel()),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()] {
      parallel_for(threads, all.count(), [&](int64_t i) {
        std::memset(at(dx, all.begin(i), size), 0, static_cast<size_t>(all.length(i)) * size);
      });
      run_copy(box, threads, dy, dx);
    };
  };
  return plan;
}

NodePlan plan(const Concat& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  const auto axis = static_cast<int>(p.axis);
  std::vector<BoxCopy> boxes;
  Dims begin = zeros_like(c.y().dims);
  for (int i = 0; i < c.n_inputs(); ++i) {
    const Dims& part = c.x(i).dims;
    boxes.emplace_back(part, part, zeros_like(part), c.y().dims, begin, dtype_size(c.y().dtype));
    begin[axis] += part[axis];
  }
  plan.bind = [boxes, threads = c.threads()](const Binding& b) -> Launch {
    const std::vector<const void*> parts(b.inputs.begin(), b.inputs.end());
    return [=, y = b.y<void>()] {
      for (size_t i = 0; i < boxes.size(); ++i) run_copy(boxes[i], threads, parts[i], y);
    };
  };
  return plan;
}

}  // namespace assay::cpu
