#include "tools/recipe_run/report/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

namespace reciperun {
namespace {

// That of all rows that have an interval; nullopt if they differ.
std::optional<std::string> common_kind(const std::vector<const Row*>& rows) {
  std::set<std::string> kinds;
  for (const Row* row : rows) {
    if (!row->interval.empty()) kinds.insert(interval_kind(*row));
  }
  if (kinds.size() > 1) return std::nullopt;
  return kinds.empty() ? "interval" : *kinds.begin();
}

// Timings are repeated, everything else is run again.
std::string count_word(const std::vector<const Row*>& rows) {
  const bool timed = std::all_of(
      rows.begin(), rows.end(), [](const Row* row) { return row->statistic == Statistic::kRatio; });
  return timed ? "repeats" : "runs";
}

constexpr ColumnKind kKinds[] = {ColumnKind::kTitle,  ColumnKind::kNumber, ColumnKind::kNumber,
                                 ColumnKind::kNumber, ColumnKind::kNumber, ColumnKind::kText,
                                 ColumnKind::kNumber, ColumnKind::kNumber, ColumnKind::kNumber,
                                 ColumnKind::kVerdict};

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

std::string interval_kind(const Row& row) {
  if (row.interval.empty()) return "";
  if (!row.judgement.interval) return "range of repeats";
  if (row.judgement.interval_of_ratio) return "ratio";
  const bool extreme =
      row.statistic == Statistic::kLargest || row.statistic == Statistic::kSmallest;
  return extreme ? "expected range" : "difference";
}

ColumnKind column_kind(size_t column) { return kKinds[column]; }

std::vector<std::string> table_headings(const std::vector<const Row*>& rows,
                                        const TableWords& words) {
  return {"row",
          words.reference,
          "runs",
          words.own,
          count_word(rows),
          "unit",
          "Δ",
          common_kind(rows).value_or("interval"),
          "margin",
          "verdict"};
}

std::vector<std::string> table_cells(const Row& row, const std::vector<const Row*>& rows) {
  const bool named = !row.interval.empty() && !common_kind(rows);
  return {row.title,
          row.published,
          row.published_n,
          row.measured.empty() ? "—" : row.measured,
          row.measured_n,
          row.unit == "1" ? "" : row.unit,
          row.delta,
          named ? fmt::format("{} {}", interval_kind(row), row.interval) : row.interval,
          row.margin,
          verdict_word(row.judgement.verdict)};
}

bool column_used(const std::vector<const Row*>& rows, size_t column) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row* row) { return !table_cells(*row, rows)[column].empty(); });
}

bool shows_reason(const Row& row) {
  return row.judgement.verdict != Verdict::kNoPublishedValue && !row.judgement.reason.empty();
}

}  // namespace reciperun
