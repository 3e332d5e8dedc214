// Products in panels, by kernels of our own: operands are brought into panels, a task for each, and
// multiplied by rectangles of panels, one for each thread. Every element of y is one sum, in the
// order of its steps. For kernels of f32 a left operand of bf16 that stands is widened first.
#pragma once

#include <string>
#include <vector>

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {

// Panels of an operand, one after the other: of rows of the left one, or columns of the right one.
struct Panels {
  const PanelProductKernels* kernels;
  bool right;
  PanelOperand operand;  // without its address; of one tap
  // Steps come from so many places, for kernels of f32 if there are several: elements behind the
  // first.
  std::vector<int64_t> taps;
  int64_t count;
  size_t bytes_of_one;

  Panels(const PanelProductKernels* k, bool is_right, const PanelOperand& of_tap,
         std::vector<int64_t> places = {0});

  int64_t standing() const;  // of the left operand: those that need not be filled
  // What stands must be given another type first.
  bool must_widen() const { return standing() > 0 && operand.element != kernels->element; }
  size_t bytes(int64_t panels) const { return static_cast<size_t>(panels) * bytes_of_one; }
  size_t bytes_of_tap() const { return static_cast<size_t>(kernels->panel_bytes(operand.steps)); }
  void fill(const void* from, int64_t panel, void* to) const;
  std::string form() const;
};

// Rectangles of panels. Cut by columns, each thread reads its own part of the right operand once;
// by rows, of the left one.
struct Rectangles {
  int64_t rows, columns, down, across;  // panels of the left and right operand, rectangles
  Rectangles(const Panels& left, const Panels& right, int64_t threads, bool by_rows);

  int64_t count() const { return down * across; }
  void run(const PanelProduct& product, const PanelProductKernels& k, int64_t i) const;
};

// One of a node's products, all of whose left operands are input 0 and right ones input 1.
struct PanelPart {
  Panels left, right;
  PanelProduct product;  // without addresses
  Rectangles rectangles;
  int64_t y_first;  // the element of y where it begins

  // Of a product without sizes.
  PanelPart(const Panels& a, const Panels& b, const PanelProduct& without_sizes, int threads,
            bool by_rows, int64_t first = 0)
      : left(a),
        right(b),
        product(without_sizes),
        rectangles(a, b, threads, by_rows),
        y_first(first) {
    product.rows = left.operand.lines, product.columns = right.operand.lines;
    product.steps = right.operand.steps * static_cast<int64_t>(right.taps.size());
  }
};
using PanelParts = std::vector<PanelPart>;

// Which inputs these are, if there are any.
struct PanelInputs {
  int bias = -1, residual = -1;
};

NodePlan plan_parts(std::string_view kernel, PanelParts parts, const PanelInputs& inputs,
                    const Planner& c);

}  // namespace assay::cpu
