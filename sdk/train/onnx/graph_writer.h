// A graph in the words of ONNX, written node by node. Tensors go by name; the writer makes names
// that nobody else has.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sdk/base/dtype.h"
#include "sdk/train/onnx/onnx.pb.h"

namespace assay::onnx {

struct Attribute {
  std::string_view name;
  std::variant<int64_t, float, std::string_view, std::vector<int64_t>, pb::Graph> value;
};
using Attributes = std::vector<Attribute>;
using Names = std::vector<std::string>;

// Of a type that ONNX has and inference uses: f32, bf16, f16, i32, i64.
pb::ElementType element_type(DType dtype);

class GraphWriter {
 public:
  explicit GraphWriter(pb::Graph& graph) : graph_(graph), nodes_(&graph) {}

  // Where new names stand: "layer1.0.conv1/Conv".
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // `wanted`, or that with a number behind it. From then on it is taken.
  std::string new_name(const std::string& wanted);

  // Writes a node; its results.
  Names emit(std::string_view op, Names inputs, const Attributes& attributes, int results);
  // The same for nodes with one result.
  std::string emit(std::string_view op, Names inputs, const Attributes& attributes = {}) {
    return emit(op, std::move(inputs), attributes, 1)[0];
  }

  // Constants. Equal ones of the last two are made once.
  std::string constant(const std::string& wanted, DType dtype, std::span<const int64_t> dims,
                       std::string bytes);
  std::string number(float value);                         // []
  std::string integer(int64_t value);                      // []
  std::string integers(const std::vector<int64_t>& list);  // [n]

  // While it lives nodes are written into the body of a loop, which also sees what is outside.
  class Body {
   public:
    Body(GraphWriter& writer, pb::Graph& body) : writer_(writer), before_(writer.nodes_) {
      writer_.nodes_ = &body;
    }
    ~Body() { writer_.nodes_ = before_; }
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

   private:
    GraphWriter& writer_;
    pb::Graph* before_;
  };

  // Gives the tensors of the nodes that stand in `names` those other names.
  void rename(const std::map<std::string, std::string>& names);

 private:
  std::string shared(const std::string& text, DType dtype, std::span<const int64_t> dims,
                     std::string bytes);

  pb::Graph& graph_;
  pb::Graph* nodes_;
  std::string scope_;
  std::set<std::string> taken_;
  std::map<std::string, std::string> shared_;  // by what they hold
};

}  // namespace assay::onnx
