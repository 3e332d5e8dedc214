// Where checkpoints are written to and read from: files or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "sdk/base/file.h"

namespace assay::checkpoint {

// Takes bytes front to back. What was written counts only after commit(); a sink destroyed before
// that discards it. Failures are raised as Error.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(const void* data, size_t bytes) = 0;
  virtual void commit() = 0;
};

// Bytes at known positions. read_at may be called by several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // for messages
  virtual uint64_t size() const = 0;
  // Reads exactly that many; the caller stays inside size().
  virtual void read_at(void* target, size_t bytes, uint64_t offset) const = 0;
};

class FileSink : public ByteSink {
 public:
  explicit FileSink(const std::string& path) : file_(path) {}
  void write(const void* data, size_t bytes) override { file_.write(data, bytes); }
  void commit() override { file_.commit(); }

 private:
  AtomicFile file_;
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path)
      : file_(File::open_read(path)), size_(file_.size()) {}
  const std::string& name() const override { return file_.path(); }
  uint64_t size() const override { return size_; }
  void read_at(void* target, size_t bytes, uint64_t offset) const override {
    file_.read_exact_at(target, bytes, offset);
  }

 private:
  File file_;
  uint64_t size_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes, std::string name = "checkpoint in memory")
      : bytes_(std::move(bytes)), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  void read_at(void* target, size_t bytes, uint64_t offset) const override;

 private:
  std::string bytes_;
  std::string name_;
};

}  // namespace assay::checkpoint
