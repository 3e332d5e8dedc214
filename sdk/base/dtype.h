// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace assay {

// The values are written into checkpoints and are part of the C ABI: frozen, never renumbered.
enum class DType : int32_t { kF32 = 1, kBf16 = 2, kF16 = 3, kF64 = 4, kI32 = 5, kI64 = 6, kU8 = 7 };

// Bytes of one element; 0 for a value outside the enumeration.
constexpr size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

constexpr std::string_view to_text(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
  }
  return "unknown";
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16 ||
         dtype == DType::kF64;
}

// What activations and matrix operands may be.
constexpr bool is_data_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

}  // namespace assay
