#include "tools/recipe_run/sources/table_file.h"

#include <algorithm>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

constexpr std::string_view kDocument = "document";
constexpr std::string_view kTable = "table";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a file line by line; knows where it is for messages.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

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
    throw Error(Exit::kUsage, file_ + ":" + std::to_string(line_) + ": " + what, hint);
  }

  void document(const std::vector<std::string>& cells) {
    if (cells.size() != 3 || !out_.document.empty() || !out_.tables.empty())
      fail("'document' stands once, before the tables, with a file name and a SHA-256",
           "separate the three by tabs");
    out_.document = cells[1];
    out_.document_sha256 = cells[2];
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
      fail(std::to_string(cells.size()) + " cells under " + std::to_string(open_->columns.size()) +
               " columns",
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
    open_->line = line_;
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
  Reader reader(file);
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

}  // namespace reciperun
