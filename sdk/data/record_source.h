// Where a loader gets its records: numbered payloads with random access.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sdk/data/record.h"

namespace assay::data {

// Implementations are immutable; any number of threads may call at once.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual int64_t size() const = 0;
  // Replaces `payload` (capacity reused) by record `index`, 0 <= index < size().
  virtual void read(int64_t index, std::string& payload) const = 0;
  // For messages: "train-00001-of-00004.tfrecord, record 17".
  virtual std::string where(int64_t index) const = 0;
};

// Record files one after the other, in the order given.
class RecordSet : public RecordSource {
 public:
  // Opens all files at once, so that a missing or damaged one is found before training starts.
  explicit RecordSet(const std::vector<std::string>& paths);

  int64_t size() const override { return first_.back(); }
  void read(int64_t index, std::string& payload) const override;
  std::string where(int64_t index) const override;

 private:
  size_t file_of(int64_t index) const;

  std::vector<RecordFile> files_;
  std::vector<int64_t> first_;  // global index of each file's first record, and the total
};

// Some records of another source, in an order of its own; a record may come more than once.
class RecordSelection : public RecordSource {
 public:
  // kInvalid for a number that the source does not have.
  RecordSelection(std::shared_ptr<const RecordSource> source, std::vector<int64_t> records);

  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  void read(int64_t index, std::string& payload) const override;
  std::string where(int64_t index) const override;

 private:
  int64_t record(int64_t index) const;

  std::shared_ptr<const RecordSource> source_;
  std::vector<int64_t> records_;
};

// Payloads in memory, for hosts that hold their own data.
class MemorySource : public RecordSource {
 public:
  explicit MemorySource(std::vector<std::string> payloads) : payloads_(std::move(payloads)) {}

  int64_t size() const override { return static_cast<int64_t>(payloads_.size()); }
  void read(int64_t index, std::string& payload) const override;
  std::string where(int64_t index) const override;

 private:
  std::vector<std::string> payloads_;
};

}  // namespace assay::data
