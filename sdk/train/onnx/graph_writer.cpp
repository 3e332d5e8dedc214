// Nodes, constants and names of an ONNX graph; equal constants are written once.
#include "sdk/train/onnx/graph_writer.h"

#include "sdk/base/error.h"
#include "sdk/base/little_endian.h"

namespace assay::onnx {
namespace {

void set_value(pb::Attribute& to, int64_t value) {
  to.set_type(pb::Attribute::INT);
  to.set_i(value);
}
void set_value(pb::Attribute& to, float value) {
  to.set_type(pb::Attribute::FLOAT);
  to.set_f(value);
}
void set_value(pb::Attribute& to, std::string_view value) {
  to.set_type(pb::Attribute::STRING);
  to.set_s(std::string(value));
}
void set_value(pb::Attribute& to, const std::vector<int64_t>& value) {
  to.set_type(pb::Attribute::INTS);
  to.mutable_ints()->Add(value.begin(), value.end());
}
void set_value(pb::Attribute& to, const pb::Graph& value) {
  to.set_type(pb::Attribute::GRAPH);
  *to.mutable_g() = value;
}

void rename_all(pb::Graph& graph, const std::map<std::string, std::string>& names) {
  const auto rename = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) name = found->second;
  };
  for (pb::Node& node : *graph.mutable_node()) {
    for (std::string& name : *node.mutable_input()) rename(name);
    for (std::string& name : *node.mutable_output()) rename(name);
    for (pb::Attribute& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) rename_all(*attribute.mutable_g(), names);
    }
  }
}

}  // namespace

pb::ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return pb::FLOAT;
    case DType::kBf16:
      return pb::BFLOAT16;
    case DType::kF16:
      return pb::FLOAT16;
    case DType::kI32:
      return pb::INT32;
    case DType::kI64:
      return pb::INT64;
    default:
      fail(Code::kInternal, cat("no prediction has values of type ", dtype));
  }
}

std::string GraphWriter::new_name(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !taken_.insert(name).second; ++number) name = cat(wanted, "_", number);
  return name;
}

Names GraphWriter::emit(std::string_view op, Names inputs, const Attributes& attributes,
                        int results) {
  pb::Node& node = *nodes_->add_node();
  const std::string name = new_name(scope_.empty() ? std::string(op) : cat(scope_, "/", op));
  node.set_name(name);
  node.set_op_type(std::string(op));
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (const Attribute& attribute : attributes) {
    pb::Attribute& to = *node.add_attribute();
    to.set_name(std::string(attribute.name));
    std::visit([&](const auto& value) { set_value(to, value); }, attribute.value);
  }
  Names outputs;
  for (int i = 0; i < results; ++i) {
    outputs.push_back(i == 0 ? name : new_name(cat(name, ":", i)));
    node.add_output(outputs.back());
  }
  return outputs;
}

std::string GraphWriter::constant(const std::string& wanted, DType dtype,
                                  std::span<const int64_t> dims, std::string bytes) {
  pb::Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(new_name(wanted));
  tensor.set_data_type(element_type(dtype));
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  tensor.set_raw_data(std::move(bytes));
  return tensor.name();
}

std::string GraphWriter::shared(const std::string& text, DType dtype, std::span<const int64_t> dims,
                                std::string bytes) {
  std::string& name = shared_[cat(dtype, dims.size(), bytes)];
  if (name.empty()) name = constant(text, dtype, dims, std::move(bytes));
  return name;
}

std::string GraphWriter::number(float value) {
  std::string bytes;
  append_little_endian(bytes, value);
  return shared(cat("number/", value), DType::kF32, {}, std::move(bytes));
}

std::string GraphWriter::integer(int64_t value) {
  std::string bytes;
  append_little_endian(bytes, value);
  return shared(cat("integer/", value), DType::kI64, {}, std::move(bytes));
}

std::string GraphWriter::integers(const std::vector<int64_t>& list) {
  std::string bytes, text = "integers/";
  for (const int64_t value : list) {
    append_little_endian(bytes, value);
    text += cat(text.back() == '/' ? "" : ",", value);
  }
  const auto size = static_cast<int64_t>(list.size());
  return shared(text, DType::kI64, {&size, 1}, std::move(bytes));
}

void GraphWriter::rename(const std::map<std::string, std::string>& names) {
  rename_all(graph_, names);
}

}  // namespace assay::onnx
