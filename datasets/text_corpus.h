// Plain text as a source: documents behind each other with an empty line between, in one file or in
// the .txt files of a folder, cut into parts that are converted one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/text_conversion.h"
#include "sdk/data/dataset_writer.h"

namespace assay::datasets {

struct CorpusKeys : TextKeys {
  std::string lines = "sentences";
  int64_t held_out = 0;
  uint64_t seed = 0;
  void fields(ConfigFields& f) override;
};

// Makes the records of a part's documents. `random` is that of the part.
using CorpusFunction = std::function<void(const data::Documents& documents, PhiloxStream random,
                                          data::DatasetWriter::ShardSink& sink)>;

// Converts the corpus options.source: the splits train and, with held_out, test. Parts are shards;
// a stopped conversion continues behind the finished ones. `plan` has name and licence.
data::DatasetManifest convert_corpus(const ConvertOptions& options, CorpusKeys& keys,
                                     const data::Tokenizer& tokenizer, data::DatasetManifest plan,
                                     const CorpusFunction& make);

}  // namespace assay::datasets
