#include "sdk/train/onnx/converter.h"

#include <algorithm>
#include <cstring>

namespace assay::onnx {
namespace {

const std::vector<int> kChannelsFirst{0, 3, 1, 2};

// [N,H,W,C] of [N,H,W,C] and of [N,h,a,w,b,C].
std::vector<Size> image_sizes(std::vector<Size> sizes) {
  if (sizes.size() != 6) return sizes;
  return {
      sizes[0], {sizes[1].number * sizes[2].number}, {sizes[3].number * sizes[4].number}, sizes[5]};
}

void declare(pb::ValueInfo& info, const std::string& name, DType dtype,
             std::span<const Size> sizes) {
  info.set_name(name);
  pb::Type::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(element_type(dtype));
  pb::Shape& shape = *type.mutable_shape();
  for (const Size& size : sizes) {
    if (!size.times_batch) {
      shape.add_dim()->set_dim_value(size.number);
    } else {
      shape.add_dim()->set_dim_param(size.number == 1 ? "batch" : cat("batch*", size.number));
    }
  }
}

}  // namespace

std::vector<int64_t> reshape_sizes(std::span<const Size> sizes) {
  std::vector<int64_t> result;
  for (const Size& size : sizes) result.push_back(size.times_batch ? -1 : size.number);
  require(std::count(result.begin(), result.end(), -1) <= 1, Code::kUnsupported,
          "a shape with two sizes that grow with the batch cannot be written to ONNX");
  return result;
}

Converter::Converter(const Graph& smaller, const Graph& larger,
                     std::span<const nn::InputSpec> inputs, pb::Graph& to)
    : smaller_(smaller),
      larger_(larger),
      specs_(inputs),
      to_(to),
      writer_(to),
      forms_(smaller.values().size()) {
  // Inputs and outputs have the names that hosts know.
  for (const nn::InputSpec& spec : inputs) {
    std::vector<Size> sizes{{1, true}};
    for (const int64_t size : spec.sample.span()) sizes.push_back({size});
    declare(*to.add_input(), writer_.new_name(spec.name), spec.dtype, sizes);
  }
  for (const GraphOutput& output : smaller.outputs()) writer_.new_name(output.name);
  for (const Node& node : smaller.nodes()) {
    const auto* input = std::get_if<Input>(&node.op);
    if (input != nullptr) forms(node.outputs[0]).plain = input->name;
  }
}

void Converter::convert(NodeId id) {
  node_ = id;
  if (constants_.contains(y())) return;
  writer_.set_scope(node().scope);
  std::visit(
      [&](const auto& op) {
        if constexpr (requires { onnx::convert(op, *this); }) {
          onnx::convert(op, *this);
        } else {
          refuse("has no counterpart");
        }
      },
      static_cast<const detail::OpVariant&>(node().op));
}

void Converter::finish() {
  writer_.set_scope("");
  std::map<std::string, std::string> names;
  const auto is_free = [&](const std::string& name) {
    const auto has_name = [&](const auto& other) { return other.name() == name; };
    return !names.contains(name) &&
           std::none_of(to_.input().begin(), to_.input().end(), has_name) &&
           std::none_of(to_.initializer().begin(), to_.initializer().end(), has_name);
  };
  for (const GraphOutput& output : smaller_.outputs()) {
    std::string name = plain(output.value);
    if (!is_free(name)) name = emit("Identity", {name});
    names.emplace(name, output.name);
    declare(*to_.add_output(), output.name, type(output.value).dtype, sizes(output.value));
  }
  writer_.rename(names);
}

void Converter::refuse(const std::string& why) const {
  fail(Code::kUnsupported, cat("cannot be exported to ONNX: op ", op_name(node().op),
                               node().scope.empty() ? "" : cat(" at ", node().scope), " ", why));
}

std::vector<Size> Converter::sizes(ValueId value) const {
  std::vector<Size> sizes;
  for (int axis = 0; axis < dims(value).rank(); ++axis) {
    const int64_t small = dims(value)[axis], large = larger_.type(value).dims[axis];
    if (small == large) {
      sizes.push_back({small});
    } else if (small * kBatches[1] == large * kBatches[0]) {
      sizes.push_back({small / kBatches[0], true});
    } else {
      refuse(cat("has the size ", small, " for a batch of ", kBatches[0], " and ", large,
                 " for one of ", kBatches[1]));
    }
  }
  return sizes;
}

const Constant* Converter::constant(ValueId value) const {
  const auto found = constants_.find(value);
  return found == constants_.end() ? nullptr : &found->second;
}

std::string Converter::plain(ValueId value) {
  std::string& name = forms(value).plain;
  if (!name.empty()) return name;
  if (const Constant* known = constant(value)) {
    name = writer_.constant(known->name, known->type.dtype, known->type.dims.span(), known->bytes);
  } else {
    name = emit("Transpose", {forms(value).image}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}});
    if (dims(value).rank() == 6) name = reshaped(name, sizes(value));
  }
  return name;
}

std::string Converter::image(ValueId value) {
  std::string& name = forms(value).image;
  if (!name.empty()) return name;
  if (const Constant* known = constant(value)) {
    name = permuted(*known, known->type.dims, kChannelsFirst);
  } else {
    name = plain(value);
    if (dims(value).rank() == 6) name = reshaped(name, image_sizes(sizes(value)));
    name = emit("Transpose", {name}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  }
  return name;
}

bool Converter::has_image(ValueId value) const {
  return !forms_[static_cast<size_t>(value.index)].image.empty();
}

void Converter::set_plain(ValueId value, std::string name) { forms(value).plain = std::move(name); }
void Converter::set_image(ValueId value, std::string name) { forms(value).image = std::move(name); }

std::string Converter::permuted(const Constant& constant, const Dims& dims,
                                const std::vector<int>& axes) {
  const size_t element = dtype_size(constant.type.dtype);
  std::vector<int64_t> strides(axes.size(), 1), sizes;
  for (int axis = dims.rank() - 2; axis >= 0; --axis)
    strides[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis) + 1] * dims[axis + 1];
  for (const int axis : axes) sizes.push_back(dims[axis]);
  std::string bytes(constant.bytes.size(), '\0');
  std::vector<int64_t> at(axes.size(), 0);
  for (size_t to = 0; to < bytes.size(); to += element) {
    int64_t from = 0;
    for (size_t i = 0; i < axes.size(); ++i) from += at[i] * strides[static_cast<size_t>(axes[i])];
    std::memcpy(&bytes[to], &constant.bytes[static_cast<size_t>(from) * element], element);
    for (size_t i = axes.size(); i-- > 0;) {
      if (++at[i] < sizes[i]) break;
      at[i] = 0;
    }
  }
  return writer_.constant(constant.name, constant.type.dtype, sizes, std::move(bytes));
}

std::string Converter::reshaped(const std::string& name, std::span<const Size> sizes) {
  return emit("Reshape", {name, writer_.integers(reshape_sizes(sizes))});
}

std::string Converter::repeated(const std::string& image, int64_t down, int64_t across) {
  const std::array factors{1.0f, 1.0f, static_cast<float>(down), static_cast<float>(across)};
  const std::string scales =
      writer_.constant("scales", DType::kF32, std::array{int64_t{4}},
                       std::string(reinterpret_cast<const char*>(factors.data()), sizeof factors));
  return emit("Resize", {image, "", scales},
              {{"mode", "nearest"},
               {"coordinate_transformation_mode", "asymmetric"},
               {"nearest_mode", "floor"}});
}

std::string Converter::cast(const std::string& name, DType to) {
  return emit("Cast", {name}, {{"to", int64_t{element_type(to)}}});
}

std::string Converter::batch() {
  if (batch_.empty())
    batch_ = emit("Gather", {emit("Shape", {to_.input(0).name()}), writer_.integer(0)});
  return batch_;
}

std::optional<nn::IndexRange> Converter::range_of(std::string_view input) const {
  for (const nn::InputSpec& spec : specs_) {
    if (spec.name == input && !spec.padding) return spec.range;
  }
  return std::nullopt;
}

}  // namespace assay::onnx
