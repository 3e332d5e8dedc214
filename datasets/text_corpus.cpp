// A corpus is read twice: once to find its documents and its digest, in pieces of constant size,
// and once document by document.
#include "datasets/text_corpus.h"

#include <algorithm>

#include "sdk/base/file.h"
#include "sdk/base/sha256.h"
#include "sdk/data/ordered_map.h"
#include "sdk/data/streams.h"

namespace assay::datasets {
namespace {

constexpr uint64_t kBytesPerShard = uint64_t{8} << 20;
constexpr int64_t kDocumentsPerReport = 16;

// A stretch of bytes of a file. Its last line may be the last of the file.
struct TextRange {
  size_t file = 0;
  uint64_t begin = 0, end = 0;
  int64_t line = 0;  // of the file, from 1
  uint64_t size() const { return end - begin; }
};

// Finds documents in the bytes of a file, given in pieces.
class DocumentFinder {
 public:
  DocumentFinder(size_t file, std::vector<TextRange>& documents)
      : file_(file), documents_(documents) {}

  void add(std::string_view piece) {
    for (const char c : piece) {
      ++at_;
      if (c == '\n') {
        end_line();
      } else if (c != ' ' && c != '\t' && c != '\r') {
        is_blank_ = false;
      }
    }
  }

  void finish() {
    if (line_begin_ < at_) end_line();
    end_document();
  }

 private:
  void end_line() {
    if (is_blank_) {
      end_document();
    } else {
      if (current_.size() == 0) current_ = {file_, line_begin_, at_, line_};
      current_.end = at_;
    }
    line_begin_ = at_;
    is_blank_ = true;
    ++line_;
  }

  void end_document() {
    if (current_.size() > 0) documents_.push_back(current_);
    current_ = {};
  }

  const size_t file_;
  std::vector<TextRange>& documents_;
  TextRange current_;
  uint64_t at_ = 0, line_begin_ = 0;
  int64_t line_ = 1;
  bool is_blank_ = true;
};

struct Corpus {
  std::vector<std::string> paths;
  std::vector<data::SourceFile> sources;
  std::vector<TextRange> documents;
};

std::vector<std::string> text_files(const std::string& source) {
  require(path_exists(source), Code::kNotFound, source, " is not there");
  if (!is_directory(source)) return {source};
  std::vector<std::string> files = list_files(source, "*.txt");
  require(!files.empty(), Code::kNotFound, source,
          " holds neither .txt nor .tfrecord files; packed ones (.gz, .xz) have to be unpacked "
          "first");
  std::ranges::sort(files);
  return files;
}

Corpus find_documents(const std::string& source, const data::ProgressFunction& progress) {
  Corpus corpus{text_files(source), {}, {}};
  for (size_t k = 0; k < corpus.paths.size(); ++k) {
    const File file = File::open_read(corpus.paths[k]);
    const auto total = static_cast<int64_t>(file.size() >> 20);
    const std::string phase = cat("reading ", file_name(corpus.paths[k]), " (MiB)");
    std::string piece(size_t{1} << 20, '\0');
    Sha256 sum;
    DocumentFinder finder(k, corpus.documents);
    uint64_t offset = 0;
    while (const size_t count = file.read_at(piece.data(), piece.size(), offset)) {
      data::report_progress(progress, {phase, static_cast<int64_t>(offset >> 20), total});
      sum.update(piece.data(), count);
      finder.add(std::string_view(piece).substr(0, count));
      offset += count;
    }
    finder.finish();
    data::report_progress(progress, {phase, total, total});
    data::SourceFile& described = corpus.sources.emplace_back();
    described.set_file(file_name(corpus.paths[k]));
    described.set_bytes(offset);
    described.set_sha256(sum.hex());
  }
  require(!corpus.documents.empty(), Code::kFormat, source, " holds no text");
  return corpus;
}

struct Split {
  std::string name;
  std::vector<TextRange> documents;
  std::vector<size_t> part_begins;  // of the parts, and the end
};

// Parts of about the same size; as many as there are, but none without a document.
void cut(Split& split, int shards) {
  uint64_t total = 0, done = 0;
  for (const TextRange& document : split.documents) total += document.size();
  const uint64_t parts = shards != 0 ? static_cast<uint64_t>(shards) : total / kBytesPerShard + 1;
  require(parts <= split.documents.size() || shards == 0, Code::kInvalid, "split ", split.name,
          " of ", split.documents.size(), " documents cannot be written as ", shards, " shards");
  const size_t count = std::min<size_t>(parts, split.documents.size());
  split.part_begins = {0};
  for (size_t i = 0; i < split.documents.size() && split.part_begins.size() < count; ++i) {
    done += split.documents[i].size();
    const size_t left = split.documents.size() - i - 1;
    const bool full = done * count >= total * split.part_begins.size();
    if (full || left == count - split.part_begins.size()) split.part_begins.push_back(i + 1);
  }
  split.part_begins.push_back(split.documents.size());
}

std::vector<Split> make_splits(const Corpus& corpus, int64_t held_out, int shards) {
  std::vector<Split> splits{{"train", {}, {}}};
  if (held_out > 0) splits.push_back({"test", {}, {}});
  for (size_t i = 0; i < corpus.documents.size(); ++i) {
    const bool held = held_out > 0 && (static_cast<int64_t>(i) + 1) % held_out == 0;
    splits[held ? 1 : 0].documents.push_back(corpus.documents[i]);
  }
  for (Split& split : splits) {
    require(!split.documents.empty(), Code::kFormat, "split ", split.name,
            " has no documents: the corpus has ", corpus.documents.size(), ", held_out is ",
            held_out);
    cut(split, shards);
  }
  return splits;
}

data::Documents read_range(const Corpus& corpus, const TextRange& range, data::Lines lines,
                           const data::Tokenizer& tokenizer) {
  const std::string& path = corpus.paths[range.file];
  std::string text(range.size(), '\0');
  File::open_read(path).read_exact_at(text.data(), text.size(), range.begin);
  try {
    return data::read_documents(text, lines, tokenizer, range.line);
  } catch (const Error& error) {
    throw error.with_context(path);
  }
}

}  // namespace

void CorpusKeys::fields(ConfigFields& f) {
  TextKeys::fields(f);
  f("lines", lines, "what a line is: one sentence, or a paragraph that is cut into sentences")
      .one_of({"sentences", "paragraphs"});
  f("held_out", held_out, "every so many-th document goes to the split test; 0: none")
      .in({0, 1'000'000'000, true});
  f("seed", seed, "of what is drawn");
}

data::DatasetManifest convert_corpus(const ConvertOptions& options, CorpusKeys& keys,
                                     const data::Tokenizer& tokenizer, data::DatasetManifest plan,
                                     const CorpusFunction& make) {
  const Corpus corpus = find_documents(options.source, options.progress);
  const std::vector<Split> splits = make_splits(corpus, keys.held_out, options.shards);
  plan_text(plan, keys, tokenizer.vocabulary());
  for (const data::SourceFile& source : corpus.sources) *plan.add_sources() = source;
  for (const Split& split : splits)
    data::plan_shards(plan, split.name, static_cast<int>(split.part_begins.size()) - 1);
  data::DatasetWriter writer(options.output, std::move(plan), options.overwrite,
                             data::WhenStopped::kKeep);
  if (writer.complete()) return writer.manifest();
  const auto lines = keys.lines == "sentences" ? data::Lines::kSentences : data::Lines::kParagraphs;
  for (size_t k = 0; k < splits.size(); ++k) {
    const Split& split = splits[k];
    const auto total = static_cast<int64_t>(split.documents.size());
    writer.write_shards(split.name, [&](int64_t part, int64_t, auto& sink) {
      const auto first = static_cast<int64_t>(split.part_begins[static_cast<size_t>(part)]);
      const auto end = static_cast<int64_t>(split.part_begins[static_cast<size_t>(part) + 1]);
      data::Documents documents;
      const auto read = [&](int64_t i, data::Documents& found) {
        found =
            read_range(corpus, split.documents[static_cast<size_t>(first + i)], lines, tokenizer);
      };
      const auto collect = [&](int64_t i, data::Documents& found) {
        if (i % kDocumentsPerReport == 0)
          data::report_progress(options.progress, {split.name, first + i, total});
        std::ranges::move(found, std::back_inserter(documents));
      };
      data::ordered_map<data::Documents>(end - first, options.threads, read, collect);
      if (documents.empty()) return;
      make(documents,
           PhiloxStream(keys.seed, data::kPairsStream, static_cast<uint64_t>(part),
                        static_cast<uint32_t>(k)),
           sink);
    });
    data::report_progress(options.progress, {split.name, total, total});
  }
  writer.write_attached(kVocabularyName, tokenizer.vocabulary().text());
  writer.finish();
  return writer.manifest();
}

}  // namespace assay::datasets
