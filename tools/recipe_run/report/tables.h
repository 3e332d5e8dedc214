// The tables of rows, as every format shows them: groups, columns and cells.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/report/document.h"

namespace reciperun {

// Rows with the same group, in the order they have in the recipe; accuracy first, then stability,
// time, throughput, latency.
struct RowGroup {
  std::string title;
  std::vector<const Row*> rows;
};
std::vector<RowGroup> grouped(const std::vector<Row>& rows);

// What the row's interval is of: "difference", "ratio", ...; "" without one.
std::string interval_kind(const Row& row);

// Numbers align to the right, all else to the left.
enum class ColumnKind { kTitle, kNumber, kText, kVerdict };
struct Column {
  ColumnKind kind;
  std::string heading;
  std::vector<std::string> cells;  // one for each row of the group
  bool used = false;               // any of them is not empty: others are left out
};
// All columns of a group. A heading says in every format what stands below
// it: "runs" or "repeats", and of which quantity the interval is; where rows of one table differ in
// that, their cells say it.
std::vector<Column> columns_of(const RowGroup& group, const TableWords& words);

// What is said below the row: why it has its verdict, and its note.
std::vector<std::string> remarks_of(const Row& row);

// "runs" for rows that are run again, "repeats" for timings.
std::string count_word(const std::vector<const Row*>& rows);

}  // namespace reciperun
