// Reports of a synthetic run of the quickstart recipe: the same facts in every format, and each
// format well formed.
#include "tools/recipe_run/report/report.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/document.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

double noise(double i) {
  return std::fmod(std::abs(std::sin(i * 12.9898) * 43758.5453), 1.0) - 0.5;
}

Trial synthetic_trial(uint64_t seed, double accuracy) {
  Trial trial;
  trial.name = trial_name(seed);
  trial.title = "seed " + std::to_string(seed);
  trial.seed = seed;
  trial.metrics = {{"accuracy", accuracy}, {"loss", 0.19}};
  trial.train_seconds = 88 + static_cast<double>(seed);
  constexpr int kSteps = 1872;
  for (int i = 1; i <= kSteps; ++i) {
    const double epoch = 4.0 * i / kSteps;
    const double loss = 0.14 + 2.1 * std::exp(-epoch * 4) + 0.3 * std::exp(-epoch * 0.8);
    trial.loss_curve.push_back(
        {epoch, loss * (1 + 0.35 * noise(i + 7777.0 * static_cast<double>(seed)))});
  }
  for (int e = 1; e <= 4; ++e) {
    trial.metric_curve.push_back(
        {static_cast<double>(e),
         accuracy - 0.05 * std::exp(-e) * (1 + 0.3 * noise(e + 3.0 * static_cast<double>(seed)))});
  }
  return trial;
}

BenchResult synthetic_bench(const std::string& id, uint32_t batch, double seconds) {
  BenchResult bench;
  bench.bench = id;
  bench.batch = batch;
  for (int r = 0; r < 7; ++r) {
    BenchRepeat repeat;
    double total = 0;
    for (int i = 0; i < 1000; ++i) {
      const double u = noise(i + 1000.0 * r) + 0.5;
      const double t =
          seconds * (1 + 0.02 * u + 0.004 * r + (u > 0.97 ? 0.3 * (u - 0.97) / 0.03 : 0));
      repeat.step_seconds.push_back(t);
      total += t;
    }
    repeat.items_per_second = 1000 * batch / total;
    bench.repeats.push_back(std::move(repeat));
  }
  bench.noise = step_checks(bench.repeats[0].step_seconds);
  return bench;
}

Report synthetic_report() {
  Report report;
  report.recipe =
      load_recipe({fs::path(ASSAY_SOURCE_DIR) / "recipes", "fashion_mnist/cnn_2conv_bn"}).recipe;
  report.run.set_id("20261121T093012Z-cnn_2conv_bn-409eff63");
  report.run.set_recipe(report.recipe.id());
  report.run.set_recipe_version("1.0.0");
  report.run.set_exec_digest(std::string(64, 'a'));
  report.run.set_expect_digest(std::string(64, 'b'));
  report.run.set_device("Some CPU @ 2.60GHz, 2 of 2 threads, 8 GiB");
  report.run.set_engine("assay 0.1.0");
  report.measurements.trials = {synthetic_trial(1, 0.9338), synthetic_trial(2, 0.9325),
                                synthetic_trial(3, 0.9351)};
  report.measurements.benches = {synthetic_bench("infer", 1, 0.0011),
                                 synthetic_bench("infer", 64, 0.031),
                                 synthetic_bench("train", 128, 0.12)};
  report.rows = make_rows(report.recipe, report.measurements);
  report.exit = exit_of_rows(report.rows, false);
  return report;
}

TEST(ReportTest, ConsoleIsAlignedAndSaysEverything) {
  const std::string text = console_text(document_of(synthetic_report()));
  EXPECT_THAT(text, HasSubstr("0.9338 ± 0.0013"));
  EXPECT_THAT(text, HasSubstr("WITHIN TOLERANCE"));
  EXPECT_THAT(text, HasSubstr("NO PUBLISHED VALUE"));
  EXPECT_THAT(text, HasSubstr("NOT RUN"));  // batch 256 was not measured
  EXPECT_THAT(text, HasSubstr("3 of 3 trials finished · required rows: 1 WITHIN TOLERANCE"));
  // Every verdict begins in the same terminal column.
  std::set<int> columns;
  for (const std::string& line : split(text, '\n')) {
    for (const char* word : {"NO PUBLISHED VALUE", "NOT RUN", "verdict"}) {
      const size_t at = line.find(word);
      if (at != std::string::npos && line.find("·") == std::string::npos)
        columns.insert(display_width(line.substr(0, at)));
    }
  }
  EXPECT_EQ(columns.size(), 1u) << text;
}

TEST(ReportTest, JunitHasACaseForEveryRow) {
  Report report = synthetic_report();
  report.rows[0].gate = true;
  report.rows[0].judgement.verdict = Verdict::kDiffersWorse;
  report.rows[1].id = "a<b>&\"c\"\x01";
  const std::string xml = junit_text(document_of(report));
  EXPECT_THAT(xml, HasSubstr(" tests=\"" + std::to_string(report.rows.size()) +
                             "\" failures=\"1\" errors=\"0\""));
  EXPECT_THAT(xml, HasSubstr(R"(<failure message="DIFFERS (worse))"));
  EXPECT_THAT(xml, HasSubstr("name=\"a&lt;b&gt;&amp;&quot;c&quot;\""));
}

TEST(ReportTest, FitsANarrowTerminal) {
  Report report = synthetic_report();
  report.rows[0].judgement.reason = std::string(30, 'x') + " " + std::string(40, 'y');
  for (const int columns : {60, 80, 100}) {
    const std::string text = folded(console_text(document_of(report), columns), columns);
    for (const std::string& line : split(text, '\n'))
      EXPECT_LE(display_width(line), columns) << line;
    EXPECT_THAT(text, HasSubstr("measured 0.9338 ± 0.0013 (3 runs)"));
    EXPECT_THAT(text, HasSubstr("WITHIN TOLERANCE\n    published 0.934"));
  }
  EXPECT_EQ(console_text(document_of(report), 0), console_text(document_of(report), 1000))
      << "a table that fits stays one";
}

TEST(ReportTest, ChangesAreListedOnce) {
  Report report = synthetic_report();
  EXPECT_THAT(console_text(document_of(report)), Not(HasSubstr("changed for this run")));
  for (const char* path : {"training.epochs", "io.threads"}) {
    Change& change = *report.run.add_modification();
    change.set_path(path);
    change.set_to("5");
    change.set_free(change.path() == "io.threads");
  }
  for (const std::string& text :
       {console_text(document_of(report)), markdown_text(document_of(report)),
        html_text(document_of(report))}) {
    EXPECT_THAT(text, HasSubstr("training.epochs unset → 5"));
    EXPECT_THAT(text, Not(HasSubstr("io.threads")));
  }
}

TEST(ReportTest, EveryPublishedNumberNamesItsCell) {
  const Report report = synthetic_report();
  const std::string text = html_text(document_of(report));
  for (const v1::Expect& expect : report.recipe.expect()) {
    if (!expect.has_at()) continue;
    EXPECT_THAT(text, HasSubstr("<td class=\"w\" data-h=\"printed\">" +
                                html_escaped(expect.at().printed()) + "</td>"));
  }
  EXPECT_THAT(text, HasSubstr("<details><summary>The cell of each published number"));
}

record::Shard shard(int64_t samples, double accuracy) {
  record::Shard out;
  out.set_samples(samples);
  (*out.mutable_metric())["accuracy"] = accuracy;
  return out;
}

TEST(ReportTest, PartsOfAnEvaluationStandBesideTheWhole) {
  Report report = synthetic_report();
  for (const std::string& text :
       {console_text(document_of(report)), markdown_text(document_of(report)),
        html_text(document_of(report))})
    EXPECT_THAT(text, Not(HasSubstr("evaluation by part")));
  Trial& trial = report.measurements.trials[1];
  trial.shards = {shard(3333, 0.9301), shard(3334, 0.9349)};
  const std::string words = "accuracy: 93.25 % merged; 2 parts of 3,333 to 3,334: 93.01 93.49";
  EXPECT_THAT(console_text(document_of(report)), HasSubstr("seed 2, " + words));
  EXPECT_THAT(markdown_text(document_of(report)), HasSubstr(words));
  EXPECT_THAT(html_text(document_of(report)), HasSubstr(words));
  EXPECT_THAT(json_report(report), HasSubstr("\"samples\": \"3334\""));
  trial.shards = {shard(4, 0.25), shard(4, 0.5)};
  EXPECT_THAT(console_text(document_of(report)), HasSubstr("2 parts of 4: 25.00 50.00"));
}

TEST(ReportTest, SaysWhatLimitsAThroughput) {
  const auto note = [](double load, double compute) {
    Report report = synthetic_report();
    for (BenchRepeat& repeat : report.measurements.benches[2].repeats) {
      repeat.load_rate = load;
      repeat.compute_rate = compute;
    }
    const double rate = report.measurements.benches[2].repeats[3].items_per_second;
    EXPECT_NEAR(rate, 1030, 30);
    report.rows = make_rows(report.recipe, report.measurements);
    return console_text(document_of(report));
  };
  EXPECT_THAT(note(1100, 4000),
              HasSubstr("input-bound: loading alone gives 1,100 img/s, computing alone 4,000"));
  EXPECT_THAT(note(9000, 1500), HasSubstr("loading costs 31 %: loading alone gives 9,000 img/s"));
  for (const std::string& quiet : {note(9000, 1100), note(0, 0)}) {
    EXPECT_THAT(quiet, Not(HasSubstr("input-bound")));
    EXPECT_THAT(quiet, Not(HasSubstr("loading costs")));
  }
}

TEST(ReportTest, JsonParsesAndCarriesTheInputsOfTheTests) {
  google::protobuf::Struct parsed;
  const std::string text = json_report(synthetic_report());
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &parsed).ok())
      << text.substr(0, 400);
  const auto& row = parsed.fields().at("row").list_value().values(0 + 13).struct_value().fields();
  EXPECT_EQ(row.at("id").string_value(), "accuracy");
  EXPECT_EQ(row.at("verdict").string_value(), "WITHIN TOLERANCE");
  EXPECT_NEAR(row.at("test").struct_value().fields().at("own_mean").number_value(), 0.9338, 1e-9);
  EXPECT_EQ(row.at("value").list_value().values_size(), 3);
  EXPECT_EQ(parsed.fields().at("exit").number_value(), 0);
}

TEST(ReportTest, MarkdownTablesHaveEqualCells) {
  const std::string text = markdown_text(document_of(synthetic_report()));
  std::set<std::ptrdiff_t> pipes;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line[0] == '|') pipes.insert(std::count(line.begin(), line.end(), '|'));
  }
  EXPECT_THAT(text, HasSubstr("**WITHIN TOLERANCE**"));
}

// Tags open and close in order; enough to catch a forgotten end tag.
void expect_balanced(const std::string& html) {
  static const std::set<std::string> kVoid = {"meta",     "line",    "rect",
                                              "polyline", "polygon", "!doctype"};
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag.back() == '/') continue;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag.substr(1)) << html.substr(at > 200 ? at - 200 : 0, 260);
      open.pop_back();
    } else if (kVoid.count(name) == 0) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(ReportTest, HtmlIsSelfContainedAndWellFormed) {
  const std::string html = html_text(document_of(synthetic_report()));
  expect_balanced(html.substr(html.find('\n') + 1));
  for (const char* foreign : {"<script", "http://", "https://", "url(", "@import", "src="}) {
    EXPECT_THAT(html, Not(HasSubstr(foreign)));
  }
  EXPECT_THAT(html, HasSubstr("Training loss"));
  EXPECT_THAT(html, HasSubstr("range over seeds"));
  EXPECT_THAT(html, HasSubstr("Inference latency, batch 64"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  // For a look at it: RECIPE_RUN_REPORT=/some/file.html runs this test and keeps the page.
  if (const char* keep = std::getenv("RECIPE_RUN_REPORT")) write_file_atomic(keep, html);
}

TEST(ReportTest, NothingMeasuredStillGivesAReport) {
  Report report = synthetic_report();
  report.measurements = {};
  report.rows = make_rows(report.recipe, report.measurements);
  EXPECT_THAT(console_text(document_of(report)), HasSubstr("NOT RUN"));
  EXPECT_THAT(html_text(document_of(report)), Not(HasSubstr("<svg")));
}

TEST(ReportTest, TextFromRecipesIsEscaped) {
  Report report = synthetic_report();
  report.recipe.set_title("<script>alert(1)</script> & | `x`");
  EXPECT_THAT(html_text(document_of(report)), Not(HasSubstr("<script>")));
  EXPECT_THAT(markdown_text(document_of(report)), HasSubstr("\\|"));
}

TEST(TextTest, WidthsNumbersAndDurations) {
  EXPECT_EQ(display_width("Δ ±0.5 →"), 8);
  EXPECT_EQ(pad_left("Δ", 3), "  Δ");
  EXPECT_EQ(significant(12345.6), "12,346");
  EXPECT_EQ(significant(1234.56), "1,235");
  EXPECT_EQ(significant(0.012345), "0.01235");
  EXPECT_EQ(fixed(-0.0004, 3), "0.000");
  EXPECT_EQ(signed_fixed(0.25, 1), "+0.2");
  EXPECT_EQ(fixed(-1.5, 1), "\u22121.5");
  EXPECT_EQ(duration_text(45), "45 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
  EXPECT_EQ(shortest(1e21), "1e+21");
  EXPECT_EQ(shortest(123456789012.0), "123456789012");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(1e-7), "1e-7");
  EXPECT_EQ(shortest(0.000001), "0.000001");
  EXPECT_EQ(shortest(-1.5e300), "-1.5e+300");
}

TEST(TextTest, FoldsAtBlanksBelowTheLastColumn) {
  EXPECT_EQ(folded("short\n\nlines\n", 10), "short\n\nlines\n");
  const std::string line = "rows      one two three four five six seven eight";
  EXPECT_EQ(folded(line, 40), "rows      one two three four five six\n          seven eight");
  EXPECT_EQ(folded("  ↳ αβγ δεζ ηθι κλμ νξο πρσ τυφ χψω αβγ", 32),
            "  ↳ αβγ δεζ ηθι κλμ νξο πρσ τυφ\n    χψω αβγ");
  // No room below the last column, no blank to break at.
  EXPECT_EQ(folded("a                    b c d e f g h i", 30),
            "a                    b c d e f\n    g h i");
  EXPECT_EQ(folded(std::string(50, 'x') + " y", 20), std::string(50, 'x') + "\n    y");
}

}  // namespace
}  // namespace reciperun
