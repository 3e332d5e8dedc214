// The keys of a text conversion, and how a manifest keeps them: what shaped the ids is a setting,
// what names files of the caller is not.
#include "datasets/text_conversion.h"

#include <type_traits>

#include "sdk/base/file.h"
#include "sdk/data/dataset_writer.h"
#include "sdk/data/text/unicode.h"

namespace assay::datasets {
namespace {

constexpr const char kVocabularySize[] = "vocabulary_size", kPadding[] = "padding_id";

void add_setting(data::DatasetManifest& plan, std::string_view key, std::string value) {
  data::Setting& setting = *plan.add_settings();
  setting.set_key(std::string(key));
  setting.set_value(std::move(value));
}

std::string text_of(const ConfigValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, ConfigRef>) {
          return config_to_json(v);
        } else if constexpr (std::is_same_v<V, bool*>) {
          return *v ? "true" : "false";
        } else {
          return cat(*v);
        }
      },
      value);
}

// Names of files say nothing about the records: their digests stand in the manifest.
bool names_files(std::string_view key) {
  return key == "vocabulary" || key == "train" || key == "dev";
}

}  // namespace

void TextKeys::fields(ConfigFields& f) {
  f("vocabulary", vocabulary, "file of the WordPiece vocabulary, one piece a line; required");
  f("sequence_length", sequence_length, "pieces of a sequence, padding included")
      .in({5, 512, true});
  f("protect_special", protect_special,
    "whether [MASK] and the like in the text are themselves, or punctuation and words");
  f("longest_word", longest_word, "words of more characters are [UNK]").in({1, 10'000, true});
}

std::shared_ptr<const data::Vocabulary> read_vocabulary(const TextKeys& keys,
                                                        std::string_view data_set) {
  expect(!keys.vocabulary.empty(), {data_set, "vocabulary"}, "not given",
         "the file of a WordPiece vocabulary");
  return data::Vocabulary::read(keys.vocabulary);
}

data::Tokenizer make_tokenizer(const TextKeys& keys,
                               std::shared_ptr<const data::Vocabulary> vocabulary) {
  return data::Tokenizer(std::move(vocabulary), {.protect_special = keys.protect_special,
                                                 .longest_word = keys.longest_word});
}

void plan_text(data::DatasetManifest& plan, TextKeys& keys, const data::Vocabulary& vocabulary) {
  const ConfigFields fields(config_ref(keys));
  for (const ConfigField& field : fields.all())
    if (!names_files(field.name())) add_setting(plan, field.name(), text_of(field.at(0)));
  add_setting(plan, kVocabularySize, cat(vocabulary.size()));
  add_setting(plan, kPadding, cat(vocabulary.special().padding));
  add_setting(plan, "unicode", std::string(data::unicode_version()));
  data::plan_file(plan, kVocabularyName, vocabulary.text());
}

data::Tokenizer tokenizer_of(const std::string& folder, const data::DatasetManifest& manifest) {
  TextKeys keys;
  keys.protect_special = data::find_setting(manifest, "protect_special") == "true";
  keys.longest_word = data::find_number(manifest, "longest_word");
  return make_tokenizer(
      keys, data::Vocabulary::parse(data::read_attached(folder, manifest, kVocabularyName)));
}

data::TokenShape token_shape(const data::DatasetManifest& manifest, bool has_slots) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto number = [&](const char* key, int64_t low) {
    const int64_t value = data::find_number(manifest, key);
    require(value >= low && value < kMost, Code::kFormat, "data set ", manifest.dataset(),
            ": setting \"", key, "\" is ", value, "; convert the data set again");
    return value;
  };
  return {number("sequence_length", 1), has_slots ? number("prediction_slots", 1) : 0,
          number(kVocabularySize, 1), static_cast<int32_t>(number(kPadding, 0))};
}

void TokenTransformConfig::fields(ConfigFields& f) {
  f("sequence_length", sequence_length, "pieces of a sequence; that of the records")
      .in({1, 512, true});
  f("prediction_slots", prediction_slots, "masked positions of a sequence; that of the records")
      .in({1, 512, true});
  f("stride", stride, "of windows; that of the records").in({1, 512, true});
  f("max_question", max_question, "of windows; that of the records").in({0, 512, true});
}

data::Transform token_transform(data::TokenRecords records, const data::DatasetManifest& manifest,
                                std::string_view config_json) {
  constexpr std::string_view kOf = "text transform";
  TokenTransformConfig config;
  parse_json(config_json, config, kOf);
  const auto compare = [&](const char* key, std::optional<int64_t> wanted, bool has) {
    if (!wanted) return;
    expect(has, {kOf, key}, *wanted, "none: these records have nothing of the kind");
    expect(data::find_number(manifest, key) == *wanted, {kOf, key}, *wanted,
           data::find_number(manifest, key),
           ", for which the data set was converted; convert it with another ", key);
  };
  const bool has_slots = records == data::TokenRecords::kMaskedPairs;
  const bool has_windows = records == data::TokenRecords::kWindows;
  compare("sequence_length", config.sequence_length, true);
  compare("prediction_slots", config.prediction_slots, has_slots);
  compare("stride", config.stride, has_windows);
  compare("max_question", config.max_question, has_windows);
  return data::make_token_transform(records, token_shape(manifest, has_slots));
}

}  // namespace assay::datasets
