// What conversions of text have in common: the vocabulary, and what a manifest says of it.
#pragma once

#include <memory>
#include <string>

#include "datasets/datasets.h"
#include "sdk/data/text/token_records.h"
#include "sdk/data/text/tokenizer.h"

namespace assay::datasets {

inline constexpr const char* kVocabularyName = "vocab.txt";

struct TextKeys : ConversionKeys {
  std::string vocabulary;
  int64_t sequence_length = 128;
  bool protect_special = true;
  int64_t longest_word = 100;
  void fields(ConfigFields& f) override;
};

// The keys of `options`, of this type, checked; the defaults where it has none.
template <class Keys>
Keys checked_keys(const ConvertOptions& options, std::string_view data_set) {
  Keys keys;
  if (const auto* given = dynamic_cast<const Keys*>(options.keys.get())) keys = *given;
  check_config(data_set, "", keys);
  return keys;
}

// kInvalid if no vocabulary is named; kFormat for one that is none.
std::shared_ptr<const data::Vocabulary> read_vocabulary(const TextKeys& keys,
                                                        std::string_view data_set);
data::Tokenizer make_tokenizer(const TextKeys& keys,
                               std::shared_ptr<const data::Vocabulary> vocabulary);

// Puts every key but files into the plan, with the vocabulary, its size and Unicode's version.
void plan_text(data::DatasetManifest& plan, TextKeys& keys, const data::Vocabulary& vocabulary);

// The tokenizer that the data set in `folder` was converted with.
data::Tokenizer tokenizer_of(const std::string& folder, const data::DatasetManifest& manifest);

// As the manifest says it. `slots` only where records have some.
data::TokenShape token_shape(const data::DatasetManifest& manifest, bool has_slots);

// The configuration of a text data set's transform: what a training expects of the records, and
// kInvalid if they are otherwise.
struct TokenTransformConfig {
  std::optional<int64_t> sequence_length, prediction_slots, stride, max_question;
  void fields(ConfigFields& f);
};
data::Transform token_transform(data::TokenRecords records, const data::DatasetManifest& manifest,
                                std::string_view config_json);

}  // namespace assay::datasets
