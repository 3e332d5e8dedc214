// Two checkpoints tensor by tensor and field by field; both are read whole.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/train/checkpoint/checkpoint.h"
#include "sdk/train/checkpoint/element_cast.h"
#include "sdk/train/checkpoint/operations.h"
#include "sdk/train/checkpoint/report.pb.h"

namespace assay::checkpoint {
namespace {

using report::TensorDifference;

std::string describe(const TensorInfo& info) { return cat(info.dtype, " ", info.dims); }

TensorDifference new_difference(const TensorInfo& info, TensorDifference::Kind kind) {
  TensorDifference difference;
  difference.set_name(info.name);
  difference.set_role(std::string(to_text(info.role)));
  difference.set_kind(kind);
  return difference;
}

void compare_elements(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
                      TensorDifference& difference) {
  const size_t size = dtype_size(dtype);
  uint64_t different = 0;
  uint64_t nan_mismatches = 0;
  double max_abs = 0;
  for (size_t i = 0; i * size < a.size(); ++i) {
    // By bits: -0 and 0, and two kinds of NaN, are different and count as such, at distance 0.
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) continue;
    ++different;
    const double x = element_value(a, dtype, i);
    const double y = element_value(b, dtype, i);
    nan_mismatches += std::isnan(x) != std::isnan(y);
    if (!std::isnan(x) && !std::isnan(y) && x != y) max_abs = std::max(max_abs, std::abs(x - y));
  }
  difference.set_different_elements(different);
  difference.set_nan_mismatches(nan_mismatches);
  difference.set_max_abs_difference(max_abs);
}

// Tensors of one name: `out` counts those of equal bytes and describes the others.
void compare_tensor(const CheckpointReader& a, const TensorInfo& in_a, const CheckpointReader& b,
                    const TensorInfo& in_b, report::Comparison& out) {
  if (in_a.dtype != in_b.dtype || in_a.dims != in_b.dims) {
    TensorDifference difference = new_difference(in_a, TensorDifference::SHAPE_OR_TYPE);
    difference.set_a(describe(in_a));
    difference.set_b(describe(in_b));
    *out.add_tensors() = std::move(difference);
    return;
  }
  std::vector<std::byte> data_a(in_a.bytes);
  std::vector<std::byte> data_b(in_b.bytes);
  a.read(in_a, data_a);
  b.read(in_b, data_b);
  if (data_a == data_b) {
    out.set_equal_tensors(out.equal_tensors() + 1);
    return;
  }
  TensorDifference difference = new_difference(in_a, TensorDifference::VALUES);
  compare_elements(data_a, data_b, in_a.dtype, difference);
  *out.add_tensors() = std::move(difference);
}

// The fields of a state by name, in order.
using FieldTexts = std::vector<std::pair<std::string, std::string>>;

FieldTexts texts_of(const CheckpointState& state) {
  FieldTexts texts{{"parts", cat(state.parts)}};
  CheckpointState::fields(state, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const std::optional<LossScale>&>) {
      texts.emplace_back(name, value ? cat(value->scale, " for ", value->growth_counter) : "none");
    } else {
      texts.emplace_back(name, cat(value));
    }
  });
  return texts;
}

void compare_states(const CheckpointState& a, const CheckpointState& b, report::Comparison& out) {
  const auto compare = [&out](const std::string& field, const std::string& x,
                              const std::string& y) {
    if (x == y) return;
    const bool is_opaque = field == "data_cursor";  // only that they differ can be said
    report::StateDifference& difference = *out.add_state();
    difference.set_field(field);
    difference.set_a(is_opaque ? cat(x.size(), " bytes of the first file") : x);
    difference.set_b(is_opaque ? cat(y.size(), " bytes of the second") : y);
  };
  const FieldTexts texts_a = texts_of(a), texts_b = texts_of(b);
  for (size_t i = 0; i < texts_a.size(); ++i)
    compare(texts_a[i].first, texts_a[i].second, texts_b[i].second);
  std::map<std::string, std::string> keys = a.metadata;
  keys.insert(b.metadata.begin(), b.metadata.end());
  const auto value = [](const CheckpointState& s, const std::string& key) {
    const auto found = s.metadata.find(key);
    return found == s.metadata.end() ? std::string("absent") : cat('"', found->second, '"');
  };
  for (const auto& [key, unused] : keys) compare("metadata " + key, value(a, key), value(b, key));
}

}  // namespace

report::Comparison diff(const std::string& path_a, const std::string& path_b) {
  const CheckpointReader a = CheckpointReader::open(path_a);
  const CheckpointReader b = CheckpointReader::open(path_b);
  report::Comparison out;
  out.set_a(path_a);
  out.set_b(path_b);
  for (const TensorInfo& in_a : a.tensors()) {
    const TensorInfo* in_b = b.find(in_a.name, in_a.role);
    if (in_b == nullptr) {
      *out.add_tensors() = new_difference(in_a, TensorDifference::ONLY_IN_A);
    } else {
      compare_tensor(a, in_a, b, *in_b, out);
    }
  }
  for (const TensorInfo& in_b : b.tensors()) {
    if (a.find(in_b.name, in_b.role) == nullptr) {
      *out.add_tensors() = new_difference(in_b, TensorDifference::ONLY_IN_B);
    }
  }
  compare_states(a.state(), b.state(), out);
  out.set_identical(out.tensors().empty() && out.state().empty());
  return out;
}

}  // namespace assay::checkpoint
