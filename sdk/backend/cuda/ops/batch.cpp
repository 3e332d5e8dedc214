// ImageFromBytes, MixRows, MixTargets, CountTargets: between a batch as it is given and what a
// network reads.
#include <algorithm>

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// x [N,H,W,C] u8, placement [N,4], y [N,H,W,channels] f32.
NodePlan plan(const ImageFromBytes& p, const Planner& c) {
  NodePlan plan = own_plan("image_from_bytes");
  const Dims& dims = c.x(0).dims;
  kernels::PlacedImages args{};
  args.rows = dims[0], args.height = dims[1], args.width = dims[2];
  args.channels = static_cast<int>(dims[3]), args.target_channels = static_cast<int>(p.channels);
  args.scale = p.scale;
  std::ranges::copy(p.mean, args.mean);
  std::ranges::copy(p.stddev, args.stddev);
  plan.bind = [args](const Binding& b) -> Launch {
    kernels::PlacedImages bound = args;
    bound.pixels = b.x<uint8_t>(0);
    bound.placements = b.x<int32_t>(1);
    return [bound, y = b.y<float>()](Queue& q) { kernels::place_images(stream_of(q), bound, y); };
  };
  return plan;
}

// x, y [N, elems] f32, w [N].
NodePlan plan(const MixRows&, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("mix_rows");
  plan.bind = [rows = dims[0],
               elems = dims[0] == 0 ? 0 : dims.numel() / dims[0]](const Binding& b) -> Launch {
    return [=, x = b.x<float>(0), w = b.x<float>(1), y = b.y<float>()](Queue& q) {
      kernels::mix_rows(stream_of(q), x, w, rows, elems, y);
    };
  };
  return plan;
}

// labels, w [N], y [N,classes].
NodePlan plan(const MixTargets& p, const Planner& c) {
  NodePlan plan = own_plan("mix_targets");
  plan.bind = [rows = c.x(0).dims[0], classes = p.classes,
               smoothing = p.label_smoothing](const Binding& b) -> Launch {
    return [=, labels = b.x<int32_t>(0), w = b.x<float>(1), y = b.y<float>()](Queue& q) {
      kernels::mix_targets(stream_of(q), labels, w, smoothing, rows, classes, y);
    };
  };
  return plan;
}

NodePlan plan(const CountTargets&, const Planner& c) {
  const ValueType& type = c.x(0);
  NodePlan plan = own_plan("count_targets");
  const bool is_label = type.dtype == DType::kI32;
  const int64_t rows = is_label ? type.numel() : type.dims[0];
  plan.scratch_bytes = static_cast<size_t>(rows) * sizeof(double);
  plan.bind = [=, elems = rows == 0 ? 0 : type.numel() / rows](const Binding& b) -> Launch {
    return [=, labels = b.x<int32_t>(0), weights = b.x<float>(0), count = b.y<float>(),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      if (is_label) {
        kernels::count_labels(stream_of(q), labels, rows, partial, count);
      } else {
        kernels::count_rows(stream_of(q), weights, rows, elems, partial, count);
      }
    };
  };
  return plan;
}

}  // namespace assay::cuda
