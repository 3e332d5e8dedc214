// The copies of published tables in recipes/sources: tab-separated files of one or several tables.
//
//   # comment                              (not inside a table: a header may begin with '#')
//   document<TAB>file name<TAB>SHA-256     the published document, where all of it is copied
//                                          (blank line)
//   table<TAB>name                         one line that names a table, then its header,
//   GPUs<TAB>Throughput                    then its rows up to the next blank line
//   8<TAB>10723
//
// A file of one table may leave out everything but header and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

struct SourceTable {
  std::string name;  // "" in a file of one unnamed table
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns

  // Position of a column, -1 if there is none.
  int column(const std::string& title) const;
};

struct SourceFile {
  std::string document;  // file name of the published document, "" if the file names none
  std::vector<SourceTable> tables;

  // By name; the table of a file without names is found by the beginning of its header. nullptr if
  // there is none.
  const SourceTable* find(std::string_view table) const;
};

// Fails (Exit::kUsage) with file and line on rows of another length than their header, on a column,
// a table or a document named twice.
SourceFile parse_source(const std::string& file, const std::string& text);

// The name of the table that holds sentences instead of numbers.
constexpr std::string_view kTextTable = "text";

// The numbers in a cell, as printed: "8 : 16" has two, "[1]29171.69w/XLA 24734.22" too, for a mark
// in brackets is a footnote.
std::vector<std::string> numbers_in(std::string_view cell);
// The whole number that `digits` begins with, 0 if with none; at most the largest there is.
uint32_t whole_number(std::string_view digits);
// "two" to "ten" or the first number in digits; 0 if the text has none.
uint32_t count_in(const std::string& text);

// A cell of a table, by position.
struct CellPlace {
  const SourceTable* table = nullptr;
  int row = 0;
  int column = 0;

  const std::string& title() const { return table->columns[static_cast<size_t>(column)]; }
  const std::string& text() const { return cell(column); }
  const std::string& cell(int at) const {
    return table->rows[static_cast<size_t>(row)][static_cast<size_t>(at)];
  }
};
// Where a locator points; nullopt with `problem` set if nowhere or at several rows.
std::optional<CellPlace> find_cell(const SourceFile& file, const v1::Locator& at,
                                   std::string& problem);

}  // namespace reciperun
