// SQuAD (v1.1 arXiv:1606.05250, v2.0 arXiv:1806.03822): one record a window. The files of a split
// lie beside its records, for who answers and scores.

#include "datasets/squad.h"

#include <algorithm>
#include <utility>

#include "datasets/gzip.h"
#include "datasets/text_records.h"
#include "sdk/base/file.h"
#include "sdk/data/dataset_writer.h"
#include "sdk/data/ordered_map.h"

namespace assay::datasets {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr const char* kSplitNames[] = {"train", "dev"};

struct SquadKeys : TextKeys {
  std::string version = "1.1";
  std::string train, dev;
  int64_t stride = 128;
  int64_t max_question = 64;
  SquadKeys() { sequence_length = 384; }
  void fields(ConfigFields& f) override {
    TextKeys::fields(f);
    f("version", version, "of SQuAD: 2.0 has questions without an answer").one_of({"1.1", "2.0"});
    f("train", train, "file of the split in the source; train-v<version>.json or .json.gz");
    f("dev", dev, "file of the split in the source; dev-v<version>.json or .json.gz");
    f("stride", stride, "pieces from one window's context to the next").in({1, 512, true});
    f("max_question", max_question, "pieces of the question that are kept").in({0, 512, true});
  }
};

struct Split {
  std::string name, path, json;
  data::SquadFile file;
};

// The file of a split; empty if there is none. One that the user names must be there.
std::string find_file(const std::string& source, const std::string& name, const std::string& given,
                      const std::string& version) {
  if (!given.empty()) {
    std::string path = join_path(source, given);
    require(path_exists(path), Code::kNotFound, path, " is not there");
    return path;
  }
  for (const char* ending : {".json", ".json.gz"}) {
    std::string path = join_path(source, cat(name, "-v", version, ending));
    if (path_exists(path)) return path;
  }
  return {};
}

// The training windows of the published scripts, where no file of SQuAD lies beside them: those to
// evaluate ("eval" in their names) have no answers, and are worth nothing without the questions.
std::vector<std::string> training_records(const std::string& source, const SquadKeys& keys) {
  std::vector<std::string> files = published_record_files(source);
  std::erase_if(files, [](const std::string& path) {
    return file_name(path).find("eval") != std::string::npos;
  });
  if (!is_directory(source)) return files;
  for (const char* version : {"1.1", "2.0"}) {
    for (const auto& [split, given] : {std::pair{"train", keys.train}, {"dev", keys.dev}})
      if (!find_file(source, split, given, version).empty()) return {};
  }
  return files;
}

Split read_split(const std::string& name, const std::string& path, const SquadKeys& keys) {
  Split split{name, path, read_maybe_gzip(path, kMaxBytes), {}};
  split.file = data::parse_squad(split.json, path);
  const bool wanted = keys.version == "2.0";
  require(!split.file.paragraphs.empty(), Code::kFormat, path, " holds no paragraphs");
  require(split.file.version_2 == wanted, Code::kFormat, path, " is of SQuAD ",
          split.file.version_2 ? "2.0" : "1.1", ", and version is ", keys.version,
          "; set version or name another file");
  return split;
}

std::vector<Split> read_splits(const ConvertOptions& options, const SquadKeys& keys) {
  require(path_exists(options.source), Code::kNotFound, options.source, " is not there");
  std::vector<Split> splits;
  if (!is_directory(options.source)) {
    const bool is_train = file_name(options.source).starts_with("train");
    splits.push_back(read_split(kSplitNames[is_train ? 0 : 1], options.source, keys));
    return splits;
  }
  for (const char* name : kSplitNames) {
    const std::string& given = name == kSplitNames[0] ? keys.train : keys.dev;
    const std::string path = find_file(options.source, name, given, keys.version);
    if (!path.empty()) splits.push_back(read_split(name, path, keys));
  }
  require(!splits.empty(), Code::kNotFound, options.source, " holds neither train-v", keys.version,
          ".json nor dev-v", keys.version, ".json (or .json.gz); name files with train and dev");
  return splits;
}

// The windows of a question, and where each has the answer.
struct Answerable {
  std::vector<data::Window> windows;
  std::vector<std::optional<data::PieceSpan>> answers;
  std::string left_out;  // why no window of it is a record
};

class Converter {
 public:
  Converter(const data::Tokenizer& tokenizer, const SquadKeys& keys)
      : tokenizer_(tokenizer),
        windows_{keys.sequence_length, keys.stride, keys.max_question},
        shape_{keys.sequence_length, 0, tokenizer.vocabulary().size(),
               tokenizer.vocabulary().special().padding} {}

  std::vector<Answerable> convert(const data::SquadParagraph& paragraph, bool trains) const {
    const data::ContextPieces context = data::cut_context(paragraph.context, tokenizer_);
    std::vector<Answerable> questions;
    for (const data::SquadQuestion& question : paragraph.questions) {
      Answerable& made = questions.emplace_back();
      std::optional<data::PieceSpan> span;
      if (!question.answers.empty()) span = data::answer_span(question, context, tokenizer_);
      const bool is_known = span || question.impossible;
      if (trains && !is_known) {
        made.left_out = cat(question.id, ": its answer is not among the words of the context");
        continue;
      }
      made.windows = data::windows_of(question.text, context, tokenizer_, windows_);
      for (const data::Window& window : made.windows) {
        std::optional<data::PieceSpan> answer;
        if (is_known) answer = data::PieceSpan{0, 0};  // [CLS]: no answer here
        if (span) answer = window.find(*span).value_or(*answer);
        made.answers.push_back(answer);
      }
    }
    return questions;
  }

  const data::TokenShape& shape() const { return shape_; }

  // Returns how many records it wrote.
  int64_t write(const Answerable& question, int64_t number,
                data::DatasetWriter::ShardSink& sink) const {
    std::string payload;
    if (!question.left_out.empty()) sink.note("left out", question.left_out);
    for (size_t i = 0; i < question.windows.size(); ++i) {
      data::write_window(question.windows[i], data::kFirstWindow + number + static_cast<int64_t>(i),
                         question.answers[i], shape_, payload);
      sink.write(payload);
    }
    return static_cast<int64_t>(question.windows.size());
  }

 private:
  const data::Tokenizer& tokenizer_;
  const data::WindowOptions windows_;
  const data::TokenShape shape_;
};

void write_split(const Split& split, const Converter& converter, const ConvertOptions& options,
                 data::DatasetWriter& writer, int shards) {
  const auto paragraphs = static_cast<int64_t>(split.file.paragraphs.size());
  writer.write_shards(split.name, [&](int64_t shard, int64_t number, auto& sink) {
    const int64_t begin = paragraphs * shard / shards, end = paragraphs * (shard + 1) / shards;
    const auto make = [&](int64_t i, std::vector<Answerable>& questions) {
      questions = converter.convert(split.file.paragraphs[static_cast<size_t>(begin + i)],
                                    split.name == kSplitNames[0]);
    };
    const auto take = [&](int64_t i, const std::vector<Answerable>& questions) {
      if (i % 16 == 0) data::report_progress(options.progress, {split.name, begin + i, paragraphs});
      for (const Answerable& question : questions)
        number += converter.write(question, number, sink);
    };
    data::ordered_map<std::vector<Answerable>>(end - begin, options.threads, make, take);
  });
  data::report_progress(options.progress, {split.name, paragraphs, paragraphs});
}

data::DatasetManifest convert(const ConvertOptions& options) {
  auto keys = checked_keys<SquadKeys>(options, kSquad.name);
  const data::Tokenizer tokenizer = make_tokenizer(keys, read_vocabulary(keys, kSquad.name));
  data::DatasetManifest plan = manifest_of(kSquad);
  const Converter converter(tokenizer, keys);
  if (const auto records = training_records(options.source, keys); !records.empty())
    return convert_records(options, records, keys, tokenizer.vocabulary(), std::move(plan),
                           data::TokenRecords::kWindows, converter.shape());
  const std::vector<Split> splits = read_splits(options, keys);
  const int shards = std::max(options.shards, 1);
  plan_text(plan, keys, tokenizer.vocabulary());
  for (const Split& split : splits) {
    require(shards <= static_cast<int64_t>(split.file.paragraphs.size()), Code::kInvalid, "split ",
            split.name, " of ", split.file.paragraphs.size(), " paragraphs cannot be written as ",
            shards, " shards");
    *plan.add_sources() = data::describe_source(split.path);
    data::plan_shards(plan, split.name, shards);
    data::plan_file(plan, squad_file_name(split.name), split.json);
  }
  data::DatasetWriter writer(options.output, std::move(plan), options.overwrite,
                             data::WhenStopped::kKeep);
  if (writer.complete()) return writer.manifest();
  for (const Split& split : splits) {
    write_split(split, converter, options, writer, shards);
    writer.write_attached(squad_file_name(split.name), split.json);
  }
  writer.write_attached(kVocabularyName, tokenizer.vocabulary().text());
  writer.finish();
  return writer.manifest();
}

data::Transform make_transform(const data::DatasetManifest& manifest,
                               std::string_view config_json) {
  return token_transform(data::TokenRecords::kWindows, manifest, config_json);
}

}  // namespace

std::string squad_file_name(std::string_view split) { return cat(split, ".json"); }

constinit const DatasetEntry kSquad = {
    "squad",
    "questions about paragraphs, cut into windows; source: a folder with train-v1.1.json and "
    "dev-v1.1.json (or of v2.0, or .json.gz), or one such file, or .tf_record files of the "
    "published scripts",
    "CC BY-SA 4.0",
    "",
    "windows",
    convert,
    make_transform,
    [] { return std::unique_ptr<ConversionKeys>(std::make_unique<SquadKeys>()); }};

}  // namespace assay::datasets
