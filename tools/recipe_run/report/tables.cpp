// Sorts rows into groups and gives each group its columns.
#include "tools/recipe_run/report/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

namespace reciperun {
namespace {

bool is_extreme(const Row& row) {
  return row.statistic == Statistic::kLargest || row.statistic == Statistic::kSmallest;
}

// That of all rows that have an interval; nullopt if they differ.
std::optional<std::string> common_kind(const std::vector<const Row*>& rows) {
  std::set<std::string> kinds;
  for (const Row* row : rows) {
    if (!row->interval.empty()) kinds.insert(interval_kind(*row));
  }
  if (kinds.size() > 1) return std::nullopt;
  return kinds.empty() ? "interval" : *kinds.begin();
}

}  // namespace

std::vector<RowGroup> grouped(const std::vector<Row>& rows) {
  std::vector<RowGroup> groups;
  for (const char* first : {"accuracy", "stability across seeds", "scaling", "time to train"})
    groups.push_back({first, {}});
  for (const Row& row : rows) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const RowGroup& g) { return g.title == row.group; });
    (same == groups.end() ? groups.emplace_back(RowGroup{row.group, {}}) : *same)
        .rows.push_back(&row);
  }
  std::erase_if(groups, [](const RowGroup& g) { return g.rows.empty(); });
  return groups;
}

std::string interval_kind(const Row& row) {
  if (row.interval.empty()) return "";
  if (!row.judgement.interval) return "range of repeats";
  if (row.judgement.interval_of_ratio) return "ratio";
  return is_extreme(row) ? "expected range" : "difference";
}

std::string count_word(const std::vector<const Row*>& rows) {
  const bool timed = std::all_of(
      rows.begin(), rows.end(), [](const Row* row) { return row->statistic == Statistic::kRatio; });
  return timed ? "repeats" : "runs";
}

std::vector<Column> columns_of(const RowGroup& group, const TableWords& words) {
  using enum ColumnKind;
  const auto kind = common_kind(group.rows);
  std::vector<Column> columns = {
      {kTitle, "row", {}},      {kNumber, words.reference, {}},           {kNumber, "runs", {}},
      {kNumber, words.own, {}}, {kNumber, count_word(group.rows), {}},    {kText, "unit", {}},
      {kNumber, "Δ", {}},       {kNumber, kind.value_or("interval"), {}}, {kNumber, "margin", {}},
      {kVerdict, "verdict", {}}};
  for (const Row* row : group.rows) {
    const bool named = !row->interval.empty() && !kind;
    size_t c = 0;
    for (const std::string& cell :
         {row->title, row->published, row->published_n, row->measured.empty() ? "—" : row->measured,
          row->measured_n, row->unit == "1" ? "" : row->unit, row->delta,
          named ? interval_kind(*row) + " " + row->interval : row->interval, row->margin,
          verdict_word(row->judgement.verdict)})
      columns[c++].cells.push_back(cell);
  }
  for (Column& column : columns) {
    column.used = std::any_of(column.cells.begin(), column.cells.end(),
                              [](const std::string& cell) { return !cell.empty(); });
  }
  return columns;
}

std::vector<std::string> remarks_of(const Row& row) {
  std::vector<std::string> out;
  if (row.judgement.verdict != Verdict::kNoPublishedValue && !row.judgement.reason.empty())
    out.push_back(row.judgement.reason);
  if (!row.note.empty()) out.push_back(row.note);
  return out;
}

}  // namespace reciperun
