// A batch in host memory: one dense array per array of the transform.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"
#include "sdk/data/transform.h"

namespace assay::data {

struct BatchArray {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;  // [batch, dimensions of a sample...]; images are [N, H, W, C]
  size_t bytes = 0;
  std::byte* data = nullptr;  // 64-byte aligned, owned by the batch

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// Memory is reserved once; a loader fills the same batches again and again.
class Batch {
 public:
  Batch(const std::vector<ArraySpec>& specs, int64_t rows);

  const std::vector<BatchArray>& arrays() const { return arrays_; }
  // kNotFound, listing the names.
  const BatchArray& array(const std::string& name) const;
  int64_t rows() const { return rows_; }

  // Rows [0, valid) hold samples, the others padding (ArraySpec::pad).
  int64_t valid = 0;
  // Which batch of which pass over the data this is, from 0.
  uint64_t epoch = 0;
  uint64_t index = 0;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  int64_t rows_;
  std::unique_ptr<void, Free> memory_;
  std::vector<BatchArray> arrays_;
};

}  // namespace assay::data
