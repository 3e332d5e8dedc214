// Which files of a folder are records goes by their names, as the published scripts name them.
#include "datasets/text_records.h"

#include <algorithm>

#include "sdk/base/file.h"
#include "sdk/data/dataset_writer.h"
#include "sdk/data/record.h"

namespace assay::datasets {
namespace {

constexpr int64_t kRecordsBetweenReports = 4096;

bool names_records(std::string_view path) {
  const std::string name = file_name(std::string(path));
  return !name.ends_with(".idx") && (name.find("tfrecord") != std::string::npos ||
                                     name.find("tf_record") != std::string::npos);
}

}  // namespace

std::vector<std::string> published_record_files(const std::string& source) {
  if (!path_exists(source)) return {};
  std::vector<std::string> files{source};
  if (is_directory(source)) files = list_files(source, "*");
  std::erase_if(files, [](const std::string& path) { return !names_records(path); });
  return files;
}

bool is_of_records(const ConvertOptions& options, const CorpusKeys& keys,
                   std::string_view data_set) {
  const bool holds_text =
      is_directory(options.source) && !list_files(options.source, "*.txt").empty();
  if (holds_text || published_record_files(options.source).empty()) return false;
  expect(keys.held_out == 0, {data_set, "held_out"}, keys.held_out,
         "0: records do not say what document they are of");
  return true;
}

data::DatasetManifest convert_records(const ConvertOptions& options,
                                      const std::vector<std::string>& files, TextKeys& keys,
                                      const data::Vocabulary& vocabulary,
                                      data::DatasetManifest plan, data::TokenRecords records,
                                      const data::TokenShape& shape) {
  const auto count = static_cast<int64_t>(files.size());
  require(options.shards == 0 || options.shards == count, Code::kInvalid, options.source, " is ",
          count, " files of records, which stay in files of their own, not in ", options.shards);
  plan_text(plan, keys, vocabulary);
  for (const std::string& path : files) *plan.add_sources() = data::describe_source(path);
  data::plan_shards(plan, "train", static_cast<int>(count));
  data::DatasetWriter writer(options.output, std::move(plan), options.overwrite,
                             data::WhenStopped::kKeep);
  if (writer.complete()) return writer.manifest();
  const auto reader = data::make_token_transform(records, shape).make_worker();
  writer.write_shards("train", [&](int64_t shard, int64_t, auto& sink) {
    const data::RecordFile file(files[static_cast<size_t>(shard)]);
    std::string payload, prepared;
    for (int64_t i = 0; i < file.size(); ++i) {
      if (i % kRecordsBetweenReports == 0)
        data::report_progress(options.progress, {"train", shard, count});
      file.read(i, payload);
      try {
        reader->prepare(payload, prepared);
      } catch (const Error& error) {
        throw error.with_context(cat(file.path(), ", record ", i));
      }
      sink.write(payload);
    }
  });
  data::report_progress(options.progress, {"train", count, count});
  writer.write_attached(kVocabularyName, vocabulary.text());
  writer.finish();
  return writer.manifest();
}

}  // namespace assay::datasets
