// Do the published tables contradict themselves, each other, or the sentences around them?
//
// A finding is about the source, not about a recipe: recipes answer it with `suspect`, `rounding`,
// an estimator or a `deviation`.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/lint/corpus.h"

namespace reciperun::lint {

struct Finding {
  std::string check;  // ratio, rounding, identity, estimator, equal, tail, order, unit, sample,
                      // spread, difference, copies, time, text, settings, sources
  std::string file;
  std::string table;
  std::string where;  // the rows
  std::string text;   // one sentence: what is printed, what it contradicts, what would fit
};

using Findings = std::vector<Finding>;

// All checks, ordered by file, table in the file's order, then check.
Findings lint_sources(const Corpus& corpus);

// The checks, one file each or by kind.
void check_ratios(const Corpus& corpus, Findings& out);     // quotients against their terms
void check_rounding(const Corpus& corpus, Findings& out);   // quotients cut instead of rounded
void check_latencies(const Corpus& corpus, Findings& out);  // identity, estimator, equal, tail
void check_batches(const Corpus& corpus, Findings& out);    // order
void check_samples(const Corpus& corpus, Findings& out);    // unit, sample, spread, difference
void check_copies(const Corpus& corpus, Findings& out);     // the same numbers where others belong
void check_times(const Corpus& corpus, Findings& out);      // time to train against throughput
void check_sentences(const Corpus& corpus, Findings& out);  // text against numbers
void check_agreement(const Corpus& corpus, Findings& out);  // sources, settings

}  // namespace reciperun::lint
