// Record files of text that the published TensorFlow scripts wrote, as a source.
#pragma once

#include <string>
#include <vector>

#include "datasets/text_corpus.h"

namespace assay::datasets {

// The record files of a source: itself, or those of the folder, with "tfrecord" or "tf_record" in
// their names.
std::vector<std::string> published_record_files(const std::string& source);

// Whether the source is such files, and no folder that holds text too. kInvalid for keys that only
// texts have a use for.
bool is_of_records(const ConvertOptions& options, const CorpusKeys& keys,
                   std::string_view data_set);

// The records of `files`, unchanged, as the split train: each file is a shard. Each record is read
// as the transform will read it: kFormat names the file and the record of one that does not fit
// `shape`. `plan` has name and licence, `keys` what the records were made with.
data::DatasetManifest convert_records(const ConvertOptions& options,
                                      const std::vector<std::string>& files, TextKeys& keys,
                                      const data::Vocabulary& vocabulary,
                                      data::DatasetManifest plan, data::TokenRecords records,
                                      const data::TokenShape& shape);

}  // namespace assay::datasets
