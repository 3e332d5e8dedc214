// Which box an anchor overlaps most: a register of anchors beside one box after the other, nearly
// all of which lie elsewhere.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Corners of boxes [top, left, bottom, right].
struct Boxes {
  Vec top, left, bottom, right;

  Vec area() const { return (bottom - top) * (right - left); }
};

Boxes boxes_at(const float* box, int64_t n) {
  Boxes b{};
  for (int64_t i = 0; i < n; ++i, box += 4) {
    b.top[i] = box[0], b.left[i] = box[1];
    b.bottom[i] = box[2], b.right[i] = box[3];
  }
  return b;
}

Vec smaller(Vec a, Vec b) { return b < a ? b : a; }
Vec larger(Vec a, Vec b) { return a < b ? b : a; }

void match(const float* box, int64_t boxes, const float* anchor, int64_t anchors, float threshold,
           int32_t* match, BestAnchor* best) {
  for (int64_t g = 0; g < boxes; ++g) best[g] = {0, 0};
  for_vectors(anchors, [&](int64_t first, int64_t n) {
    const Boxes a = boxes_at(anchor + 4 * first, n);
    const Vec area = a.area();
    Vec most{};
    VecMask chosen = VecMask{} - 1;
    for (int64_t g = 0; g < boxes; ++g) {
      const float* corners = box + 4 * g;
      const Boxes b = {Vec{} + corners[0], Vec{} + corners[1], Vec{} + corners[2],
                       Vec{} + corners[3]};
      const Vec rows = smaller(b.bottom, a.bottom) - larger(b.top, a.top);
      const Vec columns = smaller(b.right, a.right) - larger(b.left, a.left);
      const VecMask meets = (rows > 0.0f) & (columns > 0.0f);
      if (!any(meets)) continue;
      const Vec both = rows * columns;
      const Vec overlap = meets ? both / (b.area() + area - both) : Vec{};
      if (any(overlap > best[g].overlap)) {
        for (int64_t i = 0; i < n; ++i)
          if (overlap[i] > best[g].overlap) best[g] = {overlap[i], static_cast<int32_t>(first + i)};
      }
      chosen = overlap > most ? VecMask{} + static_cast<int32_t>(g) : chosen;
      most = overlap > most ? overlap : most;
    }
    for (int64_t i = 0; i < n; ++i) match[first + i] = most[i] >= threshold ? chosen[i] : -1;
  });
}

}  // namespace

extern const AnchorKernels kAnchors;
const AnchorKernels kAnchors = {match};

}  // namespace assay::cpu::ASSAY_ISA
