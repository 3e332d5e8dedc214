// The shape of a tensor: up to kMaxRank sizes, stored inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "sdk/base/error.h"

namespace assay {

class Dims {
 public:
  static constexpr int kMaxRank = 8;

  Dims() = default;  // rank 0: a scalar, one element
  Dims(std::initializer_list<int64_t> sizes) : Dims(std::span(sizes.begin(), sizes.size())) {}
  explicit Dims(std::span<const int64_t> sizes) {
    require(sizes.size() <= kMaxRank, Code::kInvalid, "a tensor has at most ", kMaxRank,
            " dimensions, got ", sizes.size());
    for (const int64_t size : sizes) sizes_[rank_++] = size;
  }

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_[axis]; }
  int64_t& operator[](int axis) { return sizes_[axis]; }
  // Negative axes count from the end: back() is the innermost, contiguous one.
  int64_t back(int from_end = 1) const { return sizes_[rank_ - from_end]; }
  std::span<const int64_t> span() const { return {sizes_.data(), static_cast<size_t>(rank_)}; }

  // Product of all sizes (1 for a scalar).
  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : span()) product *= size;
    return product;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int axis = 0; axis < a.rank_; ++axis) {
      if (a.sizes_[axis] != b.sizes_[axis]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

// "[128,28,28,1]"
inline std::string to_text(const Dims& dims) {
  std::string text = "[";
  for (int axis = 0; axis < dims.rank(); ++axis) text += cat(axis == 0 ? "" : ",", dims[axis]);
  return text + "]";
}

}  // namespace assay
