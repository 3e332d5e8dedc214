// Writing a data set so that it is there whole or not at all.
//
// Shards appear under their names one by one, the manifest last. A failed or cancelled conversion
// removes what it wrote, or, where that took long, keeps the finished shards and a log of them, and
// the next conversion of the same continues there. One that was killed leaves files that are not a
// data set; without a log, or of another data set, the next conversion into the folder replaces
// them. A lock keeps two conversions apart.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sdk/data/manifest.h"
#include "sdk/data/manifest.pb.h"

namespace assay::data {

// What a conversion that stops leaves behind.
enum class WhenStopped { kRemove, kKeep };

class DatasetWriter {
 public:
  // Creates the folder if need be. kBusy when another process is converting into it. kInvalid when
  // it holds another data set, or this one from other sources or for other shards, unless
  // `overwrite`. `plan` names data set, licence, classes and sources; its splits give name, number
  // of records, and the shard names and records to be.
  DatasetWriter(const std::string& folder, DatasetManifest plan, bool overwrite,
                WhenStopped when_stopped = WhenStopped::kRemove);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;

  // The folder already holds exactly what was planned: nothing is left to do.
  bool complete() const { return complete_; }
  // The manifest in the folder; final once complete() or after finish().
  const DatasetManifest& manifest() const { return manifest_; }

  // Writes a split: calls payload_of(index, payload) for each record in order, which replaces
  // `payload`. Reports progress with the split's name.
  using PayloadFunction = std::function<void(int64_t index, std::string& payload)>;
  void write_split(const std::string& name, const PayloadFunction& payload_of,
                   const ProgressFunction& progress);

  // An entry of a source whose files may turn out unusable.
  struct Entry {
    // What is remarkable about it: a kind of Finding, which entry it is and why, and how often.
    struct Remark {
      std::string kind, example;
      int64_t count = 1;
    };
    std::string payload;
    bool usable = true;
    std::vector<Remark> remarks;
  };
  // Writes a split whose planned records are entries: calls make(index, entry) for each, on
  // `threads` threads at once, with a cleared entry. Entries that are not usable are left out;
  // kFormat when none is usable. Shards finished before are read back instead.
  using EntryFunction = std::function<void(int64_t index, Entry& entry)>;
  void write_entries(const std::string& name, const EntryFunction& make, int threads,
                     const ProgressFunction& progress);

  // Takes the records of one shard, in order.
  class ShardSink {
   public:
    virtual ~ShardSink() = default;
    virtual void write(std::string_view payload) = 0;
    // Something remarkable about the source: a kind of Finding and the case.
    virtual void note(const std::string& kind, const std::string& example, int64_t count = 1) = 0;
  };
  // Writes a split of which only the shards are planned: calls make(k, first, sink) for shard k,
  // whose first record has the number `first` in the split. Shards finished before are read back
  // instead. kFormat if there is no record in all of them. Needs WhenStopped::kKeep.
  using ShardFunction = std::function<void(int64_t shard, int64_t first, ShardSink& sink)>;
  void write_shards(const std::string& name, const ShardFunction& make);

  // Writes a file that the plan lists with plan_file, unchanged.
  void write_attached(const std::string& name, std::string_view contents);

  // kInternal when a planned split was not written.
  void finish();

 private:
  void remove_leftovers();
  void continue_from_log();
  void note_finished(const Shard& shard);
  DatasetSplit& planned_split(const std::string& name);
  void write_shard(Shard& shard, const Progress& begin, const EntryFunction& make, int threads,
                   ContentDigest& digest, const ProgressFunction& progress);
  bool read_back(const Shard& shard, ContentDigest& digest) const;

  std::string folder_;
  File lock_;
  DatasetManifest manifest_;
  WhenStopped when_stopped_;
  std::string plan_sha256_;
  std::map<std::string, Shard> finished_;  // by the log, of this plan
  std::vector<std::string> written_;
  bool complete_ = false;
};

// Adds a split of `records` in `shards` nearly equal parts, "<name>-00000-of-00004.tfrecord".
void plan_split(DatasetManifest& plan, const std::string& name, int64_t records, int shards);

// Adds a split of so many shards, of which the records become known when they are written.
void plan_shards(DatasetManifest& plan, const std::string& name, int shards);
// Adds a file that lies beside the records.
void plan_file(DatasetManifest& plan, const std::string& name, std::string_view contents);

}  // namespace assay::data
