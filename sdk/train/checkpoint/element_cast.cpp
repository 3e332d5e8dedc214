// Elements as files hold them: any alignment, so they are copied rather than addressed. f64 holds
// every other floating type exactly and is what conversions go through.
#include "sdk/train/checkpoint/element_cast.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "sdk/base/bfloat16.h"
#include "sdk/base/error.h"
#include "sdk/base/float16.h"

namespace assay::checkpoint {
namespace {

template <class T>
T load(std::span<const std::byte> data, size_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> data, size_t index, T value) {
  std::memcpy(data.data() + index * sizeof(T), &value, sizeof(T));
}

// Of the two f32 numbers around a value that lies between them, the one with an odd last bit. What
// this is rounded to afterwards, with two bits less or fewer, is what the value itself would be
// rounded to: the last bit keeps that it was no tie.
float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const double found = static_cast<double>(nearest);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (found == value || std::isnan(value) || bits % 2 == 1) return nearest;
  return std::bit_cast<float>(std::abs(found) > std::abs(value) ? bits - 1 : bits + 1);
}

void store_float(std::span<std::byte> data, DType dtype, size_t index, double value) {
  switch (dtype) {
    case DType::kF64:
      return store(data, index, value);
    case DType::kBf16:
      return store(data, index, Bfloat16(rounded_to_odd(value)));
    case DType::kF16:
      return store(data, index, Float16(rounded_to_odd(value)));
    default:
      return store(data, index, static_cast<float>(value));
  }
}

}  // namespace

std::vector<std::byte> permute(std::span<const std::byte> source, size_t element_bytes,
                               std::span<const int64_t> dims, std::span<const int> order) {
  const size_t rank = dims.size();
  std::vector<size_t> source_strides(rank, element_bytes);
  for (size_t axis = rank; axis-- > 1;) {
    source_strides[axis - 1] = source_strides[axis] * static_cast<size_t>(dims[axis]);
  }
  std::vector<std::byte> result(source.size());
  std::vector<int64_t> index(rank, 0);  // in the order of the result
  for (size_t to = 0; to < result.size(); to += element_bytes) {
    size_t from = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      from += static_cast<size_t>(index[axis]) * source_strides[static_cast<size_t>(order[axis])];
    }
    std::memcpy(result.data() + to, source.data() + from, element_bytes);
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < dims[static_cast<size_t>(order[axis])]) break;
      index[axis] = 0;
    }
  }
  return result;
}

void cast_elements(std::span<const std::byte> source, DType from, std::span<std::byte> target,
                   DType to) {
  const size_t count = source.size() / dtype_size(from);
  require(target.size() == count * dtype_size(to), Code::kInternal, "casting ", count,
          " elements of ", from, " into ", target.size(), " bytes of ", to);
  if (from == to) {
    if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
    return;
  }
  require(is_float(from) && is_float(to), Code::kUnsupported, "casting ", from, " to ", to);
  for (size_t i = 0; i < count; ++i) store_float(target, to, i, element_value(source, from, i));
}

double element_value(std::span<const std::byte> data, DType dtype, size_t index) {
  switch (dtype) {
    case DType::kF32:
      return load<float>(data, index);
    case DType::kF64:
      return load<double>(data, index);
    case DType::kBf16:
      return static_cast<float>(load<Bfloat16>(data, index));
    case DType::kF16:
      return static_cast<float>(load<Float16>(data, index));
    case DType::kI32:
      return load<int32_t>(data, index);
    case DType::kI64:
      return static_cast<double>(load<int64_t>(data, index));
    case DType::kU8:
      return load<uint8_t>(data, index);
  }
  return 0;
}

}  // namespace assay::checkpoint
