// JUnit's XML, as continuous-integration servers read it.
#include "tools/recipe_run/report/junit.h"

#include <map>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

std::string xml_escaped(const std::string& text) {
  static const std::map<char, std::string> kEscapes = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) {
    const auto escape = kEscapes.find(c);
    if (escape != kEscapes.end()) {
      out += escape->second;
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n') {  // XML 1.0 has no others
      out += c;
    }
  }
  return out;
}

enum class Outcome { kPassed, kFailed, kError, kSkipped };

Outcome outcome_of(const Row& row) {
  switch (row.judgement.verdict) {
    case Verdict::kReproduced:
    case Verdict::kWithinTolerance:
    case Verdict::kConsistent:
    case Verdict::kDiffersBetter:
      return Outcome::kPassed;
    case Verdict::kDiffersWorse:
      return row.gate ? Outcome::kFailed : Outcome::kSkipped;
    case Verdict::kInconclusive:
    case Verdict::kInvalid:
      return row.gate ? Outcome::kError : Outcome::kSkipped;
    default:
      return Outcome::kSkipped;
  }
}

std::string facts_of(const Row& row, const TableWords& words) {
  const std::string unit = row.unit == "1" ? "" : " " + row.unit;
  std::string text = words.reference + " " + row.published + unit + "\n" + words.own + " " +
                     (row.measured.empty() ? "—" : row.measured + unit) + "\n";
  if (!row.interval.empty()) text += interval_kind(row) + " " + row.interval + "\n";
  if (!row.margin.empty()) text += "margin " + row.margin + "\n";
  if (!row.note.empty()) text += row.note + "\n";
  return text;
}

std::string test_case(const JunitSuite& suite, const Row& row, const TableWords& words) {
  static const std::map<Outcome, std::string> kElements = {
      {Outcome::kFailed, "failure"}, {Outcome::kError, "error"}, {Outcome::kSkipped, "skipped"}};
  std::string out = "    <testcase classname=\"" + xml_escaped(suite.class_name) + "\" name=\"" +
                    xml_escaped(row.id) + "\" time=\"0\">\n";
  const auto element = kElements.find(outcome_of(row));
  if (element != kElements.end()) {
    const std::string word = verdict_word(row.judgement.verdict);
    const std::string message = word +
                                (row.judgement.reason.empty() ? "" : ": " + row.judgement.reason) +
                                (row.gate ? "" : " (does not decide the exit code)");
    out += "      <" + element->second + " message=\"" + xml_escaped(message) + "\"/>\n";
  }
  return out + "      <system-out>" + xml_escaped(facts_of(row, words)) +
         "</system-out>\n    </testcase>\n";
}

}  // namespace

std::string junit_rows(const JunitSuite& suite, const std::vector<Row>& rows,
                       const TableWords& words) {
  std::map<Outcome, int> counts;
  std::string cases;
  for (const Row& row : rows) {
    ++counts[outcome_of(row)];
    cases += test_case(suite, row, words);
  }
  const std::string totals = " tests=\"" + std::to_string(rows.size()) + "\" failures=\"" +
                             std::to_string(counts[Outcome::kFailed]) + "\" errors=\"" +
                             std::to_string(counts[Outcome::kError]) + "\" skipped=\"" +
                             std::to_string(counts[Outcome::kSkipped]) + "\"";
  std::string created = suite.created;
  if (!created.empty() && created.back() == 'Z') created.pop_back();  // the schema has no zone
  if (!created.empty()) created = " timestamp=\"" + xml_escaped(created) + "\"";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + totals +
         ">\n  <testsuite name=\"" + xml_escaped(suite.name) + "\"" + totals + " time=\"0\"" +
         created + ">\n" + cases + "  </testsuite>\n</testsuites>\n";
}

std::string junit_xml(const Report& report) {
  return junit_rows({report.run.id(), report.run.recipe(), report.run.created()}, report.rows);
}

}  // namespace reciperun
