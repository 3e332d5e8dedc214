// Data sets of text: small files through the converters and loaders, what is refused, and the
// counts of the published files where they lie in ../shared/data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "datasets/squad.h"
#include "datasets/text_conversion.h"
#include "sdk/base/file.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/loader.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/text/token_records.h"
#include "tests/data/squad_files.h"
#include "tests/data/support.h"

namespace assay::datasets {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Letters are words of one piece.
std::string letters() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
  for (char c = 'a'; c <= 'z'; ++c) text += cat(std::string(1, c), "\n");
  return text;
}
constexpr int32_t kCls = 2, kSep = 3;
int32_t id_of(char letter) { return 6 + letter - 'a'; }

std::string answered(const char* id, const char* answers, const char* more = "") {
  return cat(R"({"id": ")", id, R"(", "question": "q r", "answers": [)", answers, "]", more, "}");
}
std::string squad(const std::string& context, const std::string& questions) {
  return cat(R"({"data": [{"title": "t", "paragraphs": [{"context": ")", context, R"(", "qas": [)",
             questions, "]}]}]}");
}
constexpr const char* kContext = "a b c d e f g h i j k l m n";
constexpr const char* kAnswerC = R"({"text": "c", "answer_start": 4})";

class TextDataSets : public testing::Test {
 protected:
  TextDataSets() { put("vocab", letters()); }
  void put(const std::string& name, const std::string& content) {
    const std::string path = folder_.at(name);
    make_directories(path.substr(0, path.rfind('/')));
    test::write_quickly(path, content);
  }
  data::DatasetManifest convert(const std::string& name, const std::string& settings = "{}",
                                const std::string& source = "source", int threads = 1) {
    const DatasetEntry& entry = find_dataset(name);
    ConvertOptions options{
        .source = folder_.at(source), .output = folder_.at("out"), .threads = threads};
    options.keys = entry.make_keys();
    parse_config(settings, config_ref(*options.keys), name);
    if (settings.find("vocabulary") == std::string::npos) {
      const std::string vocabulary = cat(R"({"vocabulary": ")", folder_.at("vocab"), "\"}");
      parse_config(vocabulary, config_ref(*options.keys), name);
    }
    return entry.convert(options);
  }
  std::unique_ptr<data::Loader> load(const std::string& split, int64_t batch,
                                     std::string_view transform = "") {
    const auto manifest = data::read_manifest(folder_.at("out"));
    data::LoaderConfig config;
    config.batch_size = batch, config.order = "sequential", config.last_batch = "pad";
    return std::make_unique<data::Loader>(
        data::open_split(folder_.at("out"), manifest, split),
        find_dataset(manifest.dataset()).make_transform(manifest, transform), config);
  }
  static std::vector<int32_t> values(const data::Batch& batch, const char* name) {
    const auto& array = batch.array(name);
    return {array.as<int32_t>(), array.as<int32_t>() + array.dims.numel()};
  }

  TemporaryFolder folder_;
};

TEST_F(TextDataSets, WindowsOfAQuestion) {
  put("source/train-v1.1.json", squad(kContext, answered("1", kAnswerC)));
  put("source/dev-v1.1.json", squad("a b", answered("2", "")));
  const auto manifest =
      convert("squad", R"({"sequence_length": 16, "stride": 8, "max_question": 2})");
  ASSERT_EQ(manifest.splits_size(), 2);
  EXPECT_EQ(manifest.splits(0).records(), 2);
  EXPECT_EQ(data::find_number(manifest, "stride"), 8);
  EXPECT_EQ(data::find_number(manifest, "vocabulary_size"), 32);
  data::verify_dataset(folder_.at("out"), {});

  const auto loader = load("train", 3);
  const data::Batch& batch = *loader->next();
  EXPECT_EQ(batch.valid, 2);
  EXPECT_THAT(values(batch, "length"), ElementsAre(16, 11, 0));
}

TEST_F(TextDataSets, WindowsKnowTheirAnswers) {
  put("source/train-v1.1.json", squad(kContext, answered("1", kAnswerC)));
  convert("squad", R"({"sequence_length": 16, "stride": 8, "max_question": 2})");
  EXPECT_THAT(error_of([&] { load("train", 3, R"({"max_question": 3})"); }).what(),
              AllOf(HasSubstr("3"), HasSubstr("2"), HasSubstr("max_question")));
  const auto loader = load("train", 3, R"({"stride": 8, "max_question": 2})");
  const data::Batch& batch = *loader->next();
  const auto ids = values(batch, "input_ids"), types = values(batch, "segment_ids");
  EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + 5),
            (std::vector<int32_t>{kCls, id_of('q'), id_of('r'), kSep, id_of('a')}));
  EXPECT_EQ(types[3], 0);
  EXPECT_EQ(types[4], 1);
  EXPECT_THAT(values(batch, "start_positions"),
              ElementsAre(6, 0, -1));  // c is in the first window only
  EXPECT_THAT(values(batch, "end_positions"), ElementsAre(6, 0, -1));
  EXPECT_THAT(values(batch, "is_impossible"), ElementsAre(0, 1, -1));
  // Behind the sequence there is nothing.
  const auto length = values(batch, "length");
  for (size_t row = 0; row < 3; ++row)
    for (int i = length[row]; i < 16; ++i) {
      EXPECT_EQ(ids[16 * row + i], 0);
      EXPECT_EQ(types[16 * row + i], 0);
    }
}

TEST_F(TextDataSets, FilesForEvaluationLieBesideTheRecords) {
  const std::string json = squad("a b", answered("2", ""));
  put("source/dev-v1.1.json", json);
  const auto manifest = convert("squad", R"({"sequence_length": 200})");
  const std::string out = folder_.at("out");
  EXPECT_EQ(data::read_attached(out, manifest, squad_file_name("dev")), json);
  EXPECT_THAT(tokenizer_of(out, manifest).ids("A z"), ElementsAre(id_of('a'), id_of('z')));
  EXPECT_EQ(error_of([&] { data::read_attached(out, manifest, "train.json"); }).code(),
            Code::kNotFound);
  put("out/vocab.txt", letters() + "new\n");
  const Error changed = error_of([&] { data::verify_dataset(out, {}); });
  EXPECT_EQ(changed.code(), Code::kFormat);
  EXPECT_THAT(changed.what(), HasSubstr("vocab.txt"));
  convert("squad", R"({"sequence_length": 200})");  // is not complete any more
  data::verify_dataset(out, {});
}

TEST_F(TextDataSets, QuestionsWithoutAnAnswer) {
  put("source/dev-v2.0.json",
      squad("a b c", answered("1", "", R"(, "is_impossible": true)") + ", " +
                         answered("2", kAnswerC, R"(, "is_impossible": false)")));
  convert("squad", R"({"version": "2.0", "sequence_length": 200})");
  const auto loader = load("dev", 2);
  const data::Batch& batch = *loader->next();
  EXPECT_THAT(values(batch, "is_impossible"), ElementsAre(1, 0));
  EXPECT_THAT(values(batch, "start_positions"), ElementsAre(0, 6));
}

TEST_F(TextDataSets, TrainingLeavesOutWhatCannotBeFound) {
  put("source/train-v1.1.json",
      squad("a b c", answered("good", kAnswerC) + ", " +
                         answered("odd", R"({"text": "", "answer_start": 2})")));
  const auto manifest = convert("squad", R"({"sequence_length": 200})");
  EXPECT_EQ(manifest.splits(0).records(), 1);
  ASSERT_EQ(manifest.splits(0).shards(0).findings_size(), 1);
  EXPECT_THAT(manifest.splits(0).shards(0).findings(0).examples(0), HasSubstr("odd"));
}

TEST_F(TextDataSets, SquadRefusals) {
  const auto refusal = [&](const std::string& json, const std::string& settings) {
    put("source/dev-v1.1.json", json);
    Error error = error_of([&] { convert("squad", settings); });
    EXPECT_FALSE(path_exists(folder_.at("out/dataset.json")));
    return error;
  };
  const std::string good = squad("a b c", answered("1", kAnswerC));
  const std::string of_2 = squad("a b c", answered("1", kAnswerC, R"(, "is_impossible": false)"));
  EXPECT_THAT(refusal(of_2, "{}").what(), AllOf(HasSubstr("dev-v1.1.json"), HasSubstr("2.0")));
  EXPECT_THAT(refusal(good.substr(0, 60), "{}").what(), HasSubstr("line 1"));
  EXPECT_THAT(
      refusal(squad("a b c", answered("1", R"({"text": "c", "answer_start": 3})")), "{}").what(),
      HasSubstr("\"c\" does not stand at character 3"));
  EXPECT_THAT(refusal(good, R"({"train": "none.json"})").what(), HasSubstr("none.json"));
  EXPECT_EQ(refusal(good, R"({"train": "none.json"})").code(), Code::kNotFound);
  EXPECT_EQ(refusal(good, R"({"version": "3"})").code(), Code::kInvalid);
  EXPECT_THAT(refusal(good, R"({"stride": 400})").what(), HasSubstr("384"));
  EXPECT_EQ(refusal(good, R"({"sequence_length": 600})").code(), Code::kInvalid);
  EXPECT_EQ(refusal(good, R"({"vocabulary": ""})").code(), Code::kInvalid);
  put("vocab", "[PAD]\n[UNK]\n");
  EXPECT_THAT(refusal(good, "{}").what(), HasSubstr("[CLS]"));
}

std::string corpus(int documents, int sentences) {
  std::string text;
  for (int d = 0; d < documents; ++d) {
    for (int s = 0; s < sentences; ++s) {
      for (int w = 0; w < 5; ++w)
        text += cat(std::string(1, static_cast<char>('a' + (7 * d + 3 * s + w) % 26)), " ");
      text += ".\n";
    }
    text += " \n\n";
  }
  return text;
}

TEST_F(TextDataSets, MaskedPairs) {
  put("source/b.txt", corpus(7, 12));
  put("source/a.txt", corpus(6, 12));
  const char* settings =
      R"({"sequence_length": 24, "prediction_slots": 5, "held_out": 5, "seed": "3", "duplicates": 2})";
  const auto manifest = convert("bert_pretraining", settings, "source", 1);
  ASSERT_EQ(manifest.splits_size(), 2);
  EXPECT_EQ(manifest.splits(1).name(), "test");
  EXPECT_GT(manifest.splits(0).records(), manifest.splits(1).records());
  EXPECT_EQ(manifest.sources(0).file(), "a.txt");
  const auto loader = load("train", 16, R"({"sequence_length": 24, "prediction_slots": 5})");
  const data::Batch& batch = *loader->next();
  ASSERT_EQ(batch.array("input_ids").dims, (Dims{16, 24}));
  ASSERT_EQ(batch.array("masked_lm_positions").dims, (Dims{16, 5}));
  const auto positions = values(batch, "masked_lm_positions"),
             labels = values(batch, "masked_lm_ids"), ids = values(batch, "input_ids"),
             length = values(batch, "length");
  int used = 0, random_next = 0;
  for (size_t row = 0; row < 16; ++row) {
    EXPECT_EQ(ids[24 * row], kCls);
    EXPECT_EQ(ids[24 * row + length[row] - 1], kSep);
    for (size_t slot = 5 * row; slot < 5 * row + 5; ++slot) {
      EXPECT_LT(positions[slot], length[row]);
      EXPECT_EQ(positions[slot] == 0, labels[slot] < 0);  // [CLS] is never masked
      used += labels[slot] >= 0;
    }
    random_next += values(batch, "next_sentence_labels")[row];
  }
  EXPECT_GT(used, 16);
  EXPECT_GT(random_next, 0);
  // As many threads as there are make the same.
  const std::string digest = manifest.splits(0).content_sha256();
  std::filesystem::remove_all(folder_.at("out"));
  EXPECT_EQ(convert("bert_pretraining", settings, "source", 4).splits(0).content_sha256(), digest);
}

TEST_F(TextDataSets, SequencesInPartsThatContinue) {
  put("source.txt", corpus(40, 12));
  const DatasetEntry& entry = find_dataset("electra_pretraining");
  ConvertOptions options{
      .source = folder_.at("source.txt"), .output = folder_.at("out"), .shards = 4};
  options.keys = entry.make_keys();
  parse_config(cat(R"({"sequence_length": 32, "vocabulary": ")", folder_.at("vocab"), "\"}"),
               config_ref(*options.keys), "test");
  const auto whole = entry.convert(options);
  std::filesystem::remove_all(folder_.at("out"));
  // Stopped in the third part: two are kept.
  options.progress = [](const data::Progress& state) {
    return state.phase != "train" || state.done < 20;
  };
  EXPECT_EQ(error_of([&] { entry.convert(options); }).code(), Code::kCancelled);
  EXPECT_TRUE(path_exists(folder_.at("out/train-00001-of-00004.tfrecord")));
  EXPECT_FALSE(path_exists(folder_.at("out/train-00002-of-00004.tfrecord")));
  int64_t least = 100;
  options.progress = [&](const data::Progress& state) {
    if (state.phase == "train") least = std::min(least, state.done);
    return true;
  };
  const auto continued = entry.convert(options);
  EXPECT_EQ(least, 20);
  EXPECT_EQ(continued.splits(0).content_sha256(), whole.splits(0).content_sha256());
  EXPECT_EQ(continued.splits(0).records(), whole.splits(0).records());
  data::verify_dataset(folder_.at("out"), {});
  const auto loader = load("train", 4);
  const data::Batch& batch = *loader->next();
  EXPECT_EQ(batch.arrays().size(), 3u);
  // Another length is another data set.
  options.keys = entry.make_keys();
  parse_config(cat(R"({"sequence_length": 33, "vocabulary": ")", folder_.at("vocab"), "\"}"),
               config_ref(*options.keys), "test");
  EXPECT_EQ(error_of([&] { entry.convert(options); }).code(), Code::kInvalid);
}

// The only line of a file, of 826,447 sentences of 21 pieces.
TEST_F(TextDataSets, AParagraphOfAHundredMegabytes) {
  put("vocab", letters() + "words\n");
  std::string sentence = "Words", text;
  for (int i = 1; i < 20; ++i) sentence += " words";
  sentence += ". ";
  int64_t sentences = 0;
  for (; text.size() < 100'000'000; ++sentences) text += sentence;
  put("long.txt", text);
  const auto manifest = convert("electra_pretraining", R"({"lines": "paragraphs"})", "long.txt");
  // Of 20 sequences 19 end with the seventh sentence, which fills their 128 places, and one where
  // the sentences reach what is drawn between 5 and 128.
  double shorter = 0;
  for (int target = 5; target <= 128; ++target) shorter += (target + 20) / 21 / 124.0;
  const double expected = static_cast<double>(sentences) / (0.95 * 7 + 0.05 * shorter);
  EXPECT_NEAR(static_cast<double>(manifest.splits(0).records()), expected, 0.002 * expected);
  const auto loader = load("train", 1);
  const auto ids = values(*loader->next(), "input_ids");
  EXPECT_EQ(std::count(ids.begin(), ids.begin() + 20, id_of('z') + 1), 19);
}

// Files of records as the published scripts leave them: no manifest, numbered at the end.
TEST_F(TextDataSets, RecordsOfThePublishedScripts) {
  put("text.txt", corpus(9, 12));
  convert("bert_pretraining", R"({"sequence_length": 24, "prediction_slots": 5})", "text.txt");
  const std::string records = read_file(folder_.at("out/train-00000-of-00001.tfrecord"));
  const int64_t made = data::read_manifest(folder_.at("out")).splits(0).records();
  std::filesystem::remove_all(folder_.at("out"));
  put("source/examples.tfrecord-0-of-2", records);
  put("source/examples.tf_record-1-of-2", records);
  const auto pairs = [&](const std::string& settings) {
    return convert("bert_pretraining", settings);
  };
  const auto manifest = pairs(R"({"sequence_length": 24, "prediction_slots": 5})");
  ASSERT_EQ(manifest.splits_size(), 1);
  EXPECT_EQ(manifest.splits(0).shards_size(), 2);
  EXPECT_EQ(manifest.splits(0).records(), 2 * made);
  // Nobody knows how often the text was passed over.
  EXPECT_THAT(error_of([&] { data::find_setting(manifest, "duplicates"); }).what(),
              HasSubstr("duplicates"));
  data::verify_dataset(folder_.at("out"), {});
  const auto loader = load("train", 4, R"({"sequence_length": 24, "prediction_slots": 5})");
  EXPECT_EQ(values(*loader->next(), "input_ids")[0], kCls);
  // The sequences in them are ELECTRA's too.
  std::filesystem::remove_all(folder_.at("out"));
  EXPECT_EQ(convert("electra_pretraining", R"({"sequence_length": 24})").splits(0).records(),
            2 * made);
  std::filesystem::remove_all(folder_.at("out"));

  const auto refusal = [&](const std::string& settings) {
    const Error error = error_of([&] { pairs(settings); });
    EXPECT_FALSE(path_exists(folder_.at("out/dataset.json")));
    return std::string(error.what());
  };
  EXPECT_THAT(refusal(R"({"sequence_length": 32, "prediction_slots": 5})"),
              AllOf(HasSubstr("examples.tf_record-1-of-2, record 0"), HasSubstr("another length")));
  EXPECT_THAT(refusal(R"({"sequence_length": 24, "prediction_slots": 6})"),
              HasSubstr("masked_lm_positions"));
  EXPECT_THAT(refusal(R"({"sequence_length": 24, "prediction_slots": 5, "held_out": 3})"),
              HasSubstr("held_out"));
  put("source/examples.tfrecord-0-of-2", records.substr(0, records.size() - 9));
  EXPECT_THAT(refusal(R"({"sequence_length": 24, "prediction_slots": 5})"),
              HasSubstr("examples.tfrecord-0-of-2"));
}

TEST_F(TextDataSets, WindowsOfThePublishedScripts) {
  const std::string settings = R"({"sequence_length": 16, "stride": 8, "max_question": 2})";
  put("made/train-v1.1.json", squad(kContext, answered("1", kAnswerC)));
  convert("squad", settings, "made");
  const std::string records = read_file(folder_.at("out/train-00000-of-00001.tfrecord"));
  std::filesystem::remove_all(folder_.at("out"));
  put("source/train.tf_record", records);
  put("source/eval.tf_record", "without answers");
  put("source/vocab.txt", letters());
  const auto manifest = convert("squad", settings);
  ASSERT_EQ(manifest.splits_size(), 1);
  EXPECT_EQ(manifest.splits(0).records(), 2);
  data::verify_dataset(folder_.at("out"), {});
  EXPECT_THAT(values(*load("train", 2, R"({"stride": 8})")->next(), "start_positions"),
              ElementsAre(6, 0));
  std::filesystem::remove_all(folder_.at("out"));
  EXPECT_THAT(error_of([&] { convert("squad", R"({"sequence_length": 17})"); }).what(),
              AllOf(HasSubstr("train.tf_record, record 0"), HasSubstr("another length")));
  // Where there are questions, they are what is converted.
  put("source/dev-v1.1.json", squad("a b", answered("2", "")));
  EXPECT_EQ(convert("squad").splits(0).name(), "dev");
  EXPECT_THAT(error_of([&] { convert("squad", R"({"version": "2.0"})"); }).what(),
              HasSubstr("neither train-v2.0"));
}

TEST_F(TextDataSets, CorpusRefusals) {
  const auto refusal = [&](const std::string& text, const std::string& settings = "{}") {
    put("source/a.txt", text);
    return error_of([&] { convert("bert_pretraining", settings); });
  };
  EXPECT_EQ(refusal("").code(), Code::kFormat);
  EXPECT_EQ(refusal(" \n\t\n").code(), Code::kFormat);
  EXPECT_THAT(refusal("a b\n\nc\nc \xff d\n").what(),
              AllOf(HasSubstr("a.txt: line 4: "), HasSubstr("UTF-8 at byte 2")));
  EXPECT_THAT(refusal("a b\n", R"({"held_out": 9})").what(),
              HasSubstr("split test has no documents"));
  EXPECT_EQ(refusal("\u200b\n").code(), Code::kFormat);  // nothing that the tokenizer keeps
  std::filesystem::remove(folder_.at("source/a.txt"));
  EXPECT_THAT(error_of([&] { convert("bert_pretraining"); }).what(), HasSubstr(".txt"));
  put("source/a.txt", corpus(3, 3));
  EXPECT_THAT(error_of([&] { convert("bert_pretraining", R"({"lines": "words"})"); }).what(),
              HasSubstr("sentences"));
}

TEST_F(TextDataSets, TransformsRefuseOtherShapes) {
  put("source.txt", corpus(3, 12));
  convert("electra_pretraining", R"({"sequence_length": 32})", "source.txt");
  EXPECT_THAT(error_of([&] { load("train", 1, R"({"sequence_length": 64})"); }).what(),
              AllOf(HasSubstr("64"), HasSubstr("32"), HasSubstr("sequence_length")));
  EXPECT_THAT(error_of([&] { load("train", 1, R"({"prediction_slots": 4})"); }).what(),
              HasSubstr("prediction_slots"));
  EXPECT_THAT(error_of([&] { load("train", 1, R"({"stride": 4})"); }).what(), HasSubstr("stride"));
}

// What Google's create_pretraining_data and run_squad write, by name and type.
class TokenTransform : public testing::Test {
 protected:
  TokenTransform() {
    set_row("input_ids", {kCls, 7, 4, kSep, 0, 0});
    set_row("input_mask", {1, 1, 1, 1, 0, 0});
    set_row("segment_ids", {0, 0, 0, 0, 0, 0});
    set_row("masked_lm_positions", {2, 0});
    set_row("masked_lm_ids", {9, 0});
    data::set_floats_feature(example_, "masked_lm_weights", std::array{1.0f, 0.0f});
    set_row("next_sentence_labels", {1});
  }
  void set_row(const std::string& name, const std::vector<int64_t>& row) {
    data::set_int64s_feature(example_, name, row);
  }
  std::vector<int32_t> run(data::TokenRecords records) {
    std::string payload, prepared;
    data::serialize_example(example_, payload);
    data::make_token_transform(records, {6, 2, 32, 0}).make_worker()->prepare(payload, prepared);
    const auto* values = reinterpret_cast<const int32_t*>(prepared.data());
    return {values, values + prepared.size() / 4};
  }
  std::string refusal(data::TokenRecords records = data::TokenRecords::kMaskedPairs) {
    const Error error = error_of([&] { run(records); });
    EXPECT_EQ(error.code(), Code::kFormat);
    return error.what();
  }
  data::Example example_;
};

TEST_F(TokenTransform, ReadsThePublishedFeatures) {
  EXPECT_THAT(run(data::TokenRecords::kMaskedPairs),
              ElementsAre(kCls, 7, 4, kSep, 0, 0, 0, 0, 0, 0, 0, 0, 4, 2, 0, 9, -1, 1));
  EXPECT_EQ(run(data::TokenRecords::kSequences).size(), 13u);
  EXPECT_THAT(run(data::TokenRecords::kWindows).back(), -1);
  set_row("start_positions", {1}), set_row("end_positions", {2});
  EXPECT_EQ(run(data::TokenRecords::kWindows),
            (std::vector<int32_t>{kCls, 7, 4, kSep, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 2, 0}));
}

TEST_F(TokenTransform, RefusesWhatDoesNotFit) {
  set_row("input_ids", {kCls, 7, 32, kSep, 0, 0});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("32"), HasSubstr("vocabulary")));
  set_row("input_ids", {kCls, -1, 3, kSep, 0, 0});
  EXPECT_THAT(refusal(), HasSubstr("-1"));
  set_row("input_ids", {kCls, 7, 3, kSep, 0});
  EXPECT_THAT(refusal(), HasSubstr("another length"));
  set_row("input_ids", {kCls, 7, 3, kSep, 0, 0});
  for (const auto& mask :
       {std::vector<int64_t>{1, 0, 1, 1, 0, 0}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 2, 0}}) {
    set_row("input_mask", mask);
    EXPECT_THAT(refusal(), HasSubstr("input_mask"));
  }
  set_row("input_mask", {1, 1, 1, 1, 0, 0});
  set_row("masked_lm_positions", {4, 0});
  EXPECT_THAT(refusal(), HasSubstr("masked_lm_positions"));
  set_row("masked_lm_positions", {3, 0});
  set_row("masked_lm_ids", {32, 0});
  EXPECT_THAT(refusal(), HasSubstr("masked_lm_ids"));
  set_row("masked_lm_ids", {3, 0});
  set_row("next_sentence_labels", {2});
  EXPECT_THAT(refusal(), HasSubstr("next_sentence_labels"));
  set_row("start_positions", {3}), set_row("end_positions", {2});
  EXPECT_THAT(refusal(data::TokenRecords::kWindows), HasSubstr("end_positions"));
}

TEST_F(TextDataSets, CountsOfThePublishedFiles) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  static const struct {
    const char *file, *split, *version;
    int64_t records;
  } kFiles[] = {{"dev-v1.1", "dev", "1.1", 10'833},
                {"dev-v2.0", "dev", "2.0", 12'232},
                {"train-v1.1-part", "train", "1.1", 7'983}};
  for (const auto& file : kFiles) {
    const DatasetEntry& entry = find_dataset("squad");
    ConvertOptions options{.source = cat(test::kSquad, file.file, ".json.gz"),
                           .output = folder_.at(file.file),
                           .threads = 2};
    options.keys = entry.make_keys();
    parse_config(
        cat(R"({"vocabulary": ")", test::kVocabulary, R"(", "version": ")", file.version, "\"}"),
        config_ref(*options.keys), "test");
    const auto manifest = entry.convert(options);
    EXPECT_EQ(manifest.splits(0).name(), file.split);
    EXPECT_EQ(manifest.splits(0).records(), file.records);
    data::verify_dataset(options.output, {});
  }
}

}  // namespace
}  // namespace assay::datasets
