// A disk that fails, for loads that must change nothing.
#pragma once

#include <string>

#include "sdk/base/error.h"
#include "sdk/train/checkpoint/io.h"

namespace assay::train::test {

// Fails when `left` reads are done.
class FailingSource : public checkpoint::ByteSource {
 public:
  FailingSource(const std::string& path, int& left) : inner_(path), left_(left) {}
  const std::string& name() const override { return inner_.name(); }
  uint64_t size() const override { return inner_.size(); }
  void read_at(void* target, size_t bytes, uint64_t offset) const override {
    require(--left_ >= 0, Code::kIo, "the disk failed");
    inner_.read_at(target, bytes, offset);
  }

 private:
  checkpoint::FileSource inner_;
  int& left_;
};

}  // namespace assay::train::test
