#include "sdk/backend/cpu/ops/panels.h"

#include "sdk/base/align.h"

namespace assay::cpu {

Panels::Panels(const PanelProductKernels* k, bool is_right, const PanelOperand& of_tap,
               std::vector<int64_t> places)
    : kernels(k),
      right(is_right),
      operand(of_tap),
      taps(std::move(places)),
      count(quotient_up(operand.lines, right ? k->columns : k->rows)),
      bytes_of_one(bytes_of_tap() * taps.size()) {}

int64_t Panels::standing() const {
  return operand.along ? kernels->standing(operand.lines, operand.steps) : 0;
}

void Panels::fill(const void* from, int64_t panel, void* to) const {
  PanelOperand tap = operand;
  for (size_t i = 0; i < taps.size(); ++i) {
    tap.data = at(from, taps[i], size_of(operand.element));
    kernels->fill_panel(tap, right, panel, at(to, static_cast<int64_t>(i), bytes_of_tap()));
  }
}

std::string Panels::form() const {
  std::string form = cat("panels ", static_cast<int>(kernels->element), " ", kernels->columns, " ",
                         operand.lines, "x", operand.steps, " ", operand.pitch, operand.along);
  for (const int64_t tap : taps) form += cat(" ", tap);
  return form;
}

Rectangles::Rectangles(const Panels& left, const Panels& right, int64_t threads, bool by_rows)
    : rows(left.count),
      columns(right.count),
      down(by_rows ? std::min(threads, rows) : 0),
      across(std::min(by_rows ? threads / down : threads, columns)) {
  if (!by_rows) down = std::min(threads / across, rows);
}

void Rectangles::run(const PanelProduct& product, const PanelProductKernels& k, int64_t i) const {
  const int64_t row = i / across, column = i % across;
  k.run(product, rows * row / down, rows * (row + 1) / down, columns * column / across,
        columns * (column + 1) / across);
}

namespace {

// Panels from `first` on, to be filled.
struct Filling {
  const Panels* panels;
  int64_t first;
  const void* from;
  void* to;

  int64_t count() const { return panels->count - first; }
  void run(int64_t i) const { panels->fill(from, first + i, at(to, i, panels->bytes_of_one)); }
};

void fill(const std::vector<Filling>& fillings, int threads) {
  int64_t count = 0;
  for (const Filling& f : fillings) count += f.count();
  parallel_for(threads, count, [&](int64_t i) {
    const Filling* f = fillings.data();
    for (; i >= f->count(); ++f) i -= f->count();
    f->run(i);
  });
}

int64_t filled(const Panels& left) { return left.count - left.standing(); }

size_t left_bytes(const PanelParts& parts) {
  size_t bytes = 0;
  for (const PanelPart& part : parts) bytes += part.left.bytes(filled(part.left));
  return bytes;
}
size_t right_bytes(const PanelParts& parts) {
  size_t bytes = 0;
  for (const PanelPart& part : parts) bytes += part.right.bytes(part.right.count);
  return bytes;
}

// Right panels of all parts, one part's behind the other's.
std::vector<Filling> right_fillings(const PanelParts& parts, const void* from, void* to) {
  std::vector<Filling> fillings;
  for (const PanelPart& part : parts) {
    fillings.push_back({&part.right, 0, from, to});
    to = at(to, part.right.count, part.right.bytes_of_one);
  }
  return fillings;
}

// Input 0 made dense and f32, where it must be widened.
class Widening {
 public:
  Widening(const Panels& left, const Planner& c)
      : is_needed_(left.must_widen()),
        threads_(c.threads()),
        dims_(c.x(0).dims),
        dense_(dense_layout(dims_)),
        pass_(dims_, {&c.x_layout(0), &dense_}) {}

  bool is_needed() const { return is_needed_; }
  int64_t pitch() const { return dims_.back(); }
  size_t bytes() const {
    return is_needed_ ? align_up(static_cast<size_t>(dims_.numel()) * sizeof(float)) : 0;
  }
  void run(const void* from, float* to) const {
    const auto cast = kernels().elementwise->cast[kElementBf16][kElementF32];
    pass_.run(threads_, [&](const auto& first, int64_t n) {
      cast(at(from, first[0], size_of(kElementBf16)), to + first[1], n);
    });
  }

 private:
  bool is_needed_;
  int threads_;
  Dims dims_;
  Layout dense_;
  Pass<2> pass_;
};

// The products with their addresses, and left panels that must be filled for them.
struct BoundParts {
  std::vector<PanelProduct> products;
  std::vector<Filling> fillings;
};
BoundParts bound(const PanelParts& parts, const PanelInputs& inputs, const Binding& b,
                 const void* x, void* left, const void* right) {
  BoundParts r;
  for (const PanelPart& part : parts) {
    const int64_t size = size_of(part.product.element);
    const int64_t standing = part.left.standing();
    PanelProduct p = part.product;
    p.left = x;
    p.left_pitch = standing > 0 ? part.left.operand.pitch : 0;
    p.left_panels = left;
    p.right_panels = right;
    p.bias = inputs.bias < 0 ? nullptr : b.x<float>(inputs.bias);
    p.residual = inputs.residual < 0 ? nullptr : at(b.x<void>(inputs.residual), part.y_first, size);
    p.y = at(b.y<void>(), part.y_first, size);
    r.products.push_back(p);
    r.fillings.push_back({&part.left, standing, x, left});
    left = at(left, filled(part.left), part.left.bytes_of_one);
    right = at(right, part.right.count, part.right.bytes_of_one);
  }
  return r;
}

}  // namespace

NodePlan plan_parts(std::string_view kernel, PanelParts parts, const PanelInputs& inputs,
                    const Planner& c) {
  const Widening widening(parts[0].left, c);
  const size_t wide_bytes = widening.bytes(), filled_bytes = left_bytes(parts);
  NodePlan plan;
  plan.kernel = kernel;
  plan.prepare.input = 1;
  plan.prepare.bytes = right_bytes(parts);
  plan.prepare.scratch_bytes = wide_bytes + filled_bytes;
  for (PanelPart& part : parts) {
    plan.prepare.form += part.right.form() + ";";
    if (!widening.is_needed()) continue;
    part.left.operand.pitch = widening.pitch(), part.left.operand.element = kElementF32;
  }
  plan.scratch_bytes = plan.prepare.scratch_bytes + plan.prepare.bytes;

  const auto all = std::make_shared<const PanelParts>(std::move(parts));
  plan.prepare.bind = [all, threads = c.threads()](const Binding& b) -> Launch {
    return [all, threads, fillings = right_fillings(*all, b.x<void>(1), b.prepared)](Queue&) {
      fill(fillings, threads);
    };
  };
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    const bool prepared = b.prepared != nullptr;
    const void* const x = b.x<void>(0);
    auto* const wide = static_cast<float*>(b.scratch);
    auto* const left = static_cast<std::byte*>(b.scratch) + wide_bytes;
    void* const right = prepared ? b.prepared : left + filled_bytes;
    BoundParts r = bound(*all, inputs, b, widening.is_needed() ? wide : x, left, right);
    if (!prepared)
      for (const Filling& f : right_fillings(*all, b.x<void>(1), right)) r.fillings.push_back(f);
    return [=](Queue&) {
      if (widening.is_needed()) widening.run(x, wide);
      fill(r.fillings, threads);
      for (size_t part = 0; part < all->size(); ++part) {
        const Rectangles& rectangles = (*all)[part].rectangles;
        const PanelProductKernels& k = *(*all)[part].left.kernels;
        parallel_for(threads, rectangles.count(),
                     [&](int64_t i) { rectangles.run(r.products[part], k, i); });
      }
    };
  };
  return plan;
}

}  // namespace assay::cpu
