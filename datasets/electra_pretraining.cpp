// Sequences without masks, as ELECTRA's build_pretraining_dataset makes them (arXiv:2003.10555), of
// any text: masking is the model's.

#include "datasets/text_corpus.h"
#include "datasets/text_records.h"

namespace assay::datasets {
namespace {

data::DatasetManifest convert(const ConvertOptions& options) {
  auto keys = checked_keys<CorpusKeys>(options, kElectraPretraining.name);
  const data::Tokenizer tokenizer =
      make_tokenizer(keys, read_vocabulary(keys, kElectraPretraining.name));
  data::DatasetManifest plan = manifest_of(kElectraPretraining);
  const data::TokenShape shape{keys.sequence_length, 0, tokenizer.vocabulary().size(),
                               tokenizer.vocabulary().special().padding};
  if (is_of_records(options, keys, kElectraPretraining.name)) {
    TextKeys of_records = keys;
    return convert_records(options, published_record_files(options.source), of_records,
                           tokenizer.vocabulary(), std::move(plan), data::TokenRecords::kSequences,
                           shape);
  }
  return convert_corpus(
      options, keys, tokenizer, std::move(plan),
      [&](const data::Documents& documents, PhiloxStream random, auto& sink) {
        std::string payload;
        for (const auto& sequence : data::electra_sequences(documents, tokenizer.vocabulary(),
                                                            keys.sequence_length, random)) {
          data::write_sequence(sequence, shape, payload);
          sink.write(payload);
        }
      });
}

data::Transform make_transform(const data::DatasetManifest& manifest,
                               std::string_view config_json) {
  return token_transform(data::TokenRecords::kSequences, manifest, config_json);
}

}  // namespace

constinit const DatasetEntry kElectraPretraining = {
    "electra_pretraining",
    "text segments without masks, as ELECTRA is trained on; source: a text file or a folder of "
    ".txt files, an empty line between documents, or .tfrecord files of the published scripts",
    "that of the text",
    "",
    "sequences",
    convert,
    make_transform,
    [] { return std::unique_ptr<ConversionKeys>(std::make_unique<CorpusKeys>()); }};

}  // namespace assay::datasets
