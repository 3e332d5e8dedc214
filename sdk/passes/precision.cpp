// Lower precision by writing the graph anew: casts stand before the operands of convolutions and
// matrix products, and the types of all that follows are inferred.
#include "sdk/passes/precision.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/graph/elementwise.h"

namespace assay {
namespace {

// Writes the graph anew with other types; types are inferred again from the changed leaves.
class PrecisionRewriter {
 public:
  PrecisionRewriter(const Graph& source, DType dtype)
      : source_(source), dtype_(dtype), map_(source.values().size()) {}

  Graph rewrite() {
    for (const Node& node : source_.nodes()) rewrite_node(node);
    target_.set_scope("");
    for (const GraphOutput& output : source_.outputs()) {
      target_.outputs().push_back(
          {output.name, as(map_[output.value.index], source_.type(output.value).dtype)});
    }
    return std::move(target_);
  }

 private:
  // How many of the first inputs the lower precision is for; none if the op is not among those that
  // it makes faster. Gives the result that type, where the op says it.
  std::optional<int> lower(Op& op) const {
    return std::visit(
        [&]<class T>(T& o) -> std::optional<int> {
          if constexpr (requires { T::kMatrixOperands; }) {
            if constexpr (requires { o.dtype; }) o.dtype = dtype_;
            return T::kMatrixOperands;
          } else {
            return std::nullopt;
          }
        },
        op);
  }

  // `value` in type `dtype`, through a shared cast.
  ValueId as(ValueId value, DType dtype) {
    if (target_.type(value).dtype == dtype || !is_float(target_.type(value).dtype)) return value;
    auto& cast = casts_[{value, dtype}];
    if (!cast.valid()) cast = assay::cast(target_, value, dtype);
    return cast;
  }

  // Gives the inputs of these dims, or all, one type: the lower one if any has it.
  void agree(std::vector<ValueId>& inputs, const std::optional<Dims>& dims) {
    const auto has = [&](ValueId input, DType dtype) {
      const ValueType& type = target_.type(input);
      return type.dtype == dtype && (!dims || type.dims == *dims);
    };
    if (std::none_of(inputs.begin(), inputs.end(), [&](ValueId x) { return has(x, dtype_); }))
      return;
    for (ValueId& input : inputs) {
      if (has(input, DType::kF32)) input = as(input, dtype_);
    }
  }

  void rewrite_node(const Node& node) {
    target_.set_scope(node.scope);
    Op op = node.op;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(map_[input.index]);
    if (const std::optional<int> operands = lower(op)) {
      for (int i = 0; i < *operands; ++i) inputs[static_cast<size_t>(i)] = as(inputs[i], dtype_);
    } else if (const auto* p = std::get_if<Pointwise>(&op);
               (p != nullptr && !p->dtype) || std::holds_alternative<LayerNorm>(op)) {
      agree(inputs, source_.type(node.outputs[0]).dims);
    } else if (std::holds_alternative<Concat>(op)) {
      agree(inputs, std::nullopt);
    }
    const auto outputs = target_.emit(std::move(op), inputs);
    for (size_t i = 0; i < outputs.size(); ++i) map_[node.outputs[i].index] = outputs[i];
  }

  const Graph& source_;
  DType dtype_;
  Graph target_;
  std::vector<ValueId> map_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

Precision parse_precision(std::string_view text) {
  std::vector<std::string_view> known;
  for (const Precision precision :
       {Precision::kF32, Precision::kTf32, Precision::kAmpF16, Precision::kAmpBf16}) {
    if (to_text(precision) == text) return precision;
    known.push_back(to_text(precision));
  }
  fail_mismatch(Code::kInvalid, {"precision", "precision", cat('"', text, '"'),
                                 enumerate(known, true), suggestion(text, known)});
}

void apply_precision(Graph& graph, Precision precision, const Target& target) {
  if (precision == Precision::kF32) return;
  const bool offered = precision == Precision::kTf32     ? target.has_tf32
                       : precision == Precision::kAmpF16 ? target.has_f16
                                                         : true;
  if (!offered) {
    fail(Code::kUnsupported,
         cat("precision ", precision, " needs a CUDA device; this one takes fp32 and amp-bf16"),
         {.argument = "precision",
          .expected = "\"fp32\" or \"amp-bf16\"",
          .actual = std::string(to_text(precision))});
  }
  if (precision == Precision::kTf32) {
    graph.set_tf32(true);
  } else {
    const DType dtype = precision == Precision::kAmpF16 ? DType::kF16 : DType::kBf16;
    graph = PrecisionRewriter(graph, dtype).rewrite();
  }
}

}  // namespace assay
