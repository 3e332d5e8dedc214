// Inputs and outputs of an op whose types are being inferred; refusals name the op and its scope.
#include "sdk/graph/infer_ctx.h"

#include <algorithm>
#include <utility>

namespace assay {
namespace {

std::string place(const Op& op, const std::string& scope) {
  return cat(op_name(op), scope.empty() ? "" : " at ", scope);
}

}  // namespace

const ValueType& InferCtx::x(int i) const {
  require(i < n(), "needs more than ", n(), " inputs");
  return graph_.type(inputs_[i]);
}

// Beyond any machine's address space, and far from where sums of sizes overflow.
void InferCtx::y(ValueType type, int alias) {
  constexpr int64_t kMostBytes = int64_t{1} << 47;
  auto bytes = static_cast<int64_t>(dtype_size(type.dtype));
  for (const int64_t size : type.dims.span()) {
    require(size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) &&
                bytes <= kMostBytes,
            "the result would be ", type, ", which no memory can hold");
  }
  results_.push_back({type, alias, alias < 0 ? dense_layout(type.dims) : layout(alias)});
}

void InferCtx::view(ValueType type, Layout layout) { results_.push_back({type, 0, layout}); }

Layout InferCtx::layout(int i) const {
  const Value& value = graph_.value(inputs_[i]);
  return value.layout.border ? dense_layout(value.type.dims) : value.layout;
}

void InferCtx::fail_here(const std::string& message) const {
  fail(Code::kInvalid, cat(place(op_, scope_), ": ", message), {.op_path = scope_});
}

void InferCtx::require_inputs(int least, int most) const {
  if (most < 0) {
    require(n() == least, "takes ", least, " inputs, got ", n());
  } else {
    require(n() >= least && n() <= most, "takes ", least, " to ", most, " inputs, got ", n());
  }
}

void InferCtx::require_dims(int i, const Dims& expected) const {
  if (x(i).dims == expected) return;
  const std::string actual = to_text(x(i).dims), wanted = to_text(expected);
  fail(Code::kInvalid,
       cat(place(op_, scope_), ": input ", i, " has shape ", actual, ", expected ", wanted),
       {.op_path = scope_, .expected = wanted, .actual = actual});
}

void InferCtx::require_dtype(int i, DType expected) const {
  if (x(i).dtype == expected) return;
  const std::string actual(to_text(x(i).dtype)), wanted(to_text(expected));
  fail(Code::kInvalid,
       cat(place(op_, scope_), ": input ", i, " is ", actual, ", expected ", wanted),
       {.op_path = scope_, .expected = wanted, .actual = actual});
}

void InferCtx::require_data_type(int i) const {
  const DType dtype = x(i).dtype;
  if (is_data_type(dtype)) return;
  const std::string actual(to_text(dtype)), wanted = "f32, bf16 or f16";
  fail(Code::kInvalid,
       cat(place(op_, scope_), ": input ", i, " is ", actual, ", expected ", wanted),
       {.op_path = scope_, .expected = wanted, .actual = actual});
}

}  // namespace assay
