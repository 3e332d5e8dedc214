// Several record files as one list, and chosen records of a list as another.
#include "sdk/data/record_source.h"

#include <algorithm>

#include "sdk/base/expect.h"

namespace assay::data {

RecordSet::RecordSet(const std::vector<std::string>& paths) {
  require(!paths.empty(), Code::kInvalid, "a record set needs at least one file");
  first_.push_back(0);
  for (const std::string& path : paths) {
    files_.emplace_back(path);
    first_.push_back(first_.back() + files_.back().size());
  }
}

size_t RecordSet::file_of(int64_t index) const {
  require(index >= 0 && index < size(), Code::kInvalid, "the record set has ", size(),
          " records, asked for record ", index);
  const auto after = std::upper_bound(first_.begin(), first_.end(), index);
  return static_cast<size_t>(after - first_.begin()) - 1;
}

void RecordSet::read(int64_t index, std::string& payload) const {
  const size_t file = file_of(index);
  files_[file].read(index - first_[file], payload);
}

std::string RecordSet::where(int64_t index) const {
  const size_t file = file_of(index);
  return cat(files_[file].path(), ", record ", index - first_[file]);
}

RecordSelection::RecordSelection(std::shared_ptr<const RecordSource> source,
                                 std::vector<int64_t> records)
    : source_(std::move(source)), records_(std::move(records)) {
  for (const int64_t record : records_) {
    expect(record >= 0 && record < source_->size(), {"loader", "record"}, record, "0 to ",
           source_->size() - 1);
  }
}

int64_t RecordSelection::record(int64_t index) const {
  require(index >= 0 && index < size(), Code::kInvalid, "the selection has ", size(),
          " records, asked for record ", index);
  return records_[static_cast<size_t>(index)];
}

void RecordSelection::read(int64_t index, std::string& payload) const {
  source_->read(record(index), payload);
}

std::string RecordSelection::where(int64_t index) const { return source_->where(record(index)); }

void MemorySource::read(int64_t index, std::string& payload) const {
  require(index >= 0 && index < size(), Code::kInvalid, "the source has ", size(),
          " records, asked for record ", index);
  payload = payloads_[static_cast<size_t>(index)];
}

std::string MemorySource::where(int64_t index) const { return cat("record ", index, " in memory"); }

}  // namespace assay::data
