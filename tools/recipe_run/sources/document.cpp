#include "tools/recipe_run/sources/document.h"

#include <algorithm>

#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

// One blank for every run of blanks, tabs and line ends; no "**".
std::string without_layout(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool blank = text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r';
    if (text.compare(i, 2, "**") == 0) {
      ++i;
    } else if (!blank) {
      out += text[i];
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

class Comparison {
 public:
  explicit Comparison(std::string document) : document_(std::move(document)) {}

  void table(const SourceTable& table) {
    const std::string header = join(table.columns, " | ");
    const size_t found = document_.find(header, at_);
    if (found == std::string::npos) {
      problems_.push_back("table '" + table.name +
                          "': the document has no such header from there on");
      return;
    }
    at_ = found + header.size();
    skip(" |-:");  // the line below a header
    for (size_t row = 0; row < table.rows.size(); ++row) {
      if (!follows(join(table.rows[row], " | "))) {
        problems_.push_back("table '" + table.name + "', row " + std::to_string(row + 1) +
                            ": the document prints '" + document_.substr(at_, 60) + "'");
        return;
      }
    }
  }

  void sentence(const std::string& text) {
    if (document_.find(text) == std::string::npos)
      problems_.push_back("the document does not say '" + text + "'");
  }

  std::vector<std::string> take() && { return std::move(problems_); }

 private:
  // Whether the document goes on with `row` as whole cells; if so, goes behind it.
  bool follows(const std::string& row) {
    const size_t end = at_ + row.size();
    if (document_.compare(at_, row.size(), row) != 0) return false;
    if (end < document_.size() && document_[end] != ' ') return false;
    at_ = end;
    skip(" |");
    return true;
  }

  void skip(const char* characters) {
    at_ = std::min(document_.find_first_not_of(characters, at_), document_.size());
  }

  std::string document_;
  size_t at_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> document_problems(const SourceFile& file, const std::string& document) {
  if (sha256_hex(document) != file.document_sha256) {
    return {file.document + " has digest " + sha256_hex(document) +
            ", the tables were copied from " + file.document_sha256};
  }
  Comparison comparison(without_layout(document));
  for (const SourceTable& table : file.tables) {
    if (table.name != kTextTable) {
      comparison.table(table);
      continue;
    }
    for (const auto& row : table.rows) comparison.sentence(row.back());
  }
  return std::move(comparison).take();
}

}  // namespace reciperun
