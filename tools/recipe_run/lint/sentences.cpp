// Sentences of the document against its numbers. Which sentence speaks about what is noted beside
// it in the copied tables: the part of "about" before the machine.
#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"
#include "tools/recipe_run/lint/workload.h"

namespace reciperun::lint {
namespace {

struct Sentence {
  std::string file;
  std::string about;
  std::string text;

  bool speaks_of(std::string_view subject) const { return about.starts_with(subject); }
  bool says(std::string_view words) const { return text.find(words) != std::string::npos; }
  // "dgx1" of "inference.latency_unit.dgx1".
  std::string machine() const { return about.substr(about.rfind('.') + 1); }
};

void report(const Sentence& sentence, const std::string& text, Findings& out) {
  out.push_back({"text", sentence.file, std::string(kTextTable), sentence.about, text});
}

// "40,000 iterations": do that many fit into the printed times?
void check_steps(const Sentence& s, const Corpus& corpus, Findings& out) {
  std::string digits;
  for (size_t i = s.text.find_first_of("0123456789", s.text.find("for ")); i < s.text.size(); ++i) {
    if (s.text[i] == ',') continue;
    if (s.text[i] < '0' || s.text[i] > '9') break;
    digits += s.text[i];
  }
  const uint64_t steps = std::stoull("0" + digits);
  constexpr double kImpossible = 1.5;  // times longer than printed
  double least = 0;
  for (const Printed& number : corpus.numbers) {
    if (number.file != s.file || number.expect->metric() != "time_to_train" ||
        !number.expect->has_single() || number.recipe->training().steps() == steps)
      continue;
    const auto needed = seconds_at_published_rate(corpus, *number.recipe, s.file, steps);
    if (!needed) continue;
    const double ratio = *needed / (number.value * seconds_in(number.expect->unit()));
    least = least == 0 ? ratio : std::min(least, ratio);
  }
  if (least > kImpossible)
    report(s,
           "'" + std::to_string(steps) + "' takes at least " + significant(least, 2) +
               " times as long as printed at the published throughput",
           out);
}

// "milliseconds per image" above a table whose latencies times throughput give the batch.
void check_latency_unit(const Sentence& s, const Corpus& corpus, Findings& out) {
  if (!s.says("per image")) return;
  for (const Printed& number : corpus.numbers) {
    const v1::Expect& e = *number.expect;
    if (number.file != s.file || e.metric() != "latency_mean" || e.scope().batch() < 2 ||
        number.table->name.find(s.machine()) == std::string::npos)
      continue;
    const Printed* rate =
        corpus.find(number.recipe->id(), "infer.b" + std::to_string(e.scope().batch()));
    if (rate == nullptr) continue;
    const double items = rate->value * number.value / 1000;
    if (std::abs(items / e.scope().batch() - 1) > 0.2) continue;
    report(s, "throughput times latency is the batch size, so latency is per batch", out);
    return;
  }
}

// The batch sizes of a command line against the rows of its table.
void check_batches_of_command(const Sentence& s, const Corpus& corpus, Findings& out) {
  const size_t at = s.text.find("-b ");
  if (at == std::string::npos) return;
  const std::vector<std::string> listed =
      split(s.text.substr(at + 3, s.text.find(' ', at + 3) - at - 3), ',');
  const SourceTable* table = corpus.files.at(s.file).find("inference." + s.machine());
  if (table == nullptr) return;
  std::vector<std::string> extra;
  for (const auto& row : table->rows) {
    if (std::find(listed.begin(), listed.end(), row[0]) == listed.end()) extra.push_back(row[0]);
  }
  if (!extra.empty())
    report(s, "the table has batch " + join(extra, ", ") + ", which this command does not measure",
           out);
}

void check_sentence(const Sentence& s, const Corpus& corpus, Findings& out) {
  if (s.speaks_of("training.steps")) check_steps(s, corpus, out);
  if (s.speaks_of("inference.latency_unit")) check_latency_unit(s, corpus, out);
  if (s.speaks_of("inference.batches")) check_batches_of_command(s, corpus, out);
  if (s.speaks_of("training.container") && s.says(".sh NGC container"))
    report(s, "a script stands where a container should be named", out);
  if (s.speaks_of("repeats") && s.says("suggest"))
    report(s, "a number of repeats that is only suggested; which row has how many is not said",
           out);
  const bool names_precision =
      s.says("FP16") || s.says("FP32") || s.says("AMP") || s.says("TF32") || s.says("mixed");
  if (s.speaks_of("stability.runs") && !names_precision)
    report(s, "does not say at which precision and batch size the seeds ran", out);
}

}  // namespace

void check_sentences(const Corpus& corpus, Findings& out) {
  for (const auto& [name, file] : corpus.files) {
    const SourceTable* sentences = file.find(kTextTable);
    if (sentences == nullptr || sentences->name != kTextTable) continue;
    for (const auto& row : sentences->rows) check_sentence({name, row[0], row[1]}, corpus, out);
  }
}

}  // namespace reciperun::lint
