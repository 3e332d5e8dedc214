// GatherRows and its gradient: types, gradient and cost.
#include <algorithm>

#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const GatherRows& p, InferCtx& c) {
  const int tables = c.n() / 2;
  c.require(c.n() % 2 == 0 && tables >= 1 && tables <= kMostTables, "needs 1 to ", kMostTables,
            " tables and as many lists of rows, got ", c.n(), " inputs");
  c.require_data_type(0);
  c.require(is_float(p.dtype), "dtype must be a data type, got ", p.dtype);
  for (int i = 0; i < tables; ++i) {
    const ValueType &table = c.x(i), &index = c.x(tables + i);
    c.require(
        table.dims.rank() == 2 && table.dims[1] == c.x(0).dims[1] && table.dtype == c.x(0).dtype,
        "table ", i, " is ", table, ", the first ", c.x(0),
        "; all must be [rows,C] of one type and width");
    c.require(
        index.dtype == DType::kI32 && index.dims.rank() == 1 && index.dims == c.x(tables).dims,
        "list ", i, " is ", index, ", the first ", c.x(tables),
        "; all must be i32 [P] of one length");
  }
  c.y({p.dtype, {c.x(tables).dims[0], c.x(0).dims[1]}});
}

void grad(const GatherRows&, GradCtx& c) {
  const int tables = c.n() / 2;
  for (int i = 0; i < tables; ++i) {
    if (!c.wants(i)) continue;
    const ValueType table = c.type(c.x(i));
    c.dx(i, c.emit1(GatherRowsGrad{table.dims[0], table.dtype}, {c.x(tables + i), c.dy()}));
  }
}

// Of a table only the rows that are asked for.
NodeFacts facts(const GatherRows&, const NodeView& c) {
  const int tables = c.n_inputs() / 2;
  const double count = count_of(c.y());
  double bytes = bytes_of(c.y());
  for (int i = 0; i < tables; ++i)
    bytes += bytes_of(c.x(tables + i)) + count * static_cast<double>(dtype_size(c.x(i).dtype));
  return {.flops = (tables - 1) * count, .bytes = bytes};
}

void infer(const GatherRowsGrad& p, InferCtx& c) {
  c.require_inputs(2 + p.has_addend);
  c.require(p.rows >= 1, "rows must be at least 1, got ", p.rows);
  c.require(is_float(p.dtype), "dtype must be a data type, got ", p.dtype);
  c.require_dtype(0, DType::kI32);
  c.require_data_type(1);
  c.require(c.x(0).dims.rank() == 1 && c.x(1).dims.rank() == 2 && c.x(1).dims[0] == c.x(0).dims[0],
            "the list is ", c.x(0).dims, " and dy ", c.x(1).dims, "; they must be [P] and [P,C]");
  const ValueType y{p.dtype, {p.rows, c.x(1).dims[1]}};
  if (p.has_addend) c.require(c.x(2) == y, "the addend is ", c.x(2), ", not ", y);
  c.y(y);
}
// In place of the addend only rows that somebody asks for are read and written.
NodeFacts facts(const GatherRowsGrad& p, const NodeView& c) {
  const double given = bytes_of(c.x(0)) + bytes_of(c.x(1));
  if (!p.has_addend) return {count_of(c.x(1)), given + bytes_of(c.y())};
  const ValueType touched{p.dtype, {std::min(p.rows, c.x(0).dims[0]), c.y().dims[1]}};
  return {count_of(c.x(1)), given + 2 * bytes_of(touched), {{0, 2}}};
}

}  // namespace assay
