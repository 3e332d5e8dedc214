// What an op sees while its types are inferred: its inputs, and where its outputs are declared.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

class InferCtx {
 public:
  InferCtx(const Graph& graph, const Op& op, std::span<const ValueId> inputs,
           const std::string& scope)
      : graph_(graph), op_(op), inputs_(inputs), scope_(scope) {}

  int n() const { return static_cast<int>(inputs_.size()); }
  const ValueType& x(int i) const;
  // Where input i lies; of what views cannot be made of, where its copy would.
  Layout layout(int i) const;
  // Declares the next output; `alias` is the input whose memory it shares, all of it.
  void y(ValueType type, int alias = -1);
  // Declares the next output as a part of the memory of input 0, or as that seen otherwise.
  void view(ValueType type, Layout layout);

  // Fails with "conv2d at layer1.0: <parts>".
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) [[unlikely]]
      fail_here(cat(parts...));
  }
  void require_inputs(int least, int most = -1) const;
  void require_dims(int i, const Dims& expected) const;
  void require_dtype(int i, DType expected) const;
  void require_data_type(int i) const;  // f32, bf16 or f16

  struct Output {
    ValueType type;
    int alias;
    Layout layout;
  };
  const std::vector<Output>& results() const { return results_; }

 private:
  [[noreturn]] void fail_here(const std::string& message) const;
  const Graph& graph_;
  const Op& op_;
  std::span<const ValueId> inputs_;
  const std::string& scope_;
  std::vector<Output> results_;
};

// Declared for every op here, defined in sdk/ops/<op>.cpp.
#define ASSAY_DECLARE(Name) void infer(const Name&, InferCtx& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay
