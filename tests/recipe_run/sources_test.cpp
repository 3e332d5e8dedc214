// Copies of published tables: their format, the cells that expectations point at, and whether they
// are what the documents print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/comparability.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/sources/document.h"
#include "tools/recipe_run/sources/table_file.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";
const fs::path kDocuments = fs::path(ASSAY_SOURCE_DIR) / "../shared/seeds";

std::string refusal(const std::string& text) {
  try {
    parse_source("t.tsv", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SourceFile, HoldsNamedTables) {
  const SourceFile file = parse_source(
      "t.tsv",
      "# of this file\ndocument\td.txt\tabc\n\ntable\tfirst\n# of epochs\ttop1\n50\t76.3\n\n"
      "# a remark\ntable\tsecond\nGPUs\trate\n1\t10\n8\t80\n");
  EXPECT_EQ(file.document, "d.txt");
  EXPECT_EQ(file.document_sha256, "abc");
  ASSERT_EQ(file.tables.size(), 2u);
  EXPECT_THAT(file.tables[0].columns, ElementsAre("# of epochs", "top1"));
  EXPECT_EQ(file.tables[0].line, 5);
  ASSERT_NE(file.find("second"), nullptr);
  EXPECT_THAT(file.find("second")->rows[1], ElementsAre("8", "80"));
  EXPECT_EQ(file.find("third"), nullptr);
}

TEST(SourceFile, OneTableNeedsNoName) {
  const SourceFile file = parse_source("t.tsv", "# remark\nname\tscore\na\t1\n");
  ASSERT_NE(file.find("name"), nullptr);
  EXPECT_EQ(file.find("score"), nullptr);
}

TEST(SourceFile, RefusesWhatIsNoTable) {
  EXPECT_THAT(refusal("table\ta\nx\ty\n1\n"), HasSubstr("t.tsv:3: 1 cells under 2 columns"));
  EXPECT_THAT(refusal("table\ta\nx\tx\n"), HasSubstr("t.tsv:2: two columns are called 'x'"));
  EXPECT_THAT(refusal("table\ta\nx\n\ntable\ta\n"), HasSubstr("'a' stands here twice"));
  EXPECT_THAT(refusal("table\ta\nx\n\nstray\n"), HasSubstr("t.tsv:4: a row outside"));
  EXPECT_THAT(refusal("table\n"), HasSubstr("without a name"));
  EXPECT_THAT(refusal("document\tx\n"), HasSubstr("SHA-256"));
}

TEST(Cell, NumbersLeaveOutFootnotes) {
  EXPECT_THAT(numbers_in("[1]29171.69w/XLA 24734.22"), ElementsAre("29171.69", "24734.22"));
  EXPECT_THAT(numbers_in("87.19 / 92.85"), ElementsAre("87.19", "92.85"));
  EXPECT_THAT(numbers_in("15724.70 bsz=160"), ElementsAre("15724.70", "160"));
  EXPECT_THAT(numbers_in("1.84x"), ElementsAre("1.84"));
  EXPECT_THAT(numbers_in("8."), ElementsAre("8"));
  EXPECT_THAT(numbers_in("[2] -"), IsEmpty());
  EXPECT_THAT(numbers_in("[3"), ElementsAre("3"));
}

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("sources_test_" + std::to_string(getpid()));
    text_ = "# origin\nname\tkind\tscore\na\tx\t0.934\na\ty\t0.9\n";
    put(text_);
  }
  void put(const std::string& text) { write_file_atomic(root_ / "t.tsv", text); }
  v1::Recipe recipe(const std::string& printed, double value) {
    v1::Recipe r;
    v1::Source& source = *r.add_source();
    source.set_id("s");
    source.set_file("t.tsv");
    source.set_sha256(sha256_hex(text_));
    v1::Expect& expect = *r.add_expect();
    expect.set_id("e");
    expect.mutable_single()->set_v(value);
    v1::Locator& at = *expect.mutable_at();
    at.set_source("s");
    for (const auto& [column, equals] : {std::pair{"name", "a"}, std::pair{"kind", "x"}}) {
      v1::Cell& cell = *at.add_where();
      cell.set_column(column);
      cell.set_equals(equals);
    }
    at.set_column("score");
    at.set_printed(printed);
    return r;
  }
  std::string problem(const v1::Recipe& r) {
    const auto problems = verify_sources(r, root_);
    return problems.empty() ? "" : problems[0].text;
  }
  fs::path root_;
  std::string text_;
};

TEST_F(VerifyTest, AnyChangedCharacterIsFound) {
  EXPECT_EQ(problem(recipe("0.934", 0.934)), "");
  EXPECT_THAT(problem(recipe("0.935", 0.935)), HasSubstr("prints '0.934'"));
  EXPECT_THAT(problem(recipe("0.934", 0.943)), HasSubstr("0.943 is not the printed"));
  v1::Recipe ambiguous = recipe("0.934", 0.934);
  ambiguous.mutable_expect(0)->mutable_at()->mutable_where()->RemoveLast();
  EXPECT_THAT(problem(ambiguous), HasSubstr("selects 2 rows"));
  v1::Recipe wrong_column = recipe("0.934", 0.934);
  wrong_column.mutable_expect(0)->mutable_at()->set_column("scores");
  EXPECT_THAT(problem(wrong_column), HasSubstr("no column 'scores'"));
  put("# orig1n\nname\tkind\tscore\na\tx\t0.934\na\ty\t0.9\n");
  EXPECT_THAT(problem(recipe("0.934", 0.934)), HasSubstr("has digest"));
}

TEST_F(VerifyTest, PartsAndFurtherCells) {
  put("name\tpair\tseed 1\tseed 2\tmean\na\t87.19 / 92.85\t1.5\t2.5\t2.0\n");
  text_ = read_file(root_ / "t.tsv");
  v1::Recipe r = recipe("92.85", 92.85);
  v1::Locator& at = *r.mutable_expect(0)->mutable_at();
  at.mutable_where()->RemoveLast();
  at.set_column("pair");
  at.set_part(2);
  EXPECT_EQ(problem(r), "");
  at.set_part(3);
  EXPECT_THAT(problem(r), HasSubstr("prints ''"));
  at.set_part(0);
  at.set_column("mean");
  at.set_printed("2.0");
  v1::Sample& sample = *r.mutable_expect(0)->mutable_sample();
  sample.set_printed_mean(2);
  sample.add_v(1.5);
  EXPECT_THAT(problem(r), HasSubstr("states 2 numbers, its locator names 1 cells"));
  v1::Cell& also = *at.add_also();
  also.set_column("seed 1");
  also.set_equals("1.5");
  EXPECT_EQ(problem(r), "");
  also.set_equals("1.6");
  EXPECT_THAT(problem(r), HasSubstr("prints '1.5', the recipe says '1.6'"));
}

TEST(Document, EveryRowMustFollowTheOneBefore) {
  const std::string text = "intro\n**GPUs** | rate |\n---|---|\n1 | 10 |\n8 | 80 |\nThe  end.";
  const auto problems = [&](const std::string& rows, const std::string& sentence) {
    return document_problems(
        parse_source("t.tsv", "document\td\t" + sha256_hex(text) + "\n\ntable\ta\nGPUs\trate\n" +
                                  rows + "\ntable\ttext\nabout\tprinted\nx\t" + sentence + "\n"),
        text);
  };
  EXPECT_THAT(problems("1\t10\n8\t80\n", "The end."), IsEmpty());
  EXPECT_THAT(problems("1\t10\n8\t81\n", "The end."),
              ElementsAre(HasSubstr("row 2: the document prints '8 | 80")));
  EXPECT_THAT(problems("8\t80\n", "The end."), ElementsAre(HasSubstr("row 1")));
  EXPECT_THAT(problems("1\t1\n", "The end."), ElementsAre(HasSubstr("row 1")));
  EXPECT_THAT(problems("1\t10\n", "An end."), ElementsAre(HasSubstr("does not say 'An end.'")));
  EXPECT_THAT(document_problems(parse_source("t.tsv", "document\td\tabc\n"), text),
              ElementsAre(HasSubstr("has digest")));
}

TEST(Document, TheCopiedTablesAreThePublishedOnes) {
  if (!fs::exists(kDocuments)) GTEST_SKIP() << "the published documents are not at " << kDocuments;
  int documents = 0;
  for (const auto& entry : fs::directory_iterator(kRecipes / "sources")) {
    const SourceFile file = parse_source(entry.path().filename(), read_file(entry.path()));
    if (file.document.empty()) continue;
    EXPECT_THAT(document_problems(file, read_file(kDocuments / file.document)), IsEmpty())
        << entry.path();
    ++documents;
  }
  EXPECT_EQ(documents, 5);
}

// "table/column" → rows in which an expectation cites that cell, by source file.
using Citations = std::map<std::string, std::map<std::string, std::multiset<std::string>>>;

void cite(Citations& out, const std::string& file, const CellPlace& place, uint32_t part,
          const std::string& column) {
  const auto& row = place.table->rows[static_cast<size_t>(place.row)];
  const auto at = static_cast<size_t>(place.table->column(column));
  const std::string& cell = row[at];
  const std::string number = part == 0 ? numbers_in(cell)[0] : numbers_in(cell)[part - 1];
  out[file][place.table->name + "/" + column].insert(std::to_string(place.row) + ":" + number);
}

// Recipes that are not comparable show numbers again: the others' are counted.
Citations citations() {
  Citations out;
  for (const std::string& id : recipe_ids(kRecipes)) {
    const v1::Recipe recipe = load_recipe({kRecipes, id}).recipe;
    if (!incomparable_as_it_stands(recipe).empty()) continue;
    std::map<std::string, std::string> names;
    std::map<std::string, SourceFile> files;
    for (const v1::Source& source : recipe.source()) {
      names[source.id()] = source.file();
      files[source.id()] = parse_source(source.file(), read_file(kRecipes / source.file()));
    }
    for (const v1::Expect& expect : recipe.expect()) {
      if (!expect.has_at()) continue;
      std::string problem;
      const auto place = find_cell(files.at(expect.at().source()), expect.at(), problem);
      const std::string& name = names.at(expect.at().source());
      cite(out, name, *place, expect.at().part(), expect.at().column());
      if (!expect.has_sample()) continue;
      for (const v1::Cell& cell : expect.at().also()) cite(out, name, *place, 0, cell.column());
    }
  }
  return out;
}

// What is printed in a table but is no result: the settings of a row, and the batch sizes that
// stand beside two columns' numbers.
bool is_setting(const std::string& column) {
  static const std::set<std::string> kSettings = {
      "GPUs",      "# of epochs",      "Batch size",      "Resolution",     "Image size",
      "Precision", "Local Batch size", "Sequence length", "DGX System",     "SQuAD version",
      "Framework", "Source",           "Config",          "Accuracy Metric"};
  return kSettings.count(column) == 1 || column.starts_with("Batch size / GPU") ||
         column.starts_with("Accumulation steps");
}

// The scaling of one GPU over one GPU: a definition.
bool is_unity(const SourceTable& table, const std::vector<std::string>& row,
              const std::string& column) {
  return column.starts_with("Weak scaling") &&
         row[static_cast<size_t>(table.column("GPUs"))] == "1";
}

std::vector<std::string> result_numbers(const SourceTable& table, size_t row, size_t column) {
  const std::string& title = table.columns[column];
  if (is_setting(title) || is_unity(table, table.rows[row], title)) return {};
  std::vector<std::string> numbers = numbers_in(table.rows[row][column]);
  const bool batch_beside = table.rows[row][column].find("bsz=") != std::string::npos;
  if (batch_beside) numbers.pop_back();
  return numbers;
}

TEST(Sources, EveryPublishedNumberIsOneExpectation) {
  Citations cited = citations();
  int numbers = 0;
  for (const auto& entry : fs::directory_iterator(kRecipes / "sources")) {
    const SourceFile file = parse_source(entry.path().filename(), read_file(entry.path()));
    if (file.document.empty()) continue;
    auto& of_file = cited["sources/" + entry.path().filename().string()];
    for (const SourceTable& table : file.tables) {
      if (table.name == kTextTable) continue;
      for (size_t row = 0; row < table.rows.size(); ++row) {
        for (size_t column = 0; column < table.columns.size(); ++column) {
          const std::string at = table.name + "/" + table.columns[column];
          for (const std::string& number : result_numbers(table, row, column)) {
            ++numbers;
            EXPECT_EQ(of_file[at].count(std::to_string(row) + ":" + number), 1u)
                << entry.path().filename() << " " << at << " row " << row + 1 << ": " << number;
          }
        }
      }
    }
  }
  EXPECT_EQ(numbers, 1127);
}

}  // namespace
}  // namespace reciperun
