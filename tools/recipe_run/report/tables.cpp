#include "tools/recipe_run/report/tables.h"

#include <algorithm>
#include <utility>

namespace reciperun {
namespace {

struct Column {
  std::string heading;
  ColumnKind kind = ColumnKind::kNumber;
};

std::vector<Column> columns_of(const TableWords& words) {
  return {{"row", ColumnKind::kTitle},
          {words.reference},
          {"n"},
          {words.own},
          {"n"},
          {"unit", ColumnKind::kText},
          {"Δ"},
          {"interval"},
          {"margin"},
          {"verdict", ColumnKind::kVerdict}};
}

}  // namespace

std::vector<RowGroup> grouped(const std::vector<Row>& rows) {
  std::vector<RowGroup> groups;
  for (const char* first : {"accuracy", "stability across seeds", "scaling", "time to train"}) {
    groups.push_back({first, {}});
  }
  for (const Row& row : rows) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const RowGroup& g) { return g.title == row.group; });
    (same == groups.end() ? groups.emplace_back(RowGroup{row.group, {}}) : *same)
        .rows.push_back(&row);
  }
  std::erase_if(groups, [](const RowGroup& g) { return g.rows.empty(); });
  return groups;
}

ColumnKind column_kind(size_t column) { return columns_of({}).at(column).kind; }

std::vector<std::string> table_headings(const TableWords& words) {
  std::vector<std::string> headings;
  for (Column& column : columns_of(words)) headings.push_back(std::move(column.heading));
  return headings;
}

std::vector<std::string> table_cells(const Row& row) {
  return {row.title,       row.published,
          row.published_n, row.measured.empty() ? "—" : row.measured,
          row.measured_n,  row.unit == "1" ? "" : row.unit,
          row.delta,       row.interval,
          row.margin,      verdict_word(row.judgement.verdict)};
}

bool column_used(const std::vector<const Row*>& rows, size_t column) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row* row) { return !table_cells(*row)[column].empty(); });
}

bool shows_reason(const Row& row) {
  return row.judgement.verdict != Verdict::kNoPublishedValue && !row.judgement.reason.empty();
}

}  // namespace reciperun
