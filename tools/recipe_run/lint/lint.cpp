#include "tools/recipe_run/lint/lint.h"

#include <algorithm>
#include <tuple>

namespace reciperun::lint {
namespace {

int table_line(const Corpus& corpus, const Finding& finding) {
  const SourceTable* table = corpus.files.at(finding.file).find(finding.table);
  return table == nullptr ? 0 : table->line;
}

}  // namespace

Findings lint_sources(const Corpus& corpus) {
  Findings findings;
  for (const auto check :
       {check_ratios, check_rounding, check_latencies, check_batches, check_samples, check_copies,
        check_times, check_sentences, check_agreement})
    check(corpus, findings);
  const auto key = [&](const Finding& f) {
    return std::make_tuple(f.file, table_line(corpus, f), f.check, f.where);
  };
  std::sort(findings.begin(), findings.end(),
            [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
  return findings;
}

}  // namespace reciperun::lint
