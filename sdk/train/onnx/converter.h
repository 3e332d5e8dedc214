// What a converter of one op sees: the values that its node reads and gives, as tensors of the
// ONNX graph that is written.
//
// A value has up to two forms. `plain` is it as it is here, images with their channels last.
// `image` is an image with its channels first, as ONNX's convolutions take it; [N,h,a,w,b,C], which
// is an image of h*a x w*b pixels seen in blocks, has that form too. The form that was not written
// is made when someone asks for it, once; so transposes stand only where images begin and end.
//
// Graphs here have a batch size, and files shall not. So there are two graphs, of two batch sizes,
// and what differs between them is a multiple of the batch.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sdk/graph/graph.h"
#include "sdk/nn/input.h"
#include "sdk/train/onnx/graph_writer.h"

namespace assay::onnx {

// The sizes of batch in the two graphs.
inline constexpr int64_t kBatches[] = {2, 3};

// A size, or that times the batch.
struct Size {
  int64_t number = 0;
  bool times_batch = false;
};

// An array that does not depend on what is predicted, or on the batch.
struct Constant {
  std::string name;
  ValueType type;
  std::string bytes;

  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// "-1 where the batch size is a factor": the shape that Reshape takes. kUnsupported if two sizes
// are multiples of the batch.
std::vector<int64_t> reshape_sizes(std::span<const Size> sizes);

class Converter {
 public:
  // `smaller` and `larger` are the same graph for batches of kBatches. Writes the inputs.
  Converter(const Graph& smaller, const Graph& larger, std::span<const nn::InputSpec> inputs,
            pb::Graph& to);

  // For values that are constant, before nodes are converted.
  void set_constant(ValueId value, Constant constant) {
    constants_.emplace(value, std::move(constant));
  }
  // Converts one node, by the function below for its op. kUnsupported, naming the op and its scope,
  // if there is none.
  void convert(NodeId node);
  // Declares the graph's outputs.
  void finish();

  // ---- For the functions of the ops: of the node that is converted ----
  const Node& node() const { return smaller_.node(node_); }
  // The same of the larger batch, to find what depends on that.
  template <class T>
  const T& larger() const {
    return std::get<T>(static_cast<const detail::OpVariant&>(larger_.node(node_).op));
  }
  int inputs() const { return static_cast<int>(node().inputs.size()); }
  ValueId x(int i) const { return node().inputs[static_cast<size_t>(i)]; }
  ValueId y(int i = 0) const { return node().outputs[static_cast<size_t>(i)]; }
  // Fails with kUnsupported, naming the op and its scope.
  [[noreturn]] void refuse(const std::string& why) const;

  const Graph& graph() const { return smaller_; }
  const ValueType& type(ValueId value) const { return smaller_.type(value); }
  const Dims& dims(ValueId value) const { return type(value).dims; }
  std::vector<Size> sizes(ValueId value) const;
  // Null if it is none.
  const Constant* constant(ValueId value) const;

  // The names of its forms.
  std::string plain(ValueId value);
  std::string image(ValueId value);
  bool has_image(ValueId value) const;  // without a transpose
  void set_plain(ValueId value, std::string name);
  void set_image(ValueId value, std::string name);

  GraphWriter& writer() { return writer_; }
  std::string emit(std::string_view op, Names inputs, const Attributes& attributes = {}) {
    return writer_.emit(op, std::move(inputs), attributes);
  }
  // Constants by other shapes: `axes` of `dims`, in that order.
  std::string permuted(const Constant& constant, const Dims& dims, const std::vector<int>& axes);
  // `name` in the shape of `sizes`.
  std::string reshaped(const std::string& name, std::span<const Size> sizes);
  std::string cast(const std::string& name, DType to);
  // An image in which each pixel stands that often, down and across.
  std::string repeated(const std::string& image, int64_t down, int64_t across);
  // The batch size, [] i64.
  std::string batch();
  // The range that an integer input promises.
  std::optional<nn::IndexRange> range_of(std::string_view input) const;

 private:
  struct Forms {
    std::string plain, image;
  };
  Forms& forms(ValueId value) { return forms_[static_cast<size_t>(value.index)]; }

  const Graph& smaller_;
  const Graph& larger_;
  std::span<const nn::InputSpec> specs_;
  pb::Graph& to_;
  GraphWriter writer_;
  NodeId node_;
  std::vector<Forms> forms_;  // by value
  std::map<ValueId, Constant> constants_;
  std::string batch_;
};

// The functions of the ops that a prediction can hold. They stand, by families, in shapes.cpp,
// pointwise.cpp, layers.cpp, sequences.cpp and detections.cpp.
void convert(const Reshape& op, Converter& c);
void convert(const Slice& op, Converter& c);
void convert(const Transpose& op, Converter& c);
void convert(const Concat& op, Converter& c);
void convert(const SumTo& op, Converter& c);
void convert(const Pointwise& op, Converter& c);
void convert(const Conv2d& op, Converter& c);
void convert(const Conv2dTranspose& op, Converter& c);
void convert(const Matmul& op, Converter& c);
void convert(const MaxPool& op, Converter& c);
void convert(const AvgPool& op, Converter& c);
void convert(const WeightedFusion& op, Converter& c);
void convert(const BatchNormInference& op, Converter& c);
void convert(const LayerNorm& op, Converter& c);
void convert(const Softmax& op, Converter& c);
void convert(const TopK& op, Converter& c);
void convert(const Arange& op, Converter& c);
void convert(const OffsetIndex& op, Converter& c);
void convert(const GatherRows& op, Converter& c);
void convert(const Attention& op, Converter& c);
void convert(const TopCandidates& op, Converter& c);
void convert(const DecodeBoxes& op, Converter& c);
void convert(const SoftSuppression& op, Converter& c);
void convert(const HardSuppression& op, Converter& c);

}  // namespace assay::onnx
