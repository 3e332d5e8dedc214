// A report of one run, or the comparison of two, before it has a format: what it says and in which
// order. Every format shows the same tables of rows.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/judge/rows.h"

namespace reciperun {

// Headings of the two sides of a table.
struct TableWords {
  std::string reference = "published";
  std::string own = "measured";
};

// A list below its title; none without lines.
struct Section {
  std::string title;
  std::vector<std::string> lines;
};

struct Document {
  std::string title;
  std::vector<std::string> about;  // what ran where, a line each
  std::string summary;
  std::vector<Section> before, after;  // the tables
  std::vector<Row> rows;
  TableWords words = {};
  std::string figures = {}, sources = {};  // HTML alone: below the tables, and below everything
  std::string suite, suite_class;          // JUnit's names of the rows together, and of their kind
  std::string created = {};                // UTC; "" = unknown
};

// `columns` of the terminal; 0: lines of any length. Where they do not hold a table, every row is a
// block of lines.
std::string console_text(const Document& document, int columns = 0);
std::string markdown_text(const Document& document);
// A self-contained page: no script, no network, readable on paper, phone and dark screens.
std::string html_text(const Document& document);

// The rows as test cases in JUnit's XML, as continuous-integration servers read it. Only gate rows
// can fail or err, so that the file says what the exit code says: DIFFERS (worse) is a failure;
// INCONCLUSIVE and INVALID are errors. All other rows without agreement are skipped, with the
// reason.
std::string junit_text(const Document& document);

std::string html_escaped(const std::string& text);

}  // namespace reciperun
