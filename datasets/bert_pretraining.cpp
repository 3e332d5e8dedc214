// Pairs of segments with static masks, as BERT's create_pretraining_data makes them
// (arXiv:1810.04805), of any text.

#include "datasets/text_corpus.h"
#include "datasets/text_records.h"

namespace assay::datasets {
namespace {

struct BertKeys : CorpusKeys {
  int64_t prediction_slots = 20;
  int64_t duplicates = 5;
  double masked_fraction = 0.15;
  float short_fraction = 0.1f;
  BertKeys() { protect_special = false; }
  void fields(ConfigFields& f) override {
    CorpusKeys::fields(f);
    f("prediction_slots", prediction_slots, "masked pieces of a sequence at most")
        .in({1, 512, true});
    f("duplicates", duplicates, "passes over the text, each with other pairs and masks")
        .in({1, 1000, true});
    f("masked_fraction", masked_fraction, "of a sequence's pieces").in({0, 1, true, false});
    f("short_fraction", short_fraction, "of sequences that aim at a random shorter length")
        .in({0, 1, true});
  }
};

// Of pairs that another program made.
struct PairRecordKeys : TextKeys {
  int64_t prediction_slots;
  explicit PairRecordKeys(const BertKeys& keys)
      : TextKeys(keys), prediction_slots(keys.prediction_slots) {}
  void fields(ConfigFields& f) override {
    TextKeys::fields(f);
    f("prediction_slots", prediction_slots, "masked pieces of a sequence at most");
  }
};

data::DatasetManifest convert(const ConvertOptions& options) {
  auto keys = checked_keys<BertKeys>(options, kBertPretraining.name);
  const data::Tokenizer tokenizer =
      make_tokenizer(keys, read_vocabulary(keys, kBertPretraining.name));
  data::DatasetManifest plan = manifest_of(kBertPretraining);
  const data::TokenShape shape{keys.sequence_length, keys.prediction_slots,
                               tokenizer.vocabulary().size(),
                               tokenizer.vocabulary().special().padding};
  if (is_of_records(options, keys, kBertPretraining.name)) {
    PairRecordKeys of_records(keys);
    return convert_records(options, published_record_files(options.source), of_records,
                           tokenizer.vocabulary(), std::move(plan),
                           data::TokenRecords::kMaskedPairs, shape);
  }
  const data::BertOptions of_pairs{.sequence_length = keys.sequence_length,
                                   .prediction_slots = keys.prediction_slots,
                                   .duplicates = keys.duplicates,
                                   .masked_fraction = keys.masked_fraction,
                                   .short_fraction = keys.short_fraction};
  return convert_corpus(options, keys, tokenizer, std::move(plan),
                        [&](const data::Documents& documents, PhiloxStream random, auto& sink) {
                          std::string payload;
                          for (const auto& pair : data::bert_instances(
                                   documents, tokenizer.vocabulary(), of_pairs, random)) {
                            data::write_masked_pair(pair, shape, payload);
                            sink.write(payload);
                          }
                        });
}

data::Transform make_transform(const data::DatasetManifest& manifest,
                               std::string_view config_json) {
  return token_transform(data::TokenRecords::kMaskedPairs, manifest, config_json);
}

}  // namespace

constinit const DatasetEntry kBertPretraining = {
    "bert_pretraining",
    "pairs of text segments with masked pieces, as BERT is trained on; source: a text file or a "
    "folder of .txt files, an empty line between documents, or .tfrecord files of Google's scripts",
    "that of the text",
    "",
    "masked_pairs",
    convert,
    make_transform,
    [] { return std::unique_ptr<ConversionKeys>(std::make_unique<BertKeys>()); }};

}  // namespace assay::datasets
