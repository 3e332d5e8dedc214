// JUnit's XML, as continuous-integration servers read it.
#include <map>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/export/export.h"

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

std::string facts_of(const Row& row) {
  const std::string unit = row.unit == "1" ? "" : " " + row.unit;
  std::string text = "published " + row.published + unit + "\nmeasured " +
                     (row.measured.empty() ? "—" : row.measured + unit) + "\n";
  if (!row.interval.empty()) text += "interval " + row.interval + "\n";
  if (!row.margin.empty()) text += "margin " + row.margin + "\n";
  if (!row.note.empty()) text += row.note + "\n";
  return text;
}

std::string test_case(const Report& report, const Row& row) {
  static const std::map<Outcome, std::string> kElements = {
      {Outcome::kFailed, "failure"}, {Outcome::kError, "error"}, {Outcome::kSkipped, "skipped"}};
  std::string out = "    <testcase classname=\"" + xml_escaped(report.run.recipe()) + "\" name=\"" +
                    xml_escaped(row.id) + "\" time=\"0\">\n";
  const auto element = kElements.find(outcome_of(row));
  if (element != kElements.end()) {
    const std::string word = verdict_word(row.judgement.verdict);
    const std::string message = word +
                                (row.judgement.reason.empty() ? "" : ": " + row.judgement.reason) +
                                (row.gate ? "" : " (does not decide the exit code)");
    out += "      <" + element->second + " message=\"" + xml_escaped(message) + "\"/>\n";
  }
  return out + "      <system-out>" + xml_escaped(facts_of(row)) +
         "</system-out>\n    </testcase>\n";
}

}  // namespace

std::string junit_xml(const Report& report) {
  std::map<Outcome, int> counts;
  std::string cases;
  for (const Row& row : report.rows) {
    ++counts[outcome_of(row)];
    cases += test_case(report, row);
  }
  const std::string totals = " tests=\"" + std::to_string(report.rows.size()) + "\" failures=\"" +
                             std::to_string(counts[Outcome::kFailed]) + "\" errors=\"" +
                             std::to_string(counts[Outcome::kError]) + "\" skipped=\"" +
                             std::to_string(counts[Outcome::kSkipped]) + "\"";
  std::string created = report.run.created();
  if (!created.empty() && created.back() == 'Z') created.pop_back();  // the schema has no zone
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + totals +
         ">\n  <testsuite name=\"" + xml_escaped(report.run.id()) + "\"" + totals +
         " time=\"0\" timestamp=\"" + xml_escaped(created) + "\">\n" + cases +
         "  </testsuite>\n</testsuites>\n";
}

}  // namespace reciperun
