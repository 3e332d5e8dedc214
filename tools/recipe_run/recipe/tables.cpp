// Reads files of tables line by line, the numbers in a cell, and where a locator points.
#include "tools/recipe_run/recipe/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr std::string_view kDocument = "document";
constexpr std::string_view kTable = "table";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a file line by line; knows where it is for messages.
class TableReader {
 public:
  explicit TableReader(const std::string& file) : file_(file) {}

  void line(const std::string& text) {
    ++line_;
    if (text.empty()) open_ = nullptr;
    if (text.empty() || (open_ == nullptr && text[0] == '#')) return;
    const std::vector<std::string> cells = split(text, '\t');
    if (open_ == nullptr && cells[0] == kDocument) {
      document(cells);
    } else if (open_ == nullptr && cells[0] == kTable) {
      begin(cells);
    } else if (open_ == nullptr && !out_.tables.empty()) {
      fail("a row outside of a table", "begin a table with 'table', a tab and its name");
    } else {
      row(cells);
    }
  }

  SourceFile take() && { return std::move(out_); }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw Error(Exit::kUsage, fmt::format("{}:{}: {}", file_, line_, what), hint);
  }

  void document(const std::vector<std::string>& cells) {
    if (cells.size() != 3 || !out_.document.empty() || !out_.tables.empty())
      fail("'document' stands once, before the tables, with a file name and a SHA-256",
           "separate the three by tabs");
    out_.document = cells[1];
  }

  void begin(const std::vector<std::string>& cells) {
    if (cells.size() != 2 || cells[1].empty())
      fail("'table' without a name", "write 'table', a tab and the name");
    if (out_.find(cells[1]) != nullptr)
      fail("table '" + cells[1] + "' stands here twice", "rename one of them");
    open_ = &out_.tables.emplace_back();
    open_->name = cells[1];
  }

  void row(const std::vector<std::string>& cells) {
    if (open_ == nullptr) open_ = &out_.tables.emplace_back();
    if (open_->columns.empty()) {
      header(cells);
    } else if (cells.size() != open_->columns.size()) {
      fail(fmt::format("{} cells under {} columns", cells.size(), open_->columns.size()),
           "cells are separated by tabs; '-' stands for an empty one");
    } else {
      open_->rows.push_back(cells);
    }
  }

  void header(const std::vector<std::string>& cells) {
    for (const std::string& title : cells) {
      if (std::count(cells.begin(), cells.end(), title) > 1)
        fail("two columns are called '" + title + "'", "column titles must differ");
    }
    open_->columns = cells;
  }

  const std::string& file_;
  int line_ = 0;
  SourceFile out_;
  SourceTable* open_ = nullptr;  // the last of out_.tables while its rows are read
};

std::string without_footnotes(std::string_view cell) {
  std::string out;
  for (size_t i = 0; i < cell.size(); ++i) {
    const size_t end = cell[i] == '[' ? cell.find(']', i) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += cell[i];
    } else {
      out += ' ';
      i = end;
    }
  }
  return out;
}

}  // namespace

int SourceTable::column(const std::string& title) const {
  const auto it = std::find(columns.begin(), columns.end(), title);
  return it == columns.end() ? -1 : static_cast<int>(it - columns.begin());
}

const SourceTable* SourceFile::find(std::string_view table) const {
  for (const SourceTable& candidate : tables) {
    const bool found = candidate.name.empty() ? join(candidate.columns, " ").starts_with(table)
                                              : candidate.name == table;
    if (found) return &candidate;
  }
  return nullptr;
}

SourceFile parse_source(const std::string& file, const std::string& text) {
  TableReader reader(file);
  for (const std::string& line : split(text, '\n')) reader.line(line);
  return std::move(reader).take();
}

std::vector<std::string> numbers_in(std::string_view cell) {
  const std::string text = without_footnotes(cell);
  std::vector<std::string> numbers;
  for (size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      ++i;
      continue;
    }
    const size_t start = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) {
      for (++i; i < text.size() && is_digit(text[i]);) ++i;
    }
    numbers.push_back(text.substr(start, i - start));
  }
  return numbers;
}

uint32_t whole_number(std::string_view digits) {
  uint32_t number = 0;
  const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), number).ec;
  return error == std::errc::result_out_of_range ? std::numeric_limits<uint32_t>::max() : number;
}

uint32_t count_in(const std::string& text) {
  const std::vector<std::string> digits = numbers_in(text);
  if (!digits.empty()) return whole_number(digits[0]);
  static const std::array<const char*, 9> kWords = {"two",   "three", "four", "five", "six",
                                                    "seven", "eight", "nine", "ten"};
  for (const std::string& word : split(text, ' ')) {
    const auto* const found = std::find(kWords.begin(), kWords.end(), word);
    if (found != kWords.end()) return static_cast<uint32_t>(found - kWords.begin()) + 2;
  }
  return 0;
}

std::optional<CellPlace> find_cell(const SourceFile& file, const v1::Locator& at,
                                   std::string& problem) {
  const SourceTable* table = file.find(at.table());
  const int column = table == nullptr ? -1 : table->column(at.column());
  if (table == nullptr) {
    problem = "the source has no table '" + at.table() + "'";
  } else if (column < 0) {
    problem = "the source has no column '" + at.column() + "'";
  }
  if (column < 0) return std::nullopt;
  std::vector<int> found;
  for (size_t row = 0; row < table->rows.size(); ++row) {
    const auto holds = [&](const v1::Cell& selector) {
      const int by = table->column(selector.column());
      return by >= 0 && table->rows[row][static_cast<size_t>(by)] == selector.equals();
    };
    if (std::all_of(at.where().begin(), at.where().end(), holds))
      found.push_back(static_cast<int>(row));
  }
  if (found.size() == 1) return CellPlace{table, found[0], column};
  problem = fmt::format("the locator selects {} rows, expected one", found.size());
  return std::nullopt;
}

}  // namespace reciperun
