// Bytes of a checkpoint by way of the host's functions.
#pragma once

#include <string>

#include "assay/assay.h"
#include "sdk/train/checkpoint/io.h"

namespace assay::capi {

class IoSink : public checkpoint::ByteSink {
 public:
  explicit IoSink(const assay_io& io);
  ~IoSink() override;
  void write(const void* data, size_t bytes) override;
  void commit() override;

 private:
  assay_io io_;
  bool has_begun_ = false;
  bool is_over_ = false;
};

// Its reads come one at a time, on the thread of the call: the host is promised that, although
// other sources may be read by several threads at once.
class IoSource : public checkpoint::ByteSource {
 public:
  explicit IoSource(const assay_io& io);
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return io_.size; }
  void read_at(void* target, size_t bytes, uint64_t offset) const override;

 private:
  assay_io io_;
  std::string name_ = "the host's checkpoint";
};

}  // namespace assay::capi
