// Files of the safetensors format: 8 bytes of length, a JSON header, dense little-endian tensors.
//
// The format has no checksum: a cut file or a nonsensical header is noticed, a changed byte inside
// a tensor cannot be. Threads: const functions of one Reader may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/dtype.h"
#include "sdk/train/checkpoint/io.h"

namespace assay::safetensors {

using checkpoint::ByteSink;
using checkpoint::ByteSource;

// Whether the beginning is that of this format: a plausible length and an opening brace.
bool looks_like(const ByteSource& source);

// A tensor in a file.
struct Tensor {
  std::string name;
  std::string type;            // as the file says it: "F32", "BF16", "BOOL", ...
  std::optional<DType> dtype;  // nothing for a type the engine has not, which cannot be read
  std::vector<int64_t> dims;
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
};

class Reader {
 public:
  // Checks the whole header: length, names, types, shapes against sizes, no overlap, no hole, no
  // byte left over. Errors: kNotFound, kIo, kFormat.
  static Reader open(const std::string& path);
  static Reader open(std::unique_ptr<ByteSource> source);

  const std::string& name() const { return source_->name(); }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const Tensor* find(std::string_view tensor) const;  // null when there is none
  // `target` is exactly tensor.bytes long, or kInvalid.
  void read(const Tensor& tensor, std::span<std::byte> target) const;

 private:
  Reader() = default;
  std::unique_ptr<ByteSource> source_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A tensor to be written; `data` gives its elements when their turn comes, so that a caller who has
// to transform them needs memory for one tensor at a time.
struct Record {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  std::function<std::span<const std::byte>()> data;  // valid until the next call of another one
};

// Larger element types come first, so that all elements are aligned; otherwise the order is kept.
// Commits the sink. Errors: kInvalid for a name that is empty, no UTF-8 or given twice, or for data
// of a wrong size.
void write(ByteSink& sink, std::span<const Record> records,
           const std::map<std::string, std::string>& metadata);
void write(const std::string& path, std::span<const Record> records,
           const std::map<std::string, std::string>& metadata);

}  // namespace assay::safetensors
