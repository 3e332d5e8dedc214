// Documents of sentences to the sequences that BERT and ELECTRA are trained on: pairs of segments,
// for BERT with words masked once and for all.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sdk/base/philox.h"
#include "sdk/data/text/tokenizer.h"

namespace assay::data {

using Sentence = std::vector<int32_t>;    // ids, at least one
using Document = std::vector<Sentence>;   // at least one
using Documents = std::vector<Document>;  // of one file

enum class Lines {
  kSentences,  // each line is one, as the published scripts want it
  kParagraphs  // each line is cut behind . ! ? and what closes a quotation, before a blank and a
               // capital, a digit or an opening quotation mark, but not behind a common
               // abbreviation
};
// An empty line ends a document; lines and documents of which the tokenizer keeps nothing are left
// out. Fails with kFormat and the line, counted from `first_line` on, for text that is not UTF-8.
Documents read_documents(std::string_view text, Lines lines, const Tokenizer& tokenizer,
                         int64_t first_line = 1);

// [CLS] first segment [SEP], or [CLS] first [SEP] second [SEP]: type 0 up to the first [SEP], 1
// behind it. Not padded.
struct TokenSequence {
  std::vector<int32_t> ids;
  int64_t first_size = 0;  // up to and including the first [SEP]
};

struct MaskedSequence {
  TokenSequence sequence;          // with [MASK] and random pieces in it
  std::vector<int32_t> positions;  // ascending
  std::vector<int32_t> labels;     // what stood there
  bool random_next = false;        // the second segment does not follow the first
};

struct BertOptions {
  int64_t sequence_length = 128;
  int64_t prediction_slots = 20;
  int64_t duplicates = 5;  // passes over the documents, each with other pairs and masks
  double masked_fraction = 0.15;
  float short_fraction = 0.1f;  // of sequences that aim at a random shorter length
};

// The instances of a file's documents, shuffled, as Google's create_pretraining_data makes them,
// but of Philox instead of Python's generator: other draws of the same distributions.
std::vector<MaskedSequence> bert_instances(const Documents& documents, const Vocabulary& vocabulary,
                                           const BertOptions& options, PhiloxStream random);

// The sequences of a file's documents, in their order, as ELECTRA's build_pretraining_dataset makes
// them: a document's sentences until they reach the length, what overflows dropped.
std::vector<TokenSequence> electra_sequences(const Documents& documents,
                                             const Vocabulary& vocabulary, int64_t sequence_length,
                                             PhiloxStream random);

}  // namespace assay::data
