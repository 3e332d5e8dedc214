// Tables of rows in every format, shared by the report of one run and the comparison of two.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/judge/rows.h"

namespace reciperun {

// Headings of the two sides; JSON takes them as the names of its fields.
struct TableWords {
  std::string reference = "published";
  std::string own = "measured";
};

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
ColumnKind column_kind(size_t column);
// What the column says of these rows, in every format: "runs" or "repeats", and of which quantity
// the interval is. Where rows of one table differ in that, their cells say it.
std::vector<std::string> table_headings(const std::vector<const Row*>& rows,
                                        const TableWords& words = {});
std::vector<std::string> table_cells(const Row& row, const std::vector<const Row*>& rows);
// Whether any of the rows fills column `column`; empty columns are left out.
bool column_used(const std::vector<const Row*>& rows, size_t column);
// Whether the verdict's reason is worth a line.
bool shows_reason(const Row& row);

// One table for each group, under its title. Where `columns` > 0 do not hold the table, every row
// is a block of lines.
std::string console_tables(const std::vector<Row>& rows, const TableWords& words = {},
                           int columns = 0);
std::string markdown_tables(const std::vector<Row>& rows, const TableWords& words = {});
std::string html_tables(const std::vector<Row>& rows, const TableWords& words = {});

std::string markdown_escaped(const std::string& text);

// What the words mean.
std::string verdict_legend();

// A self-contained page: no script, no network, readable on paper, phone and dark screens.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace reciperun
