// Two sources for one number, and one table of rows that were made under different settings.
#include <cstdlib>
#include <set>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"

namespace reciperun::lint {
namespace {

void check_other_sources(const Corpus& corpus, Findings& out) {
  for (const Printed& number : corpus.numbers) {
    for (const v1::Locator& seen : number.expect->seen()) {
      const std::vector<std::string> other = numbers_in(seen.printed());
      if (other.empty() || std::strtod(other[0].c_str(), nullptr) == number.value) continue;
      out.push_back({"sources", number.file, number.table->name,
                     number.where() + ": " + number.column(),
                     "printed " + number.expect->at().printed() + ", but " + seen.printed() +
                         " in table '" + seen.table() + "' of '" + seen.source() + "'"});
    }
  }
}

void check_settings(const Corpus& corpus, Findings& out) {
  for (const auto& [name, numbers] : by_table(corpus)) {
    if (corpus.files.at(name.first).document.empty()) continue;  // our own arrangement
    std::set<double> clips;
    for (const Printed* number : numbers)
      clips.insert(number->recipe->training().clip_global_norm());
    if (clips.size() < 2) continue;
    std::vector<std::string> values;
    values.reserve(clips.size());
    for (const double clip : clips) values.push_back(clip == 0 ? "off" : shortest(clip));
    out.push_back({"settings", name.first, name.second, "training.clip_global_norm",
                   "rows made with clipping " + join(values, " and ") + " stand in one table"});
  }
}

}  // namespace

void check_agreement(const Corpus& corpus, Findings& out) {
  check_other_sources(corpus, out);
  check_settings(corpus, out);
}

}  // namespace reciperun::lint
