// GatherRows and its gradient: what a row of a table gets back is summed by one thread, in
// ascending order of the places that asked for it, so results do not depend on threads.
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

struct Table {
  const void* data;
  const int32_t* index;
  int64_t rows;
};

// The row that place p asks for, or null if there is none.
const void* row_of(const Table& table, int64_t p, int64_t size, size_t bytes) {
  const int64_t row = table.index[p];
  return row >= 0 && row < table.rows ? at(table.data, row * size, bytes) : nullptr;
}

// order = the places of [0, n) that ask for one of the rows, by row and then by place: those of row
// r stand from ends[r] to ends[r + 1]. `ends` has rows + 2 elements.
void sort_by_row(const int32_t* index, int64_t n, int64_t rows, int32_t* ends, int32_t* order) {
  const auto asks = [&](int64_t p) { return index[p] >= 0 && index[p] < rows; };
  std::fill(ends, ends + rows + 2, 0);
  for (int64_t p = 0; p < n; ++p)
    if (asks(p)) ++ends[index[p] + 2];
  for (int64_t r = 2; r < rows + 2; ++r) ends[r] += ends[r - 1];
  // Now row r begins at ends[r + 1], which is counted up to its end.
  for (int64_t p = 0; p < n; ++p)
    if (asks(p)) order[ends[index[p] + 1]++] = static_cast<int32_t>(p);
}

}  // namespace

// tables [rows,C], lists [P], y [P,C].
NodePlan plan(const GatherRows&, const Planner& c) {
  const Dims& dims = c.y().dims;
  const int tables = c.n_inputs() / 2;
  NodePlan plan = own_plan("gather_rows");
  std::array<int64_t, kMostTables> rows{};
  for (int i = 0; i < tables; ++i) rows[i] = c.x(i).dims[0];
  plan.bind = [=, size = dims[1],
               run = kernels().gather->sum[element_of(c.x(0))][element_of(c.y())],
               bytes = dtype_size(c.x(0).dtype), y_bytes = dtype_size(c.y().dtype),
               places = chunks_of(dims[0], dims[1] * tables),
               threads = c.threads()](const Binding& b) -> Launch {
    std::array<Table, kMostTables> from{};
    for (int i = 0; i < tables; ++i) from[i] = {b.x<void>(i), b.x<int32_t>(tables + i), rows[i]};
    return [=, y = b.y<void>()](Queue&) {
      parallel_for(threads, places.count(), [&](int64_t i) {
        for (int64_t p = places.begin(i); p < places.end(i); ++p) {
          std::array<const void*, kMostTables> row{};
          for (int k = 0; k < tables; ++k) row[k] = row_of(from[k], p, size, bytes);
          run(row.data(), tables, at(y, p * size, y_bytes), size);
        }
      });
    };
  };
  return plan;
}

// list [P], dy [P,C], addend and y [rows,C].
NodePlan plan(const GatherRowsGrad& p, const Planner& c) {
  const int64_t places = c.x(1).dims[0], size = c.x(1).dims[1];
  NodePlan plan = own_plan("gather_rows");
  plan.scratch_bytes = static_cast<size_t>(p.rows + 2 + places) * sizeof(int32_t);
  // Few rows are cut along their columns too: a table of two gets as many sums as one of thousands.
  constexpr int64_t kColumns = 256, kMostRows = kChunkElems / kColumns, kUnits = 64;
  const Chunks columns{size, kColumns};
  const Chunks rows{p.rows, std::clamp<int64_t>(p.rows / kUnits, 1, kMostRows)};
  plan.bind = [=, has_addend = p.has_addend,
               run = kernels().gather->collect[element_of(c.x(1))][element_of(c.y())],
               dy_bytes = dtype_size(c.x(1).dtype), y_bytes = dtype_size(c.y().dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    auto* ends = static_cast<int32_t*>(b.scratch);
    return [=, index = b.x<int32_t>(0), dy = b.x<void>(1), y = b.y<void>(),
            addend = has_addend ? b.x<void>(2) : nullptr, order = ends + rows.total + 2](Queue&) {
      sort_by_row(index, places, rows.total, ends, order);
      parallel_for(threads, rows.count() * columns.count(), [&](int64_t i) {
        const int64_t block = i / columns.count(), column = i % columns.count();
        const int64_t first = columns.begin(column);
        for (int64_t r = rows.begin(block); r < rows.end(block); ++r) {
          const int64_t count = ends[r + 1] - ends[r], at_row = r * size + first;
          if (count == 0 && addend == y) continue;
          run(at(dy, first, dy_bytes), size, order + ends[r], count,
              addend == nullptr ? nullptr : at(addend, at_row, y_bytes), at(y, at_row, y_bytes),
              columns.length(column));
        }
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
